"""Bytes from the agent to messages: marked lines, whatever else the host prints among them."""

import json
from collections.abc import Iterator
from typing import Any

MAX_LINE_BYTES = 4 << 20
NOISE_BYTES = 4096
"""How much of the login's own output is kept."""


class Lines:
    """Splits a byte stream; memory is bounded by one line.

    A message is a line that holds the mark (0x1E and this connection's nonce) and one JSON object after it. What comes before the first
    one is login noise; unmarked lines later are ignored. ``dropped`` counts marked lines that were too long or no JSON object.
    """

    def __init__(self, nonce: str, max_line_bytes: int = MAX_LINE_BYTES):
        self._mark = b"\x1e" + nonce.encode()
        self._max_line_bytes = max_line_bytes
        self._rest = bytearray()
        self._overlong = False
        self._seen_message = False
        self._noise = b""
        self.dropped = 0

    @property
    def noise(self) -> bytes:
        """What came before the first message, the newest of it; a prompt without a newline too."""
        rest = b"" if self._seen_message else bytes(self._rest[-NOISE_BYTES:])
        return (self._noise + rest)[-NOISE_BYTES:]

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """The messages that are complete with ``data``."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            line = bytes(self._rest) + data[start:end]
            self._rest.clear()
            start = end + 1
            if self._overlong or len(line) > self._max_line_bytes:
                self._overlong = False
                self.dropped += 1
                continue
            message = self._message(line)
            if message is not None:
                yield message
        if not self._overlong:
            self._rest += data[start:]
            if len(self._rest) > self._max_line_bytes:
                self._rest.clear()
                self._overlong = True

    def _message(self, line: bytes) -> dict[str, Any] | None:
        at = line.find(self._mark)
        if at < 0:
            if not self._seen_message:
                self._keep(line + b"\n")
            return None
        if not self._seen_message:
            self._keep(line[:at])  # a prompt without a newline
        try:
            message = json.loads(line[at + len(self._mark) :].decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            self.dropped += 1
            return None
        self._seen_message = True
        return message

    def _keep(self, data: bytes) -> None:
        """The newest noise: an error comes last."""
        self._noise = (self._noise + data)[-NOISE_BYTES:]


def one_line(text: str | bytes, limit: int = 240) -> str:
    """Somebody else's text as one harmless line for a message."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= limit else line[: limit - 3] + "..."
