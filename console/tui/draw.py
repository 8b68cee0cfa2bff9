"""Lines out of pieces. A piece is text with a style of the theme; text that came from the host is never read as markup."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from textual.content import Content

GOOD, WARN, BAD = "$success", "bold $warning", "bold $error"
"""Each only beside a word that says the same."""
MUTED, STRONG, PLAIN = "$quiet", "bold", ""

_EIGHTHS = " ▏▎▍▌▋▊▉"
_FULL, _EMPTY = "█", "·"


class Piece(NamedTuple):
    """A part of a line. Where the line is too long, parts with the highest ``drop`` go first; 0 never goes."""

    text: str
    style: str = PLAIN
    drop: int = 0

    @property
    def cells(self) -> int:
        return cell_len(self.text)


def line(left: Sequence[Piece], right: Sequence[Piece] = (), width: int = 80, gap: int = 2) -> Content:
    """Pieces ``gap`` columns apart, those of ``right`` at the right edge, one column of margin on both sides.

    Empty pieces are left out. What still does not fit is cut by whoever draws the line.
    """
    left, right = [one for one in left if one.text], [one for one in right if one.text]
    while _needed(left, right, gap) > width - 2:
        candidates = [one for one in (*left, *right) if one.drop]
        if not candidates:
            break
        victim = max(candidates, key=lambda one: one.drop)
        (left if any(one is victim for one in left) else right).remove(victim)
    parts = [" ", *_joined(left, gap)]
    if right:
        space = width - 2 - _length(left, gap) - _length(right, gap)
        parts += [" " * max(space, gap if left else 0), *_joined(right, gap)]
    return Content.assemble(*parts)


def bar(share: float | None, width: int) -> str:
    """A bar of ``width`` columns, filled in eighths; without a share all empty."""
    if width <= 0:
        return ""
    eighths = 0 if share is None else round(max(0.0, min(share, 1.0)) * width * 8)
    if share is not None and share < 1.0:
        eighths = min(eighths, width * 8 - 1)  # full means all of it
    whole, part = divmod(eighths, 8)
    drawn = _FULL * whole + (_EIGHTHS[part] if part else "")
    return drawn + _EMPTY * (width - len(drawn))


def rule(left: Sequence[Piece], right: Sequence[Piece], width: int) -> Content:
    """A horizontal line with words in it."""
    left, right = [one for one in left if one.text], [one for one in right if one.text]
    while sum(one.cells + 3 for one in (*left, *right)) + 1 > width and any(one.drop for one in (*left, *right)):
        victim = max((one for one in (*left, *right) if one.drop), key=lambda one: one.drop)
        (left if any(one is victim for one in left) else right).remove(victim)
    parts: list[Content | str | tuple[str, str]] = [("─", MUTED)]
    for one in left:
        parts += [" ", (one.text, one.style), " "]
    used = 1 + sum(one.cells + 2 for one in left) + sum(one.cells + 3 for one in right)
    parts.append(("─" * max(width - used, 1), MUTED))
    for one in right:
        parts += [" ", (one.text, one.style), " ", ("─", MUTED)]
    return Content.assemble(*parts)


def rows(pairs: Iterable[tuple[str, str]], indent: int = 1) -> list[Content]:
    """Names in a column and what belongs to them beside it."""
    pairs = list(pairs)
    wide = max((cell_len(name) for name, _ in pairs), default=0)
    return [Content.assemble(" " * indent, (name.ljust(wide), MUTED), "  ", text) for name, text in pairs]


def _needed(left: Sequence[Piece], right: Sequence[Piece], gap: int) -> int:
    return _length(left, gap) + _length(right, gap) + (gap if left and right else 0)


def _length(pieces: Sequence[Piece], gap: int) -> int:
    return sum(one.cells for one in pieces) + gap * max(len(pieces) - 1, 0)


def _joined(pieces: Sequence[Piece], gap: int) -> list[Content | str | tuple[str, str]]:
    parts: list[Content | str | tuple[str, str]] = []
    for number, one in enumerate(pieces):
        parts += [" " * gap] if number else []
        parts.append((one.text, one.style) if one.style else one.text)
    return parts
