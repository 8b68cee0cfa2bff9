"""A transition while the host does it, or waits with it armed: its steps, the countdown of the present wait."""

from collections.abc import Sequence

from textual.content import Content

from console.core import free_live, transition_live
from console.core.action import Action
from console.core.transition_live import Step
from console.tui.draw import STRONG, WARN
from console.tui.screens import step_marks
from console.tui.screens.action_live import ActionLiveScreen
from console.tui.widgets.header import target
from pipeline.contract import transition


class TransitionLiveScreen(ActionLiveScreen):
    """Watches one attempt of it. Gives back how it ended, or None when it was closed: then it goes on without a sheet."""

    action = transition.ACTION
    cancel_label = "Disarm, or cancel it"

    def heading(self) -> str:
        return f"{'SIMULATED  ' if self.state.store.simulated else ''}Transition on {target(self.state)}"

    def beginning(self) -> str:
        return "the host begins; what differs from the plan stops it before anything is done"

    def lines(self, one: Action, now_s: float) -> Sequence[Content]:
        standing = (f" {transition_live.standing(one)}  ", WARN if transition_live.is_armed(one) else STRONG)
        told = "" if transition_live.is_armed(one) else free_live.countdown(one, now_s)
        return [*step_lines(transition_live.steps(self.events)), Content.assemble(standing, told)]


def step_lines(steps: Sequence[Step], live: bool = True) -> list[Content]:
    """One line a step: proven, ended otherwise, or under way while ``live``; those of freeing GPUs within FREE."""
    lines = []
    for one in steps:
        mark = step_marks.freeing(one.name, one.result, live) if one.inner else step_marks.transition(one.name, one.state, one.result, live)
        said = one.what if one.result in (None, "", one.what) else f"{one.what}: {one.result}"
        lines.append(step_marks.line(mark, "   " if one.inner else "", f"{one.name:<13} {said}", one.seconds))
    return lines
