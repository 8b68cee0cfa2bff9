"""Freeing GPUs while the host does it: its steps, the countdown of the present wait, and the memory of each GPU over time."""

from collections.abc import Sequence
from typing import Any

from textual.content import Content

from console.core import fmt, free_live
from console.core.action import Action
from console.tui.draw import GOOD, MUTED, STRONG
from console.tui.screens.action_live import ActionLiveScreen
from pipeline.contract import free

_AROUND = 5
_BESIDE_CURVE = 24
"""Columns of a GPU's index and numbers."""


class FreeLiveScreen(ActionLiveScreen):
    """Watches one attempt of it. Gives back how it ended, or None when it was closed: then it goes on without a sheet."""

    action = free.ACTION

    def heading(self) -> str:
        return f"{'SIMULATED  ' if self.state.store.simulated else ''}Freeing GPUs of {self.state.host}"

    def beginning(self) -> str:
        return "the host surveys again; if anything differs from the plan, nothing is done"

    def lines(self, one: Action, now_s: float) -> Sequence[Content]:
        width = max(self.query_one("#sheet").size.width - _AROUND, 20) if self.is_mounted else 70
        standing = Content.assemble((f" {free_live.standing(one)}  ", STRONG), free_live.countdown(one, now_s))
        return [standing, *step_lines(free_live.steps(self.events)), *curve_lines(one.curve, width)]


def step_lines(steps: Sequence[free_live.Step]) -> list[Content]:
    """One line a step: done, or under way."""
    lines = []
    for one in steps:
        if one.result is None:
            lines.append(Content.assemble((f" ▶ {one.name:<12} ", STRONG), one.what))
        else:
            took = f"  {fmt.age(one.seconds)}" if one.seconds is not None and one.seconds >= 0.05 else ""
            lines.append(Content.assemble((" ✓ ", GOOD), f"{one.name:<12} {one.what}: {one.result}", (took, MUTED)))
    return lines


def curve_lines(points: Any, width: int) -> list[Content]:
    """Memory over time, two GPUs a line where there is room."""
    side_by_side = 2 if width >= 68 else 1
    columns = max((width - 2) // side_by_side - _BESIDE_CURVE, 8)
    drawn = free_live.curve(points, columns)
    if not drawn:
        return []
    cells = [f"{gpu:>2} {marks:<{columns}} {_mib(first):>7} -> {_mib(last):<7}" for gpu, (marks, first, last) in enumerate(drawn)]
    lines = [Content.styled(f" MiB a GPU over {fmt.duration(free_live.span_s(points))}; · is 0, ? was not read", MUTED)]
    half = -(-len(cells) // side_by_side)
    for at in range(half):
        lines.append(
            Content(" " + " ".join(cells[at + half * beside] for beside in range(side_by_side) if at + half * beside < len(cells)))
        )
    return lines


def _mib(mib: int | None) -> str:
    return "?" if mib is None else fmt.count(mib)
