"""What a transition would do, and when, above the phrase that has to be typed for it."""

from collections.abc import Sequence

from textual.content import Content

from console.core.transition_plan import TransitionPlan
from console.tui import gates
from console.tui.draw import MUTED, WARN, rows
from console.tui.screens.transition_plan import step_rows, under_way
from console.tui.screens.typed import TypedScreen
from console.tui.state import ConsoleState
from console.tui.widgets.header import target


class TransitionConfirmScreen(TypedScreen):
    """The phrase, once it was typed; None when it was cancelled."""

    def __init__(self, state: ConsoleState, plan: TransitionPlan, armed: bool) -> None:
        super().__init__(state, plan.phrase(armed), plan.surveyed_boot_s)
        self._plan, self._armed = plan, armed
        self.yes = "Arm it" if armed else "Begin"

    def heading(self) -> str:
        mark = "SIMULATED  " if self.state.store.simulated else ""
        return f"{mark}{'Arm' if self._armed else 'Begin'} the transition to {self._plan.goal} on {target(self.state)}?"

    def why_not(self) -> str | None:
        return under_way(self.state) or gates.act(self.state)

    def body(self) -> Sequence[Content]:
        made = self._plan
        when = f"once {made.before} has ended verified, with nobody there; any other end disarms it" if self._armed else "now"
        pairs = [
            ("when", when),
            ("run", f"{self.state.run} on {target(self.state)}, which goes on by itself, whatever becomes of link and console"),
            ("stops", made.service or "nothing"),
            ("touches", "our own attempts and that service; whoever else is on the GPUs stops it, with an alert"),
        ]
        lines = [*rows(pairs), *step_rows(made.steps)]
        lines += [Content.styled(f" as it stands it would stop: {one}", WARN) for one in made.trouble]
        return [*lines, Content.styled(" recorded in the audit log here and on the host", MUTED)]
