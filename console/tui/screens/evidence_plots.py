"""Rate and GPU memory over an attempt's whole time, as its host kept them."""

from textual.content import Content

from console.core import curve, fmt
from console.core.attempt import Attempt
from console.core.curve import Point
from console.tui.draw import MUTED, STRONG
from console.tui.plot import AROUND, columns, plot
from console.tui.state import ConsoleState

_ROWS = 6
_FEW = 3
_NOW_S, _NOW_SHARE = 5.0, 0.02
"""A last point that is no older, or by no more than that share of the whole, is of now."""


def plot_lines(state: ConsoleState, attempt: Attempt | None, points: tuple[Point, ...] | None, said: str, width: int) -> list[Content]:
    """``said`` is why there are no points, or why there are no newer ones."""
    if attempt is None:
        return [Content.styled(" no attempt to tell of", MUTED)]
    if points is None or len(points) < _FEW:
        return [Content.styled(f" {said or 'too little of it has been recorded yet for a plot'}", MUTED)]
    name, unit = ("tokens", "tokens") if points[-1].tokens is not None else ("done", f"{_unit(attempt)}s")
    room = max(width - AROUND, 10)
    left, right = _times(state, points)
    rate = columns(curve.rates(points, name), room)
    lines = [Content.styled(f" {unit} a second", STRONG), *plot(rate, _ROWS, fmt.rate, left, right), Content()]
    held = columns(curve.memory(points), room)
    title = Content.styled(" GPU memory, mean of its GPUs, MiB", STRONG)
    if all(one is None for one in held):
        return [*lines, title, Content.styled(" not read", MUTED)]
    return [*lines, title, *plot(held, _ROWS, fmt.count, left, right), *([Content.styled(f" {said}", MUTED)] if said else [])]


def _unit(attempt: Attempt) -> str:
    return (attempt.progress.unit if attempt.progress else "") or "unit"


def _times(state: ConsoleState, points: tuple[Point, ...]) -> tuple[str, str]:
    """When the plot begins and ends, as words."""
    ages = [state.view.age_s(one.boot_s, state.age_s) if state.view else None for one in (points[0], points[-1])]
    begun, ended = (None if one is None else f"{fmt.duration(one)} ago" for one in ages)
    near = ages[0] is not None and ages[1] is not None and ages[1] <= max(_NOW_S, ages[0] * _NOW_SHARE)
    return begun or fmt.UNKNOWN, "now" if near else ended or fmt.UNKNOWN
