"""The evidence: how a job stands and why, its gaps, plots of its whole time, what its log raised, and every fact with its age."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from console.core import curve, sanitize
from console.core.curve import Point
from console.tui import gates, health
from console.tui.draw import STRONG
from console.tui.screens.card import Choice
from console.tui.screens.evidence_alarms import alarm_lines
from console.tui.screens.evidence_facts import fact_lines
from console.tui.screens.evidence_gaps import gap_lines
from console.tui.screens.evidence_now import now_lines
from console.tui.screens.evidence_plots import plot_lines
from console.tui.screens.gated import GatedCard
from console.tui.state import ConsoleState
from pipeline.errors import StageError

AskCurve = Callable[[str, str], Awaitable[dict[str, Any]]]
"""Asks the host for the curve of a stage's attempt."""

NOW, GAPS, PLOTS, ALARMS, FACTS = "now", "gaps", "plots", "alarms", "facts"
PARTS = (NOW, GAPS, PLOTS, ALARMS, FACTS)
_DUMP = "dump_stacks"
_AROUND = 6
"""Columns of border, padding and scroll bar."""
_ASK_TICKS = 60


class EvidenceScreen(GatedCard[None]):
    """Five parts, a key each; drawn anew at each tick. Whoever has opened it has seen the alarms."""

    button_form = "[{}]"  # seven of them in 80 columns

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"part('{part}')", show=False) for number, part in enumerate(PARTS, 1)),
        Binding("D", "dump", show=False),
    ]

    def __init__(self, state: ConsoleState, ask_curve: AskCurve) -> None:
        super().__init__(state)
        self._ask_curve = ask_curve
        raised = health.unseen(state)
        self._part = ALARMS if raised and health.loud(state, state.attempt) is None else NOW
        self._points: tuple[Point, ...] | None = None
        self._of = ""
        """The attempt whose points these are."""
        self._said = self._heading = ""
        self._ticks = 0

    def heading(self) -> str:
        stage = f"{self.state.attempt.stage} of " if self.state.attempt else ""
        return f"Evidence, {self._part}: {stage}{self.state.run or 'no run'} on {self.state.host}"

    def body(self) -> Sequence[Content]:
        width, state = self._columns(), self.state
        if self._part == NOW:
            return now_lines(state, width)
        if self._part == GAPS:
            attempt = state.attempt
            meter = state.history.gaps(attempt) if attempt else None
            return gap_lines(state, meter.recent if meter else (), width)
        if self._part == PLOTS:
            return plot_lines(state, state.attempt, self._points if self._current() else None, self._said, width)
        return alarm_lines(state) if self._part == ALARMS else fact_lines(state)

    def choices(self) -> Sequence[Choice]:
        parts = (Choice(part, f"{number} {part.capitalize()}") for number, part in enumerate(PARTS, 1))
        return (Choice("close", "Close"), *parts, Choice(_DUMP, "D Stacks", why=gates.dump(self.state)))

    def chosen(self, choice: str) -> None:
        if choice == "close":
            self.dismiss(None)
        elif choice == _DUMP:
            self.action_dump()
        else:
            self.action_part(choice)

    def action_part(self, part: str) -> None:
        self._part = part
        self.action_scroll(-(1 << 20))
        self._ticks = 0
        self.tick()

    def action_dump(self) -> None:
        self.app.perform(_DUMP)  # type: ignore[attr-defined]

    def tick(self) -> None:
        health.see(self.state)
        if self._part == PLOTS and (self._ticks == 0 or not self._current()) and self.state.attempt and self.state.current:
            self._ticks = _ASK_TICKS
            if not self._current():
                self._of, self._points, self._said = self.state.attempt.id, None, "asking the host"
            self.run_worker(self._read(self.state.attempt.stage, self._of), group="curve", exclusive=True, exit_on_error=False)
        self._ticks = max(self._ticks - 1, 0)
        self._retitle()
        super().tick()

    def _retitle(self) -> None:
        """The title says which part it is, and of which stage: another one may have begun meanwhile."""
        heading = self.heading()
        if heading != self._heading:
            self._heading = heading
            for sheet in self.query("#sheet"):  # none yet, for a key that was typed ahead
                sheet.border_title = Content.styled(sanitize.line(heading, 200), STRONG)  # type: ignore[assignment]

    def _current(self) -> bool:
        return self.state.attempt is not None and self.state.attempt.id == self._of

    async def _read(self, stage: str, attempt: str) -> None:
        try:
            points = curve.parse(await self._ask_curve(stage, attempt))
        except StageError as error:
            self._said = sanitize.line(f"it cannot be read: {error}", 300)
        else:
            self._points, self._said = points, ""
        super().tick()

    def _columns(self) -> int:
        return max(min(self.app.size.width, 160) - _AROUND, 20)
