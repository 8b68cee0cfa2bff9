"""Work that may hang in the kernel, done by a forked child with a deadline.

Reading another process's command line, environment or mappings takes that process's memory lock; while a driver holds it, the reader
sleeps uninterruptibly. The child says before each process which one comes next, so that the one that hangs can be named and left out.
"""

import json
import os
import select
import signal
import time
from typing import Any, Callable, NoReturn, Optional, Tuple

STALL_S = 5.0
_POLL_MS = 100

Told = Callable[[int], None]


class CancelledError(Exception):
    """Nobody waits for the answer any more."""


def answer(
    work: Callable[[Told], Any], stall_s: float = STALL_S, cancelled: Callable[[], bool] = lambda: False
) -> Tuple[Optional[Any], Optional[int], str]:
    """(value, pid, why): what ``work`` returned (JSON); or None, the process that it hangs at (None: at none) and the reason.

    ``work`` calls its argument with a pid before it touches that process. Raises CancelledError.
    """
    pid, fd = start(work)
    try:
        return _listen(fd, stall_s, cancelled)
    finally:
        os.close(fd)
        _end(pid)


def start(work: Callable[[Told], Any]) -> Tuple[int, int]:
    """(pid, descriptor) of a child that does ``work``, and writes a line: the JSON of what came of it, or ``!`` and why nothing did."""
    read_end, write_end = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(read_end)
        os.close(write_end)
        raise
    if pid == 0:
        _child(work, write_end)
    os.close(write_end)
    return pid, read_end


def _listen(fd: int, stall_s: float, cancelled: Callable[[], bool]) -> Tuple[Optional[Any], Optional[int], str]:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    at: Optional[int] = None
    rest = b""
    deadline = time.monotonic() + stall_s
    while time.monotonic() < deadline:
        if cancelled():
            raise CancelledError
        if not poller.poll(_POLL_MS):
            continue
        data = os.read(fd, 1 << 16)
        if not data:
            return None, None, "the look at the processes ended early"
        deadline = time.monotonic() + stall_s
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"@"):
                at = int(line[1:])
            elif line.startswith(b"!"):
                return None, None, line[1:].decode("utf-8", "replace")
            else:
                return json.loads(line.decode()), None, ""
    return None, at, "no answer for %.0f s" % stall_s


def _child(work: Callable[[Told], Any], out: int) -> NoReturn:
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        for name in os.listdir("/proc/self/fd"):  # locks and the client's channel above all: this process may stay for good
            if int(name) > 2 and int(name) != out:
                try:
                    os.close(int(name))
                except OSError:
                    continue  # the listing's own
        value = work(lambda pid: _write(out, b"@%d\n" % pid))
        _write(out, json.dumps(value, separators=(",", ":")).encode() + b"\n")
    except BaseException as error:
        _write(out, ("!%s: %s" % (type(error).__name__, error)).replace("\n", " ").encode("utf-8", "replace")[:500] + b"\n")
    os._exit(0)


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _end(pid: int) -> None:
    """Collect the child; one that has not ended by itself is killed. One that hangs in the kernel stays, and falls to init with time."""
    try:
        for turn in range(60):
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            if turn == 30:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)
    except (ChildProcessError, ProcessLookupError):
        pass
