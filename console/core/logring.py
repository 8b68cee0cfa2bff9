"""The newest lines of a log, made safe for a terminal, in bounded memory.

A line has an absolute number that it keeps for life, so that a reader who stands still can tell what has moved. Lines come from
another machine; ``console.core.sanitize`` makes them harmless before they are kept.
"""

import codecs
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any

from console.core import fmt, reading, sanitize

MAX_LINES = 20_000
MAX_LINE_CHARS = 4096
MAX_CHARS = 8_000_000
"""All lines together: 20,000 of the longest would take 80 MB and more."""
_MAX_RAW_CHARS = 4 * MAX_LINE_CHARS
"""Of an unfinished line; with escape sequences it is longer than what will be shown of it."""
_CUT = "…"


class Note(str):
    """A line of ours between lines of the log. A log can copy its words, so a screen must draw it differently."""

    __slots__ = ()


class Frozen:
    """Lines as they were at one moment; later ones do not move them."""

    def __init__(self, first: int, lines: list[str], open_line: bool):
        self.first = first
        self._lines = lines
        self.end = first + len(lines)
        self.closed_end = self.end - open_line
        """The same without the line that had no end yet."""

    def line(self, number: int) -> str:
        """Raises IndexError for a number outside ``first`` to ``end``."""
        if number < self.first:
            raise IndexError(number)
        return self._lines[number - self.first]

    def lines(self, start: int, stop: int) -> list[str]:
        """What there is of ``start`` up to ``stop``."""
        return self._lines[max(start - self.first, 0) : max(stop - self.first, 0)]


class LogRing:
    """``feed`` it what a log says, or ``take`` the wire's pieces. Lines ``first`` up to ``end`` are held; earlier ones are gone."""

    def __init__(self, max_lines: int = MAX_LINES, max_chars: int = MAX_CHARS):
        self.max_lines, self._max_chars = max_lines, max_chars
        self._lines: deque[str] = deque()
        self._chars = 0
        self.first = 0
        """Number of the oldest line held, which is also how many were dropped before it."""
        self.version = 0
        """Changes with everything that a screen could see."""
        self.lost_bytes = 0
        """Bytes that the host did not send because they came faster than the wire allows."""
        self.names: dict[str, str] = {}
        """Of attempts, for notes: the stage of each whose log was asked for."""
        self._told = ""
        """The attempt whose log was told to begin, before the first piece of it."""
        self._file: tuple[str, int] | None = None
        self._next_byte: int | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begin_line()

    @property
    def end(self) -> int:
        """One past the newest line, the unfinished one included."""
        return self.closed_end + self._has_open

    @property
    def closed_end(self) -> int:
        """The same without the line that has no end yet."""
        return self.first + len(self._lines)

    def line(self, number: int) -> str:
        """Raises IndexError for a number outside ``first`` to ``end``."""
        position = number - self.first
        if position < 0:
            raise IndexError(number)
        if position == len(self._lines) and self._has_open:
            return self._open_line()
        return self._lines[position]

    def lines(self, start: int, stop: int) -> list[str]:
        """What there is of ``start`` up to ``stop``."""
        found = list(islice(self._lines, max(start - self.first, 0), max(stop - self.first, 0)))
        if self._has_open and start < self.end <= stop:
            found.append(self._open_line())
        return found

    def feed(self, data: bytes | str) -> None:
        """Take a piece of a log, cut anywhere. A carriage return starts its line anew: of a progress bar the last state stays."""
        text = self._decoder.decode(data) if isinstance(data, bytes) else data
        *whole, rest = text.split("\n")
        for piece in whole:
            if self._has_open or "\r" in piece:
                self._extend(piece)
                self._append(self._open_line())
                self._begin_line()
            else:
                self._append(_safe(piece))
        self._extend(rest)
        self.version += 1

    def take(self, piece: Any) -> None:
        """Take a ``log`` object of the wire. What the host skipped, and a file that is not the one before, are told by a note."""
        data = piece.get("data") if isinstance(piece, dict) else None
        if not isinstance(data, str):
            return
        file = (reading.text(piece, "attempt"), reading.count(piece, "inode") or 0)
        start, end = reading.count(piece, "offset"), reading.count(piece, "end")
        begun, self._told = self._told == file[0] and bool(file[0]), ""
        if self._file is None and start and not begun:
            self.note(f"{fmt.size(start)} of the log before this line stay on the host")
        elif self._file is not None and file != self._file:
            self.note("here another file begins" if file[0] == self._file[0] else f"here the log of {self._named(file[0])} begins")
        elif start is not None and self._next_byte is not None and start < self._next_byte:
            self.note("the file was cut on the host, and begins anew")
        elif start is not None and self._next_byte is not None and start > self._next_byte:
            lost = start - self._next_byte
            self.lost_bytes += lost
            self.note(f"{fmt.size(lost)} not shown: they came faster than the wire carries; the file on the host has them")
        self._file, self._next_byte = file, end
        self.feed(data)

    def begin(self, attempt: str) -> None:
        """Another attempt's log is followed from here on, though nothing of it is here yet."""
        if self._file is not None and self._file[0] and self._file[0] != attempt:
            self.note(f"here the log of {self._named(attempt)} begins")
            self._file, self._next_byte = None, None
            self._told = attempt

    def add(self, lines: Iterable[str]) -> None:
        """Take lines that are whole, and safe already: out of another ring."""
        for line in lines:
            self._append(line)
        self.version += 1

    def note(self, text: str) -> None:
        """Add a line of our own; an unfinished line ends before it."""
        if self._has_open:
            self._append(self._open_line())
        self._begin_line()
        self._append(Note(sanitize.line(text, MAX_LINE_CHARS)))
        self.version += 1

    def clear(self) -> None:
        """Forget all lines; numbers go on, so that a reader of the old ones notices."""
        self.first = self.end
        self._lines.clear()
        self._chars = self.lost_bytes = 0
        self._file = self._next_byte = None
        self._begin_line()
        self.version += 1

    def freeze(self) -> Frozen:
        """The lines as they are now."""
        return Frozen(self.first, self.lines(self.first, self.end), self._has_open)

    def refreeze(self, held: Frozen, start: int) -> Frozen:
        """The lines as they are now, and before them those from ``start`` on that only ``held`` still has; without a gap between."""
        now = self.freeze()
        if not start < now.first <= held.closed_end:
            return now
        lines = held.lines(start, now.first) + now.lines(now.first, now.end)
        return Frozen(now.end - len(lines), lines, self._has_open)

    def _named(self, attempt: str) -> str:
        stage = self.names.get(attempt)
        return (f"{stage}, " if stage else "") + f"attempt {attempt or 'unknown'}"

    def _append(self, line: str) -> None:
        self._lines.append(line)
        self._chars += len(line)
        while len(self._lines) > self.max_lines or (self._chars > self._max_chars and len(self._lines) > 1):
            self._chars -= len(self._lines.popleft())
            self.first += 1

    def _begin_line(self) -> None:
        self._state = self._state_before = ""
        self._has_open = False

    def _extend(self, text: str) -> None:
        """Go on with the unfinished line. Of what is too long only the beginning is kept."""
        first, *later = text.split("\r")
        self._state += first[: _MAX_RAW_CHARS + 1 - len(self._state)]
        for state in later:
            self._state_before = self._state or self._state_before
            self._state = state[: _MAX_RAW_CHARS + 1]
        self._has_open = bool(self._state or self._state_before)

    def _open_line(self) -> str:
        return _safe(self._state or self._state_before)


def _safe(raw: str) -> str:
    line = sanitize.line(raw, MAX_LINE_CHARS)
    return line if len(raw) <= _MAX_RAW_CHARS or line.endswith(_CUT) else line + _CUT
