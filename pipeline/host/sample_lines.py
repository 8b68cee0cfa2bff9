"""Whole lines of a JSONL file that only grows, from any byte on, forwards and backwards, in bounded reads and without an index."""

import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from pipeline.contract.files import loads

MAX_READ_BYTES = 8 << 20
"""Of one reader. A longer line is skipped."""
CHUNK_BYTES = 1 << 16


class Span(NamedTuple):
    """Bytes of one line, its end included, and the record in it; None where that could not be read."""

    start: int
    end: int
    record: Optional[Dict[str, Any]]


class Reader:
    """``find`` a record, once. Raises OSError."""

    def __init__(self, fd: int):
        self._fd = fd
        self._left = MAX_READ_BYTES
        self.size = os.fstat(fd).st_size
        self.skipped_lines = 0
        """Lines that hold no record, or are longer than one request may read."""

    def find(self, direction: str, offset: Optional[int]) -> Optional[Span]:
        """The record that was asked for. ``record`` is None where there is none that way, or this request has read enough.

        An offset beyond the end (another file by now) means the last one. None when the file has no whole line.
        """
        if direction == "first" or (direction == "next" and offset is None):
            found = self._forwards(0)
            return found if found.end else None
        if direction == "last" or offset is None or offset > self.size:
            end = self._end_of_lines(self.size)
            return None if end == 0 else self._backwards(end)
        return self._forwards(self._line_start(offset)) if direction == "next" else self._backwards(self._end_of_lines(offset))

    def whole_line_after(self, start: int) -> bool:
        """Whether a line that starts there has its end. One whose end this request may not look for any more counts as one."""
        at = start
        while at < self.size and self._left > 0:
            data = self._read(at, CHUNK_BYTES)
            if b"\n" in data:
                return True
            if not data:
                return False
            at += len(data)
        return at < self.size

    def _forwards(self, start: int) -> Span:
        begin = start
        while True:
            line, end = self._line_from(begin)
            if line is None:
                return Span(start, end, None)
            record = _record(line)
            if record is not None:
                return Span(begin, end, record)
            self.skipped_lines += 1
            begin = end

    def _line_from(self, begin: int) -> Tuple[Optional[bytes], int]:
        """The line that begins there and its end; without a whole one None, and how far this request came."""
        parts: List[bytes] = []
        at = begin
        while self._left > 0:
            data = self._read(at, CHUNK_BYTES)
            newline = data.find(b"\n")
            if newline >= 0:
                parts.append(data[:newline])
                return b"".join(parts), at + newline + 1
            if not data:
                return None, begin  # a torn last line: it is being written
            parts.append(data)
            at += len(data)
        return None, at

    def _backwards(self, end: int) -> Span:
        stop = end
        while stop > 0:
            line, begin = self._line_to(stop)
            if line is None:
                return Span(begin, end, None)
            record = _record(line)
            if record is not None:
                return Span(begin, stop, record)
            self.skipped_lines += 1
            stop = begin
        return Span(0, end, None)

    def _line_to(self, stop: int) -> Tuple[Optional[bytes], int]:
        """The line that ends there and its beginning; None where this request has read enough, and how far it came."""
        parts: List[bytes] = []
        at = stop - 1  # before the line's own end
        while at > 0 and self._left > 0:
            size = min(CHUNK_BYTES, at)
            data = self._read(at - size, size)
            newline = data.rfind(b"\n")
            if newline >= 0:
                parts.append(data[newline + 1 :])
                return b"".join(reversed(parts)), at - size + newline + 1
            parts.append(data)
            at -= size
        return (b"".join(reversed(parts)), 0) if at <= 0 else (None, at)

    def _line_start(self, offset: int) -> int:
        """``offset``, or the next start of a line where it lies inside one (another file, or a line that was too long)."""
        if offset == 0 or self._read(offset - 1, 1) == b"\n":
            return offset
        line, end = self._line_from(offset)
        self.skipped_lines += line is not None
        return end

    def _end_of_lines(self, offset: int) -> int:
        """The end of the last whole line up to ``offset``; 0 without one."""
        at = offset
        while at > 0 and self._left > 0:
            size = min(CHUNK_BYTES, at)
            newline = self._read(at - size, size).rfind(b"\n")
            if newline >= 0:
                return at - size + newline + 1
            at -= size
        return at

    def _read(self, at: int, size: int) -> bytes:
        data = os.pread(self._fd, size, at)
        self._left -= len(data)
        return data


def _record(line: bytes) -> Optional[Dict[str, Any]]:
    try:
        value = loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
