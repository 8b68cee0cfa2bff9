"""The server as a child process: its output read as it comes, one SIGTERM at most, and nothing of it left behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from pipeline.errors import StageError
from pipeline.host import procs
from pipeline.host.members import Members, tops
from pipeline.serving import leash
from pipeline.serving.log_lines import Lines

SETTLE_S, TERM_S = 3.0, 5.0
"""What outlives the server's main process gets the first to go by itself, then SIGTERM, then the second before SIGKILL."""
_POLL_S, _WAKE_S = 0.05, 0.5
_READ_BYTES = 1 << 16


class Child:
    """One server. A thread reads its output: ``on_bytes`` gets it at once, ``on_line`` each line, the last one as often as it grows."""

    def __init__(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        attempt: str,
        leashed: bool,
        on_bytes: Callable[[bytes], None],
        on_line: Callable[[str], None],
    ):
        """Start it. ``leashed``: it gets SIGTERM when this process dies. Raises StageError when it cannot be started."""
        procs.become_subreaper()  # workers whose parent died stay in this process's tree, and are found there
        if leashed:
            command = [sys.executable, "-S", leash.__file__, str(os.getpid()), *command]
        try:
            # In a process group of its own, so that a Ctrl-C at the terminal reaches the stage alone, and the server gets one SIGTERM.
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        except OSError as error:
            raise StageError(f"cannot start {command[0]}: {error.strerror}") from None
        self.pid = self._process.pid
        self._identity = procs.identity(self.pid)
        self._members = Members({**self._identity, "attempt": attempt, "own_session": False}, set())
        self._told = False
        self.lines = Lines()
        self._on_bytes, self._on_line = on_bytes, on_line
        self._reader = threading.Thread(target=self._read, name="server-output", daemon=True)
        self._reader.start()

    def exit_code(self) -> int | None:
        """None while it lives; negative: the signal that ended it."""
        return self._process.poll()

    def how_it_ended(self) -> str:
        """``exit code 1`` or ``SIGKILL``. Call when it has ended."""
        code = self._process.poll()
        if code is not None and code < 0:
            try:
                return signal.Signals(-code).name
            except ValueError:
                return f"signal {-code}"
        return f"exit code {code}"

    def last_words(self) -> str:
        """Why it ended, as far as its output tells. Waits a moment for output that is on its way."""
        self._reader.join(1.0)  # a worker that lives on holds the pipe open
        return self.lines.cause()

    def others(self) -> list[int]:
        """Pids of its workers and whatever else descends from it and lives."""
        self.reap()
        return sorted(stat.pid for stat in self._members.others())

    def look(self) -> None:
        """Remember who is there now, so that a worker which hides later is found."""
        self.reap()
        self._members.look()

    def reap(self) -> None:
        """Collect orphans of the server that fell to this process."""
        for pid in procs.descendants({os.getpid()}):
            stat = procs.read_stat(pid)
            if stat is not None and stat.state in procs.DEAD and stat.ppid == os.getpid() and pid != self.pid:
                try:
                    os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    continue

    def terminate(self) -> bool:
        """The one SIGTERM, to the main process alone: a second one makes vLLM kill its workers. False: it has had it already."""
        if self._told:
            return False
        self._told = True
        procs.signal_process(self._identity, signal.SIGTERM)
        return True

    def await_end(self, timeout_s: float) -> bool:
        """Whether the main process has ended within this time."""
        deadline = time.monotonic() + timeout_s
        while True:
            if self._told:
                self._wake()
            try:
                self._process.wait(max(0.0, min(_WAKE_S, deadline - time.monotonic())))
                return True
            except subprocess.TimeoutExpired:
                if time.monotonic() >= deadline:
                    return False

    def _wake(self) -> None:
        stat = procs.read_stat(self.pid)
        if stat is not None and stat.state in "Tt":
            procs.signal_process(self._identity, signal.SIGCONT)  # frozen, or freezing when the SIGTERM came: it could not act on it

    def end_others(self) -> list[int]:
        """End what outlived the main process: time to go by itself, SIGTERM, time, SIGKILL. Returns the pids that were signalled."""
        left = self._until_gone(SETTLE_S)
        if not left:
            return []
        self._members.send(tops(self._members.others()), signal.SIGTERM)  # vLLM's engine ends its workers itself, in its own order
        if self._until_gone(TERM_S):
            self.kill_all()
        return left

    def kill_all(self) -> list[int]:
        """SIGKILL to everything that is left of it; returns the pids that outlived even that."""
        return [stat.pid for stat in self._members.kill_all(lambda _: None, self._reap_all)]

    def _reap_all(self) -> None:
        self._process.poll()
        self.reap()

    def _until_gone(self, timeout_s: float) -> list[int]:
        deadline = time.monotonic() + timeout_s
        left = self.others()
        while left and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            left = self.others()
        return left

    def _read(self) -> None:
        assert self._process.stdout is not None
        source = self._process.stdout.fileno()
        while data := os.read(source, _READ_BYTES):
            self._on_bytes(data)
            for line in self.lines.feed(data):
                self._on_line(line)
            self._on_line(self.lines.unended())
        for line in self.lines.end():
            self._on_line(line)
