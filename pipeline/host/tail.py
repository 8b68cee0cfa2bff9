"""Following an attempt's log for a client: at most 64 KiB a piece and 256 KiB a second, the newest when the client is slow.

Nothing is buffered here, the file is the buffer. What was skipped is counted in the next piece.
"""

import os
from typing import Any, Dict, Optional

PIECE_BYTES = 64 << 10
BYTES_PER_S = 256 << 10
BEHIND_BYTES = 1 << 20
"""A reader this far behind jumps to the newest ``BYTES_PER_S``."""


class Tail:
    """One log that is followed. ``read`` gives the next piece, or None when there is none now."""

    def __init__(self, path: str, attempt: str, offset: int, follow: bool, now_s: float):
        """Negative ``offset``: that many bytes before the end. Raises OSError when there is no such log."""
        self._path = path
        self._attempt = attempt
        self._follow = follow
        status = os.stat(path)
        self._inode = status.st_ino
        self._offset = max(0, status.st_size + offset) if offset < 0 else min(offset, status.st_size)
        self._end = None if follow else status.st_size
        self._allowance = float(BYTES_PER_S)
        self._allowance_s = now_s
        self.inode, self.size = status.st_ino, status.st_size
        self.over = False
        self.dropped_bytes = 0
        self._owed_bytes = 0

    def read(self, now_s: float) -> Optional[Dict[str, Any]]:
        """The ``log`` line's object. A file that was truncated or replaced starts again at its beginning."""
        self._allowance = min(BYTES_PER_S, self._allowance + (now_s - self._allowance_s) * BYTES_PER_S)
        self._allowance_s = now_s
        try:
            fd = os.open(self._path, os.O_RDONLY)
        except OSError:
            return None  # between being moved away and made anew; or the attempt was removed
        try:
            status = os.fstat(fd)
            if status.st_ino != self._inode or status.st_size < self._offset:
                self._inode, self._offset, self._end = status.st_ino, 0, None if self._follow else status.st_size
            end = status.st_size if self._end is None else self._end
            if end - self._offset > BEHIND_BYTES and self._follow:
                skipped = end - BYTES_PER_S - self._offset
                self._offset += skipped
                self._owed_bytes += skipped
                self.dropped_bytes += skipped
            if self._offset >= end:
                self.over = not self._follow
                return None
            size = min(PIECE_BYTES, end - self._offset)
            if self._allowance < size:
                return None
            data = os.pread(fd, size, self._offset)
        except OSError:
            return None
        finally:
            os.close(fd)
        if self._follow or self._offset + len(data) < end:
            data = data[: _whole(data)]
        if not data:
            return None
        piece = {
            "attempt": self._attempt,
            "inode": self._inode,
            "offset": self._offset,
            "end": self._offset + len(data),
            "data": data.decode("utf-8", "replace"),
            "dropped_bytes": self._owed_bytes,
        }
        self._owed_bytes = 0
        self._offset += len(data)
        self._allowance -= len(data)
        return piece


def _whole(data: bytes) -> int:
    """Length of ``data`` without a UTF-8 character that is cut at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if back < length else len(data)
        if byte < 0x80:
            break
    return len(data)
