"""The next transition as a plan: each step with how it stands now, what would be stopped, where it would stop. This sheet does nothing."""

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.content import Content

from console.core import fmt, free_words, transition_live, transition_next
from console.core.transition_next import Next
from console.core.transition_plan import PlanStep, TransitionPlan
from console.tui import gates
from console.tui.draw import GOOD, MUTED, STRONG, WARN, rows
from console.tui.plans import gpus_now
from console.tui.screens.card import Choice
from console.tui.screens.gated import GatedCard, off
from console.tui.state import ConsoleState
from console.tui.widgets.header import link, target
from pipeline.contract import transition
from pipeline.errors import StageError

NOW, ARMED, RECEIPT = "now", "armed", "receipt"
_MARKS = {transition.PROVEN: ("✓", GOOD), transition.NOT_PROVEN: ("!", WARN), transition.OPEN: ("·", MUTED)}


class Picked(NamedTuple):
    """What was pressed, and the plan that was shown then."""

    choice: str
    plan: TransitionPlan | None
    service: str | None


class TransitionPlanScreen(GatedCard[Picked | None]):
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
        return f"{mark}{self._wanted.words}: a plan, nothing done"

    def choices(self) -> Sequence[Choice]:
        last = self.state.view.actions.get(transition.ACTION) if self.state.view else None
        return (
            Choice("close", "Close"),
            Choice(NOW, "Now...", "error", self._why_not(NOW)),
            Choice(ARMED, "Armed...", "error", self._why_not(ARMED)),
            Choice("look", "r look"),
            Choice("service", "v other", "default", self._why_not("service")),
            Choice(RECEIPT, "Receipt", "default", None if last else "none is on record"),
        )

    def body(self) -> Sequence[Content]:
        lines = [Content.styled(f" {self._said}", WARN)] if self._said else []
        if self._looking and not self.state.current:
            lines.append(Content.styled(f" the question waits for the link: {link(self.state)}", WARN))
        made = self.plan
        if made is not None and not self._looking:
            lines += off("Armed..." if self._runs else "Now...", self._why_neither)
        if made is None:
            return [*lines, Content.styled(f" GPUs: {gpus_now(self.state)}", MUTED), *self._last_lines()]
        age = self.state.view.age_s(made.surveyed_boot_s, self.state.age_s) if self.state.view else None
        stopped = f"stops {made.service}" if made.service else "stops nothing"
        now = f"; GPUs: {gpus_now(self.state)}; looked {fmt.age(age)} ago"
        lines.append(Content.assemble((f" {target(self.state)}: {stopped}", STRONG), (now, MUTED)))
        lines += [Content.styled(f" it would stop now: {one}", WARN) for one in made.trouble]
        lines += step_rows(made.steps)
        lines += [Content.styled(f" ! {one}", WARN) for one in made.notes]
        if made.others:
            lines.append(Content.styled(f" also on the GPUs: {', '.join(made.others)}; v has one of them stopped instead", MUTED))
        lines.append(Content.styled(" each step is proven before the next; it stops at the first that is not, and resumes there", MUTED))
        now = f"when {self._wanted.before} has ended; until then it can be armed" if self._runs else made.phrase_now
        phrases = [("now", now), ("armed", made.phrase_armed if self._runs else self._why_unarmed)]
        return [*lines, *rows(phrases), *(Content(f" {one}") for one in free_words.cures_of(made)), *self._last_lines()]

    @property
    def _why_unarmed(self) -> str:
        return f"not possible: {self._wanted.before} does not run, so there is nothing to wait for"

    @property
    def _why_neither(self) -> str | None:
        busy = under_way(self.state)
        return f"{busy}; Receipt shows it" if busy else gates.act(self.state)

    def on_mount(self) -> None:
        self.action_look()

    def _why_not(self, choice: str) -> str | None:
        if self.plan is None or self._looking:
            return _NOT_LOOKED
        if choice == "service":
            return None if self.plan.others else "no other service holds a GPU"
        if choice == ARMED and not self._runs:
            return self._why_unarmed
        if choice == NOW and self._runs:
            return f"{self._wanted.before} still runs: it can be armed"
        return self._why_neither

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
        except Exception:
            self._said = "it did not come to a plan, by a mistake of eaglewatch; r asks again"
            raise
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


def under_way(state: ConsoleState) -> str | None:
    """Who has a transition of this run under way, or armed; None when nobody has: one at a time can be."""
    live = transition_next.live(state.view, state.run)
    how = "armed" if live is not None and transition_live.is_armed(live) else "under way"
    return f"{live.attempt.by or 'somebody'} has one {how}" if live is not None else None


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
