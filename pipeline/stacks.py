"""A stage that hangs can still say where: on SIGUSR1 faulthandler writes the stacks of all its threads into the attempt's directory.

Its file tells by its first line that this process is registered; nobody sends the signal to one that has no such file.

In the signal's own handler only the main thread's stack is written, which stands still meanwhile. The other threads follow as soon as
the interpreter runs a handler of Python, with its lock held: walked without it, while they run, they end the process by SIGSEGV
(CPython 3.11.7: in 7 of 8 processes with one busy thread within 150 signals; this way in none). A main thread that hangs in C tells of
itself alone.
"""

import contextlib
import faulthandler
import os
import signal
import threading
from collections.abc import Iterator

from pipeline.contract import layout
from pipeline.host import procs


@contextlib.contextmanager
def registered(directory: str) -> Iterator[None]:
    """While the stage works. Where there is no such signal, or no room for the file, it does without."""
    me = procs.read_stat(os.getpid())
    path = os.path.join(directory, layout.stacks_file(os.getpid()))
    taken = signal.getsignal(signal.SIGUSR1) not in (signal.SIG_DFL, signal.SIG_IGN)
    if me is None or taken or threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        file = open(path, "wb", buffering=0)  # nothing is left to be written, and to fail, when it is closed
    except OSError:
        yield
        return
    with file:
        signal.signal(signal.SIGUSR1, lambda number, frame: faulthandler.dump_traceback(file, all_threads=True))
        faulthandler.register(signal.SIGUSR1, file=file, all_threads=False, chain=True)
        try:
            with contextlib.suppress(OSError):
                file.write(layout.stacks_head(me.start_ticks).encode("ascii") + b"\n")
            yield
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)
            faulthandler.unregister(signal.SIGUSR1)
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # one that comes too late is the end of nobody
