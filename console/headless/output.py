"""Where a command's words go: data to stdout, messages to stderr; with ``--json`` one object a line, the last one the result."""

import json
import os
import sys
from dataclasses import dataclass
from typing import Any, TextIO

from console.core import sanitize
from pipeline.errors import EXIT_CANNOT_TELL, EXIT_DONE, EXIT_FAILED, StageError

_MAX_CHARS = 16_000
"""Of one line: a list of differences is long, a flood is not let through."""


class CannotTellError(StageError):
    """The command has to end without knowing the outcome."""

    exit_code = EXIT_CANNOT_TELL


class FailedError(StageError):
    """What was asked for did not happen."""

    exit_code = EXIT_FAILED


@dataclass(frozen=True)
class Result:
    """How a command ended: its exit code, and the object that is the last line with ``--json``."""

    code: int
    simulated: bool
    stages: dict[str, dict[str, Any]]
    error: str = ""
    """Why it is not ok, one line."""

    def to_json(self) -> dict[str, Any]:
        result = {"ok": self.code == EXIT_DONE, "simulated": self.simulated, "stages": self.stages}
        return {**result, "error": {"message": self.error, "exit_code": self.code}} if self.error else result


def throw_away_stdout() -> None:
    """Python would complain once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class Output:
    """Prints for one command, and lets nothing through that a terminal would obey (``core.sanitize``).

    A reader of stdout that goes away raises BrokenPipeError, which ``cli`` ends quietly.
    """

    def __init__(self, as_json: bool, out: TextIO | None = None, err: TextIO | None = None):
        self.as_json = as_json
        self.simulated = False
        """Of the host that the command is about, as far as is known when it has to end."""
        self._out: TextIO | None = out or sys.stdout
        self._err: TextIO | None = err or sys.stderr

    @property
    def to_terminal(self) -> bool:
        """Whether a person reads the data as it comes."""
        return self._out is not None and self._out.isatty()

    def data(self, text: str) -> None:
        """A line of data for people; nothing with ``--json``. Raises CannotTellError when it cannot be written."""
        if not self.as_json:
            self._print(_safe(text))

    def json(self, value: dict[str, Any]) -> None:
        """An object for programs; nothing without ``--json``."""
        if self.as_json:
            # What ASCII leaves of control characters is DEL, and that only inside strings.
            self._print(json.dumps(value, ensure_ascii=True, allow_nan=False).replace("\x7f", "\\u007f"))

    def say(self, text: str) -> None:
        """A message to whoever watches; stderr may be gone, which stops nothing."""
        try:
            self._write(self._err, _safe(text))
        except (OSError, ValueError):
            pass

    def _print(self, text: str) -> None:
        try:
            self._write(self._out, text)
        except BrokenPipeError:
            raise
        except OSError as error:
            self._out = None
            throw_away_stdout()
            raise CannotTellError(f"standard output: {error.strerror}; what follows cannot be told") from None

    @staticmethod
    def _write(stream: TextIO | None, text: str) -> None:
        if stream is None:  # closed before this program began
            return
        try:
            stream.write(text + "\n")
        except UnicodeEncodeError:  # a terminal without UTF-8
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()


def _safe(text: str) -> str:
    return "\n".join(sanitize.lines(text, _MAX_CHARS))
