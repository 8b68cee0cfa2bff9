"""A real terminal for tests and benchmarks: a program in a pty, what it painted decoded by pyte."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyte

# What pyte takes for text or for something else: keyboard protocol, mode and colour requests. None of them paints.
_NOT_FOR_PYTE = re.compile(r"\x1b\[[<>=][0-9;]*[a-zA-Z]|\x1b\[\?[0-9;]*\$p|\x1b\[\?[0-9;]*u")


def console(*options: str, columns: int = 80, rows: int = 24, ignore_hangup: bool = False) -> "Terminal":
    """The real console on a scripted link: ``pty_program.py`` with these options."""
    program = str(Path(__file__).with_name("pty_program.py"))
    return Terminal([sys.executable, program, *options], columns, rows, {"PYTHONPATH": os.pathsep.join(sys.path)}, ignore_hangup)


class Terminal:
    """``command`` in a terminal of its own. ``until`` waits for what it paints; ``close`` takes the terminal away."""

    def __init__(self, command: Sequence[str], columns: int, rows: int, env: dict[str, str] | None = None, ignore_hangup: bool = False):
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._torn = b""
        self._decoded = 0
        self.received: list[tuple[float, bytes]] = []
        """Every piece that came, and when (``time.monotonic``)."""
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8", **(env or {})}
        for name in ("NO_COLOR", "COLUMNS", "LINES", "TEXTUAL_ANIMATIONS"):
            if name not in (env or {}):
                environment.pop(name, None)
        self.started_s = time.monotonic()
        self.pid, self._master = pty.fork()
        if self.pid == 0:  # only what is needed between fork and exec
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
                if ignore_hangup:
                    signal.signal(signal.SIGHUP, signal.SIG_IGN)
                os.execvpe(command[0], list(command), environment)
            finally:
                os._exit(127)
        self.exit_status: int | None = None

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
        if not self.wait(0):
            os.kill(self.pid, signal.SIGKILL)
            self.wait(10)

    @property
    def lines(self) -> list[str]:
        """The painted screen."""
        return list(self.screen.display)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def send(self, keys: str) -> float:
        """Type; when it was (``time.monotonic``)."""
        moment_s = time.monotonic()
        os.write(self._master, keys.encode())
        return moment_s

    def read(self, timeout_s: float) -> bool:
        """Take what has come, waiting for it; False once the terminal is closed on the other side."""
        if not select.select([self._master], [], [], timeout_s)[0]:
            return True
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:
            return False
        self.received.append((time.monotonic(), data))
        return bool(data)

    def read_for(self, seconds: float) -> int:
        """Take what comes for so long, without decoding or keeping it; how many bytes it was."""
        deadline, count = time.monotonic() + seconds, 0
        while (left := deadline - time.monotonic()) > 0 and self.read(left):
            count += sum(len(piece) for _, piece in self.received)
            self.received.clear()
        self._decoded = 0
        return count

    def decode(self) -> None:
        """Bring ``screen`` up to date with what was received."""
        data, self._torn = self._torn + b"".join(piece for _, piece in self.received[self._decoded :]), b""
        self._decoded = len(self.received)
        cut = data.rfind(b"\x1b", max(len(data) - 64, 0))
        if cut >= 0 and not re.match(rb"\x1b(\[[0-?]*[ -/]*[@-~]|[^\[\]PX^_])", data[cut:]):
            data, self._torn = data[:cut], data[cut:]
        self._stream.feed(_NOT_FOR_PYTE.sub("", data.decode("latin-1")).encode("latin-1"))

    def until(self, condition: Callable[[], bool], timeout_s: float = 60.0, what: str = "", step_s: float = 0.05) -> None:
        """Read until ``condition`` holds. Raises AssertionError with the screen when it does not in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            self.decode()
            if condition():
                return
            alive = self.read(step_s)
            assert alive or condition(), f"the program ended before {what or 'that'}:\n{self.text}"
            assert time.monotonic() < deadline, f"not in {timeout_s:g} s: {what}\n{self.text}"

    def settle(self, quiet_s: float, timeout_s: float = 30.0) -> None:
        """Read until nothing has come for so long."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            before = len(self.received)
            if not self.read(quiet_s) or len(self.received) == before:
                break
        self.decode()

    def close(self) -> None:
        """Take the terminal away, as when its window is closed."""
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def wait(self, timeout_s: float) -> bool:
        """Whether the program has ended; ``exit_status`` is then its wait status."""
        deadline = time.monotonic() + timeout_s
        while self.exit_status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.exit_status = status
            elif time.monotonic() >= deadline:
                return False
            else:
                time.sleep(0.02)
        return True

    def cpu_s(self) -> float:
        """Processor time that the program has used."""
        with open(f"/proc/{self.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_bytes(self) -> int:
        with open(f"/proc/{self.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
