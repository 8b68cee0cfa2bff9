"""Text from the host, made safe for a terminal.

Logs, file names, process names and error messages come from another machine, and a terminal obeys what is written to it. Nothing
that could move the cursor, change the title, reorder or hide text gets through; what is taken out leaves a visible mark.
"""

import re
import unicodedata

MAX_CHARS = 2000
"""Longest line let through, unless the caller says otherwise; the cut is marked with an ellipsis."""
MAX_COMBINING = 3
"""Combining marks kept on one base character; scripts need two or three, longer stacks only paint over neighbours."""
TAB_COLUMNS = 8

_ELLIPSIS = "…"
_ESCAPED = "␛"
# Control sequences of ECMA-48: CSI, then the string sequences (DCS, SOS, OSC, PM, APC) up to their terminator, then two- and
# three-character escapes. Each also in its 8-bit form. A string without a terminator loses only its introducer.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]"
    r"|(?:\x1b[PX\]^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{1,4}[0-~]"
    r"|\x1b[0-~]"
    r"|[\x1b\x9b]"
)
# Letters that Unicode files under "other letter" and that draw nothing.
_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")


def line(value: object, max_chars: int = MAX_CHARS) -> str:
    """``value`` as one printable line of at most ``max_chars`` characters.

    A line break inside shows as a mark. None is the empty string; anything else that is no string goes through ``str``.
    """
    if value is None:
        return ""
    text = value if isinstance(value, str) else str(value)
    if len(text) > max_chars * 4:  # sequences are shorter afterwards, never by more than this matters
        text = text[: max_chars * 4]
    if not (text.isascii() and text.isprintable()):
        text = _clean(text)
    return text if len(text) <= max_chars else text[: max(max_chars - 1, 0)] + _ELLIPSIS


def lines(value: str, max_chars: int = MAX_CHARS) -> list[str]:
    """A block of text as safe lines. A carriage return starts its line anew, as in progress bars: only the last state stays."""
    return [line(_last_state(raw), max_chars) for raw in value.replace("\r\n", "\n").split("\n")]


def is_safe(text: str) -> bool:
    """Whether every character may reach a terminal as it is (one line)."""
    return all(not _mark(character) for character in text)


def _last_state(raw: str) -> str:
    parts = [part for part in raw.split("\r") if part]
    return parts[-1] if parts else ""


def _clean(text: str) -> str:
    text = _SEQUENCE.sub(_ESCAPED, text)
    if "\t" in text:
        text = text.expandtabs(TAB_COLUMNS)
    out: list[str] = []
    marks = 0
    for character in text:
        if character.isascii() and character.isprintable():
            out.append(character)
            marks = 0
            continue
        if unicodedata.category(character) in ("Mn", "Me"):
            marks += 1
            if marks > MAX_COMBINING:
                if marks == MAX_COMBINING + 1:
                    out.append(_ELLIPSIS)
                continue
        else:
            marks = 0
        out.append(_mark(character) or character)
    return "".join(out)


def _mark(character: str) -> str:
    """What stands for a character that must not reach the terminal; empty for one that may."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    category = unicodedata.category(character)
    # Cf: bidi controls, zero-width joiners and spaces, soft hyphen, tags. Zl, Zp: line breaks to some programs.
    if category in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp") or character in _BLANK_LETTERS or _is_variation(code):
        return f"<{code:02X}>"
    return ""


def _is_variation(code: int) -> bool:
    return 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF or 0x180B <= code <= 0x180F
