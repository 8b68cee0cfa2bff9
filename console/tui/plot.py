"""A plot of one quantity over time in text, with an axis: lines that scroll with what is around them.

Textual's ``Sparkline`` begins at the smallest value, so that a steady rate looks wild, has no axis, and knows no moment at which nothing
was measured; textual-plotext takes 23 ms a refresh and its library another dependency (notes, tui.md section 2).
"""

from collections.abc import Callable, Sequence

from rich.cells import cell_len
from textual.content import Content

from console.tui.draw import MUTED

_LEVELS = "▁▂▃▄▅▆▇█"
_NOT_MEASURED = "·"
_AXIS = "│"
AROUND = 11
"""Columns of the axis."""
BARS = "$accent"

Span = tuple[float, float, float | None]
"""From when until when, and the value then; None: not measured."""


def columns(spans: Sequence[Span], count: int) -> list[float | None]:
    """The mean of each of ``count`` equal parts of the time that the spans take, in their order."""
    if not spans or count < 1:
        return []
    start, end = spans[0][0], spans[-1][1]
    step = (end - start) / count
    if step <= 0:
        return []
    totals, weights = [0.0] * count, [0.0] * count
    for begin_s, end_s, value in spans:
        if value is None:
            continue
        for at in range(max(int((begin_s - start) / step), 0), min(int((end_s - start) / step), count - 1) + 1):
            low = start + at * step
            overlap = min(end_s, low + step) - max(begin_s, low)
            if overlap > 0:
                totals[at] += value * overlap
                weights[at] += overlap
    return [total / weight if weight else None for total, weight in zip(totals, weights, strict=True)]


def plot(values: Sequence[float | None], height: int, label: Callable[[float], str], left: str, right: str) -> list[Content]:
    """``height`` lines of bars from zero, one a value, the largest written as ``label`` has it, and below ``left`` and ``right``.

    They are as wide as the values and ``AROUND`` columns.
    """
    top = max((one for one in values if one is not None), default=0.0)
    lines = []
    for row in range(height - 1, -1, -1):
        name = "0" if row == 0 else label(top) if row == height - 1 and top > 0 else ""
        drawn = "".join(_glyph(one, top, row, height) for one in values)
        lines.append(Content.assemble((f"{name:>{AROUND - 1}}{_AXIS}", MUTED), (drawn, BARS)))
    space = max(len(values) - cell_len(left) - cell_len(right), 1)
    return [*lines, Content.styled(f"{' ' * AROUND}{left}{' ' * space}{right}", MUTED)]


def _glyph(value: float | None, top: float, row: int, height: int) -> str:
    """Zero is a line on the ground; what was not measured a dot."""
    if value is None:
        return _NOT_MEASURED if row == 0 else " "
    eighths = round(value / top * height * 8) if top > 0 else 0
    inside = min(max(eighths - 8 * row, 0), 8)
    if row == 0:
        inside = max(inside, 1)
    return _LEVELS[inside - 1] if inside else " "
