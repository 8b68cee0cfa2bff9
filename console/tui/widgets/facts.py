"""What a stage has counted in its own words, as pieces of a line. What is not well carries a mark, and goes last."""

from collections.abc import Sequence

from console.core import progress
from console.core.progress import Fact
from console.tui import words
from console.tui.draw import BAD, PLAIN, WARN, Piece

_GAP = 2
_STYLES = {progress.OK: PLAIN, progress.WARN: WARN, progress.BAD: BAD}
_MARKS = {progress.OK: "", progress.WARN: words.WARNING, progress.BAD: words.CROSS}


def pieces(facts: Sequence[Fact]) -> list[Piece]:
    """In their order; where the line is too short the last of those that are well go first."""
    return [
        Piece(text(one), _STYLES[one.level], {progress.OK: number + 2, progress.WARN: 1, progress.BAD: 0}[one.level])
        for number, one in enumerate(facts)
    ]


def lines(facts: Sequence[Fact], width: int) -> list[list[Piece]]:
    """All of them, in as many lines as they need."""
    found: list[list[Piece]] = [[]]
    for one in pieces(facts):
        if found[-1] and sum(piece.cells + _GAP for piece in (*found[-1], one)) > width:
            found.append([])
        found[-1].append(one)
    return found


def rows(facts: Sequence[Fact]) -> list[tuple[str, str]]:
    """A row each, marked where it is not well."""
    return [(one.label, f"{_MARKS[one.level]}{one.text}") for one in facts]


def text(fact: Fact) -> str:
    """``reasoning 100%``, ``!truncated 41``."""
    return f"{_MARKS[fact.level]}{fact.label} {fact.text}"
