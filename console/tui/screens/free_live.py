"""Freeing GPUs while the host does it: its steps, the countdown of the present wait, and the memory of each GPU over time."""

from collections.abc import Sequence

from textual.content import Content

from console.core import fmt, free_live
from console.core.action import Action, Point
from console.tui.draw import MUTED, STRONG
from console.tui.screens import step_marks
from console.tui.screens.action_live import ActionLiveScreen
from console.tui.widgets.header import target
from pipeline.contract import free

_AROUND = 5
_BESIDE_CURVE = 24
"""Columns of a GPU's index and numbers."""


class FreeLiveScreen(ActionLiveScreen):
    """Watches one attempt of it. Gives back how it ended, or None when it was closed: then it goes on without a sheet."""

    action = free.ACTION

    def heading(self) -> str:
        return f"{'SIMULATED  ' if self.state.store.simulated else ''}Freeing GPUs of {target(self.state)}"

    def beginning(self) -> str:
        return "the host surveys again; if anything differs from the plan, nothing is done"

    def lines(self, one: Action, now_s: float) -> Sequence[Content]:
        width = max(self.query_one("#sheet").size.width - _AROUND, 20) if self.is_mounted else 70
        standing = Content.assemble((f" {free_live.standing(one)}  ", STRONG), free_live.countdown(one, now_s))
        return [*step_lines(free_live.steps(self.events)), standing, *curve_lines(one.curve, one.indices, width)]


def step_lines(steps: Sequence[free_live.Step], live: bool = True) -> list[Content]:
    """One line a step: well, ended otherwise, or under way while ``live``."""
    lines = []
    for one in steps:
        said = one.what if one.result in (None, "") else f"{one.what}: {one.result}"
        lines.append(step_marks.line(step_marks.freeing(one.name, one.result, live), "", f"{one.name:<12} {said}", one.seconds))
    return lines


def curve_lines(points: Sequence[Point], indices: Sequence[int | None], width: int) -> list[Content]:
    """Memory over time, two GPUs a line where there is room."""
    side_by_side = 2 if width >= 68 else 1
    columns = max((width - 2) // side_by_side - _BESIDE_CURVE, 8)
    drawn = free_live.curve(points, columns)
    if not drawn:
        return []
    names = ["?" if gpu is None else str(gpu) for gpu in [*indices, *[None] * len(drawn)]]
    rows = zip(names, drawn, strict=False)
    cells = [f"{name:>2} {marks:<{columns}} {_mib(first):>7} -> {_mib(last):<7}" for name, (marks, first, last) in rows]
    lines = [Content.styled(f" MiB a GPU over {fmt.duration(free_live.span_s(points))}; · is 0, ? was not read", MUTED)]
    half = -(-len(cells) // side_by_side)
    for at in range(half):
        lines.append(
            Content(" " + " ".join(cells[at + half * beside] for beside in range(side_by_side) if at + half * beside < len(cells)))
        )
    return lines


def _mib(mib: int | None) -> str:
    return "?" if mib is None else fmt.count(mib)
