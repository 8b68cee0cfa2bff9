"""A line of the log in pieces of one style each."""

from rich.segment import Segment
from rich.style import Style


def segments(line: str, spans: list[tuple[int, int]], style: Style, match_style: Style) -> list[Segment]:
    """``line`` with what was searched for at ``spans``; no piece is empty."""
    if not spans:
        return [Segment(line, style)]
    found, at = [], 0
    for start, end in spans:
        found += [Segment(line[at:start], style), Segment(line[start:end], match_style)]
        at = end
    return [one for one in [*found, Segment(line[at:], style)] if one.text]
