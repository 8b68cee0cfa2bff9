"""The newest frames as they came, in bounded memory: what an incident bundle shows of the minute before it."""

import json
from collections import deque
from typing import Any

import msgspec

MAX_FRAMES = 60
MAX_BYTES = 8 << 20
"""All together: a frame of eight GPUs takes some 20 kB."""


class FrameRing:
    """``add`` every frame."""

    def __init__(self, max_frames: int = MAX_FRAMES, max_bytes: int = MAX_BYTES):
        self._frames: deque[bytes] = deque()
        self._max_frames, self._max_bytes = max_frames, max_bytes
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._frames)

    def add(self, frame: Any) -> None:
        """Keep it, encoded: as objects it would take five times as much. What cannot be encoded is kept as a note that says so."""
        encoded = _encoded(frame)
        self._frames.append(encoded)
        self._bytes += len(encoded)
        while len(self._frames) > self._max_frames or (self._bytes > self._max_bytes and len(self._frames) > 1):
            self._bytes -= len(self._frames.popleft())

    def lines(self) -> list[bytes]:
        """JSON, the oldest first."""
        return list(self._frames)


def _encoded(frame: Any) -> bytes:
    try:
        return msgspec.json.encode(frame)
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
        pass  # half a character, or a number of a hundred digits
    try:
        return json.dumps(frame).encode()
    except (ValueError, TypeError, RecursionError) as error:
        return json.dumps({"unreadable": f"{type(error).__name__}: {error}"[:200]}).encode()
