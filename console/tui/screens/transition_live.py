"""A transition while the host does it, or waits with it armed: its steps, the countdown of the present wait."""

from collections.abc import Sequence

from textual.content import Content

from console.core import fmt, free_live, transition_live
from console.core.action import Action
from console.core.transition_live import Step
from console.tui.draw import GOOD, MUTED, STRONG, WARN
from console.tui.screens.action_live import ActionLiveScreen
from console.tui.screens.card import Choice
from pipeline.contract import transition


class TransitionLiveScreen(ActionLiveScreen):
    """Watches one attempt of it. Gives back how it ended, or None when it was closed: then it goes on without a sheet."""

    action = transition.ACTION

    def heading(self) -> str:
        return f"{'SIMULATED  ' if self.state.store.simulated else ''}Transition on {self.state.host}"

    def choices(self) -> Sequence[Choice]:
        return (Choice("close", "Close: it goes on"), Choice("cancel", "Disarm, or cancel it", "error"))

    def beginning(self) -> str:
        return "the host begins; what differs from the plan stops it before anything is done"

    def lines(self, one: Action, now_s: float) -> Sequence[Content]:
        standing = (f" {transition_live.standing(one)}  ", WARN if transition_live.is_armed(one) else STRONG)
        told = "" if transition_live.is_armed(one) else free_live.countdown(one, now_s)
        return [Content.assemble(standing, told), *step_lines(transition_live.steps(self.events))]


def step_lines(steps: Sequence[Step]) -> list[Content]:
    """One line a step: done, under way, or where it stopped; those of freeing GPUs within FREE."""
    lines = []
    for one in steps:
        within = "   " if one.inner else ""
        if one.result is None:
            lines.append(Content.assemble((f" {within}▶ {one.name:<13} ", STRONG), one.what))
            continue
        took = f"  {fmt.age(one.seconds)}" if one.seconds is not None and one.seconds >= 0.05 else ""
        mark = ("! ", WARN) if one.state == transition.NOT_PROVEN else ("✓ ", GOOD)
        said = one.what if one.result == one.what else f"{one.what}: {one.result}"
        lines.append(Content.assemble(f" {within}", mark, f"{one.name:<13} {said}", (took, MUTED)))
    return lines
