"""The agent's stdout: never waited for. Replies first, then the newest frame only, then the log.

What nobody reads is thrown away and counted, so that the agent goes on sampling, and the first thing a client sees after a pause is fresh.
"""

import errno
import json
import os
from collections import deque
from typing import Any, Deque, Dict, Optional

MAX_REPLIES_BYTES = 8 << 20
"""With this much unread the agent takes no more requests until the client reads."""
MARK = b"\x1e"


class OutputClosedError(Exception):
    """Nobody can read the output any more."""


class Output:
    """A queue in front of a non-blocking descriptor. ``flush`` when it is writable."""

    def __init__(self, fd: int, nonce: str):
        self._fd = fd
        self._mark = MARK + nonce.encode()
        self._current = memoryview(b"")
        self._replies: Deque[bytes] = deque()
        self._replies_bytes = 0
        self._frame: Optional[bytes] = None
        self._log: Optional[bytes] = None
        self.dropped_frames = 0
        os.set_blocking(fd, False)

    @property
    def pending(self) -> bool:
        return bool(self._current or self._replies or self._frame or self._log)

    @property
    def congested(self) -> bool:
        """Whether so many replies are unread that no request should be taken."""
        return self._replies_bytes > MAX_REPLIES_BYTES

    @property
    def takes_log(self) -> bool:
        """Whether a piece of log has room: one waits at most, the rest stays in the file."""
        return self._log is None

    def reply(self, value: Dict[str, Any]) -> None:
        line = self._line(value)
        self._replies.append(line)
        self._replies_bytes += len(line)

    def frame(self, value: Dict[str, Any]) -> None:
        """Replaces the frame that waits, if there is one."""
        if self._frame is not None:
            self.dropped_frames += 1
        self._frame = self._line({"frame": value})

    def log(self, value: Dict[str, Any]) -> None:
        """One piece of log; only when ``takes_log``."""
        self._log = self._line({"log": value})

    def forget_log(self) -> None:
        """Drop the piece that waits: it belongs to a tail that has ended."""
        self._log = None

    def flush(self) -> None:
        """Write as much as goes. Raises OutputClosedError when the reader has gone."""
        while True:
            if not self._current and not self._next():
                return
            try:
                self._current = self._current[os.write(self._fd, self._current) :]
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.EINTR:
                    continue
                raise OutputClosedError(str(error)) from None

    def _next(self) -> bool:
        if self._replies:
            line = self._replies.popleft()
            self._replies_bytes -= len(line)
        elif self._frame is not None:
            line, self._frame = self._frame, None
        elif self._log is not None:
            line, self._log = self._log, None
        else:
            return False
        self._current = memoryview(line)
        return True

    def _line(self, value: Dict[str, Any]) -> bytes:
        # ASCII: nothing that a file or a process name holds can break a line or its encoding.
        return self._mark + json.dumps(value, separators=(",", ":"), default=str).encode("ascii") + b"\n"
