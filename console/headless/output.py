"""Where a command's words go: data to stdout, messages to stderr; with ``--json`` one object a line, the last one the result."""

import json
import sys
from dataclasses import dataclass
from typing import Any, TextIO

from pipeline.errors import EXIT_CANNOT_TELL, EXIT_DONE, EXIT_FAILED, StageError


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


class Output:
    """Prints for one command. A reader of stdout that goes away raises BrokenPipeError, which ``cli`` ends quietly."""

    def __init__(self, as_json: bool, out: TextIO | None = None, err: TextIO | None = None):
        self.as_json = as_json
        self.simulated = False
        """Of the host that the command is about, as far as is known when it has to end."""
        self._out = out or sys.stdout
        self._err = err or sys.stderr

    def data(self, text: str) -> None:
        """A line of data for people; nothing with ``--json``."""
        if not self.as_json:
            self._write(self._out, text)

    def json(self, value: dict[str, Any]) -> None:
        """An object for programs; nothing without ``--json``."""
        if self.as_json:
            self._write(self._out, json.dumps(value, ensure_ascii=True, allow_nan=False))

    def say(self, text: str) -> None:
        """A message to whoever watches; stderr may be gone, which stops nothing."""
        try:
            self._write(self._err, text)
        except (BrokenPipeError, ValueError):
            pass

    @staticmethod
    def _write(stream: TextIO, text: str) -> None:
        try:
            stream.write(text + "\n")
        except UnicodeEncodeError:  # a terminal without UTF-8
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
