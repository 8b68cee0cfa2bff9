"""Three themes: dark, light, and mono, which leaves all colours to the terminal. And the filter that makes ASCII of everything painted."""

import unicodedata

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import BUILTIN_THEMES, Theme

NAMES = ("dark", "light", "mono")

_GLYPHS = str.maketrans(
    {
        "█": "#", "▉": "#", "▊": "#", "▋": "#", "▌": "=", "▍": "=", "▎": "-", "▏": "-", "▇": "#", "▆": "#", "▅": "=", "▄": "=",
        "▃": "-", "▂": "_", "▁": "_", "·": ".", "─": "-", "━": "-", "│": "|", "┃": "|", "╭": "+", "╮": "+", "╯": "+", "╰": "+",
        "┌": "+", "┐": "+", "└": "+", "┘": "+", "├": "+", "┤": "+", "┄": "-", "✓": "+", "✗": "x", "▶": ">", "…": "~", "‹": "<",
        "›": ">", "°": "o", "␛": "^", "╸": "-", "╺": "-", "▔": "-", "▕": "|", "▐": "|", "▀": "-", "■": "#", "●": "*", "○": "o",
    }
)  # fmt: skip


def themes() -> list[Theme]:
    """To be registered by the app."""
    return [
        Theme(
            name="dark", dark=True, primary="#5f9fd7", secondary="#7f8fa6", accent="#5f9fd7", success="#6fc276", warning="#e5b567",
            error="#f07178", foreground="#d8dee9", background="#101418", surface="#181d23", panel="#1f262e", boost="#2a333d",
            variables={"quiet": "#8793a3"},
        ),
        Theme(
            name="light", dark=False, primary="#1f5f99", secondary="#5c6773", accent="#1f5f99", success="#1e7a34", warning="#8a5a00",
            error="#b3261e", foreground="#1c2128", background="#fafafa", surface="#f0f1f3", panel="#e4e7ea", boost="#d6dade",
            variables={"quiet": "#626d79"},
        ),
        Theme(
            name="mono", ansi=True, primary="ansi_default", secondary="ansi_default", accent="ansi_default", success="ansi_default",
            warning="ansi_default", error="ansi_default", foreground="ansi_default", background="ansi_default", surface="ansi_default",
            panel="ansi_default", boost="ansi_default", variables={**BUILTIN_THEMES["ansi-dark"].variables, "quiet": "ansi_default"},
        ),
    ]  # fmt: skip


class AsciiOnly(LineFilter):
    """What is painted, column for column, in characters that every terminal and font has."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(to_ascii(text), style, control) for text, style, control in segments]


def to_ascii(text: str) -> str:
    """The same width in ASCII: a likeness where there is one, else a question mark for each column."""
    if text.isascii():
        return text
    text = text.translate(_GLYPHS)
    return text if text.isascii() else "".join(one if one.isascii() else _likeness(one) for one in text)


def _likeness(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    width = cell_len(character)
    return plain if len(plain) == width else "?" * width
