"""Foreign text made fit for a terminal: names from a downloaded model may hold escape sequences."""

import re

_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0, DEL, C1, what reorders or breaks lines (bidirectional controls, line separators), and lone surrogates, which cannot be encoded."""


def error_line(error: BaseException) -> str:
    """What an exception says, on one line of at most 300 characters; where it says nothing, its type."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def visible(text: str) -> str:
    r"""One line in which control characters stand as ``\xNN`` or ``\uNNNN``; everything else as it is."""
    return _UNSEEN.sub(lambda match: f"\\x{ord(match[0]):02x}" if ord(match[0]) < 256 else f"\\u{ord(match[0]):04x}", text)
