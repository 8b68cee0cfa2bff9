"""Finding text in a log by a regular expression that an operator typed.

RE2 is used because its time is linear in the line and its memory bounded: with a backtracking matcher, one careless pattern such as
``(a+)+$`` would stop the console for good. It lets other threads run while it matches; a search belongs into a thread.
It is imported at the first pattern, which takes 20 ms.
"""

import threading
from typing import Any

from console.core import sanitize
from console.core.logring import Frozen

MAX_PATTERN_CHARS = 200
_MAX_MEMORY_BYTES = 1 << 20
"""Of a compiled pattern and its states; what needs more is refused."""


class PatternError(ValueError):
    """Not a regular expression that can be used; the text says what is wrong."""


class Pattern:
    """A compiled pattern. Upper and lower case are told apart only if the pattern has an upper-case letter."""

    def __init__(self, text: str):
        """Raises PatternError."""
        import re2

        if not text or len(text) > MAX_PATTERN_CHARS:
            raise PatternError(f"longer than {MAX_PATTERN_CHARS} characters" if text else "empty")
        self.text = text
        options = re2.Options()
        options.log_errors = False  # it would write to the terminal
        options.max_mem = _MAX_MEMORY_BYTES
        options.case_sensitive = any(character.isupper() for character in text)
        try:
            self._compiled: Any = re2.compile(text, options)
        except re2.error as error:
            said = error.args[0] if error.args else ""
            raise PatternError(sanitize.line(said.decode("utf-8", "replace") if isinstance(said, bytes) else said, 120)) from None
        except UnicodeEncodeError:
            raise PatternError("holds half a character") from None

    def matches(self, line: str) -> bool:
        """Whether it is somewhere in ``line``."""
        return self._compiled.search(line) is not None

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Where it is in ``line``: starts and ends, empty matches left out."""
        return [span for match in self._compiled.finditer(line) if (span := match.span())[1] > span[0]]


class Search:
    """Looks for the next line that matches: every line once, from ``start`` on by ``step`` (1 or -1), past the end to the other end.

    ``run`` it in a thread; the lines do not change under it.
    """

    def __init__(self, pattern: Pattern, lines: Frozen, start: int, step: int):
        self._pattern, self._lines, self._start, self._step = pattern, lines, start, step
        self._cancelled = threading.Event()
        self.count = lines.end - lines.first
        self.looked = 0
        """How many lines it has looked at; may be read from another thread."""
        self.found: int | None = None
        """Number of the line."""

    @property
    def wrapped(self) -> bool:
        """Whether the line that was found lies on the other side of an end."""
        return self.found is not None and (self.found - self._start) * self._step < 0

    def cancel(self) -> None:
        """Make ``run`` return after the line that it looks at."""
        self._cancelled.set()

    def run(self) -> int | None:
        """The line's number, or None: there is none, or it was cancelled."""
        while self.looked < self.count and not self._cancelled.is_set():
            position = (self._start - self._lines.first + self._step * self.looked) % self.count
            self.looked += 1
            if self._pattern.matches(self._lines.line(self._lines.first + position)):
                self.found = self._lines.first + position
                break
        return self.found
