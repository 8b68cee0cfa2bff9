"""The next transition as a plan: each step with how it stands now, what would be stopped, where it would stop. This sheet does nothing."""

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Button

from console.core import fmt, transition_live
from console.core.transition_next import Next
from console.core.transition_plan import PlanStep, TransitionPlan
from console.tui import gates
from console.tui.draw import GOOD, MUTED, STRONG, WARN, rows
from console.tui.plans import gpus_now
from console.tui.screens.card import Card, Choice
from console.tui.state import ConsoleState
from pipeline.contract import transition
from pipeline.errors import StageError

NOW, ARMED, RECEIPT = "now", "armed", "receipt"
_MARKS = {transition.PROVEN: ("✓", GOOD), transition.NOT_PROVEN: ("!", WARN), transition.OPEN: ("·", MUTED)}


class Picked(NamedTuple):
    """What was pressed, and the plan that was shown then."""

    choice: str
    plan: TransitionPlan | None
    service: str | None


class TransitionPlanScreen(Card[Picked | None]):
    """Asks the host when it opens, and when r is pressed; v names another service to stop. None when it was closed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "look", show=False), Binding("v", "service", show=False)]
    tone = "bad"

    def __init__(
        self, state: ConsoleState, wanted: Next, ask: Callable[[str | None], Awaitable[TransitionPlan]], service: str | None = None
    ) -> None:
        """``ask`` takes the service that is to be stopped; None: this run's server."""
        super().__init__(state)
        self._wanted, self._ask, self.service = wanted, ask, service
        self.plan: TransitionPlan | None = None
        self._said = _LOOKS
        self._looking = False

    @property
    def _runs(self) -> bool:
        """Whether the stage before still runs: it may end while this sheet is open."""
        one = (self.state.view.stages or {}).get(self._wanted.before) if self.state.view else None
        return self._wanted.runs and one is not None and one.live

    def heading(self) -> str:
        mark = "SIMULATED  " if self.state.store.simulated else ""
        return f"{mark}{self._wanted.words}: the plan, which does nothing"

    def choices(self) -> Sequence[Choice]:
        last = self.state.view.actions.get(transition.ACTION) if self.state.view else None
        return (
            Choice("close", "Close"),
            Choice(NOW, "Now...", "error", _NOT_LOOKED),
            Choice(ARMED, "Armed...", "error", _NOT_LOOKED),
            Choice("look", "r look"),
            Choice("service", "v other", "default", _NOT_LOOKED),
            Choice(RECEIPT, "Receipt", "default", None if last else "none is on record"),
        )

    def body(self) -> Sequence[Content]:
        lines = [Content.styled(f" {self._said}", WARN)] if self._said else []
        made = self.plan
        if made is None:
            return [*lines, Content.styled(f" GPUs: {gpus_now(self.state)}", MUTED), *self._last_lines()]
        age = self.state.view.age_s(made.surveyed_boot_s, self.state.age_s) if self.state.view else None
        stopped = f"stops {made.service}" if made.service else "stops nothing"
        lines.append(Content.assemble((f" {stopped}", STRONG), (f"; GPUs: {gpus_now(self.state)}; looked {fmt.age(age)} ago", MUTED)))
        lines += [Content.styled(f" it would stop now: {one}", WARN) for one in made.trouble]
        lines += step_rows(made.steps)
        lines += [Content.styled(f" ! {one}", WARN) for one in made.notes]
        if made.others:
            lines.append(Content.styled(f" also on the GPUs: {', '.join(made.others)}; v has one of them stopped instead", MUTED))
        lines.append(Content.styled(" each step is proven before the next; it stops at the first that is not, and resumes there", MUTED))
        now = f"when {self._wanted.before} has ended; until then it can be armed" if self._runs else made.phrase_now
        phrases = [("now", now), ("armed", made.phrase_armed if self._runs else self._why_unarmed)]
        return [*lines, *rows(phrases), *self._last_lines()]

    @property
    def _why_unarmed(self) -> str:
        return f"not possible: {self._wanted.before} does not run, so there is nothing to wait for"

    def on_mount(self) -> None:
        self.action_look()

    def tick(self) -> None:
        if not self.query("#body"):
            return
        for choice in (NOW, ARMED, "service"):
            button, why = self.query_one(f"#choice-{choice}", Button), self._why_not(choice)
            button.disabled, button.tooltip = why is not None, None if why is None else Content(why)
        super().tick()

    def _why_not(self, choice: str) -> str | None:
        if self.plan is None or self._looking:
            return _NOT_LOOKED
        if choice == "service":
            return None if self.plan.others else "no other service holds a GPU"
        if choice == ARMED and not self._runs:
            return self._why_unarmed
        if choice == NOW and self._runs:
            return f"{self._wanted.before} still runs: it can be armed"
        return gates.act(self.state)

    def action_look(self) -> None:
        """Ask the host to look (again)."""
        if not self._looking:
            self._looking = True
            self.run_worker(self._look(), exit_on_error=False)

    def action_service(self) -> None:
        """Name the next of the services that hold GPUs as the one to stop."""
        if self.plan is not None and self.plan.others and not self._looking:
            names: list[str] = sorted({*self.plan.others, *filter(None, (self.plan.service,))})
            at = names.index(self.plan.service) + 1 if self.plan.service in names else 0
            self.service = names[at % len(names)]
            self.action_look()

    async def _look(self) -> None:
        self._said = _LOOKS
        self.tick()
        try:
            self.plan, self._said = await self._ask(self.service), ""
        except StageError as error:
            self._said = f"it did not come to a plan: {error}; r asks again"
        finally:
            self._looking = False
        self.tick()

    def chosen(self, choice: str) -> None:
        if choice in ("look", "service"):
            getattr(self, f"action_{choice}")()
        elif choice in (NOW, ARMED) and self._why_not(choice) is not None:
            return
        else:
            self.dismiss(Picked(choice, self.plan, self.service) if choice in (NOW, ARMED, RECEIPT) else None)

    def _last_lines(self) -> list[Content]:
        one = self.state.view.actions.get(transition.ACTION) if self.state.view else None
        if one is None or self.state.view is None or not one.attempt.ended or one.run != self.state.run:
            return []
        ago = fmt.age(self.state.view.age_s(one.attempt.ended_boot_s, self.state.age_s))
        return [Content.assemble((f" last time, {ago} ago  ", MUTED), (transition_live.standing(one), STRONG))]


_LOOKS = "the host looks at stages, processes and GPUs"
_NOT_LOOKED = "the host has not looked yet"


def step_rows(steps: Sequence[PlanStep]) -> list[Content]:
    """One line a step, with how it stands."""
    wide = max((len(one.name) for one in steps), default=0)
    lines = []
    for one in steps:
        mark, style = _MARKS[one.state]
        said = f": {one.line}" if one.line and one.line != one.does else ""
        lines.append(Content.assemble((f" {mark} ", style), f"{one.name:<{wide}}  {one.does}", (said, WARN if style == WARN else MUTED)))
    return lines
