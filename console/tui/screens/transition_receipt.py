"""What a transition came to: its line first, then each step with what it proved, and where the next one resumes."""

from collections.abc import Sequence
from typing import Any

from textual.content import Content

from console.core import free_live, receipt_age, transition_live, transition_receipt
from console.core.action import Action
from console.core.transition_live import Step
from console.tui.draw import GOOD, MUTED, STRONG, WARN
from console.tui.screens.card import Card, Choice
from console.tui.screens.free_receipt import age_lines
from console.tui.screens.transition_live import step_lines
from console.tui.state import ConsoleState
from console.tui.widgets.header import target

AGAIN = "again"


class TransitionReceiptScreen(Card[str | None]):
    """Gives back ``again`` when that was pressed."""

    def __init__(self, state: ConsoleState, ended: Action, receipt: dict[str, Any], steps: Sequence[Step], may_again: str | None) -> None:
        """``receipt``: {} when it left none; then its ``steps`` are all that is known. ``may_again``: why no new one can be planned."""
        super().__init__(state)
        self._ended, self._receipt, self._steps, self._may_again = ended, receipt, steps, may_again
        self._good = ended.attempt.done and receipt.get("verified") is True and receipt.get("exit_code") == 0
        self.tone = "good" if self._good and self._when.fresh else "" if self._good else "bad"

    @property
    def _when(self) -> receipt_age.Ended:
        return receipt_age.of(self._receipt, self._ended, self.state.view, self.state.age_s)

    def heading(self) -> str:
        word = transition_receipt.outcome(self._receipt) or free_live.ended_word(self._ended.attempt.state)
        return f"{'SIMULATED  ' if self.state.store.simulated else ''}Transition on {target(self.state)}: {word}"

    def body(self) -> Sequence[Content]:
        when = self._when
        told = age_lines(self.state, when, "the dashboard tells how it stands now")
        if not self._receipt:
            said = Content.styled(f" {transition_live.standing(self._ended)}", WARN)
            left = Content.styled(" it left no receipt: nothing is proven. Its steps:", MUTED)
            return [said, *told, left, *step_lines(self._steps, live=False)]
        style = (GOOD if when.fresh and self.state.current else STRONG) if self._good else WARN
        line = Content.styled(f" {transition_receipt.line(self._receipt)}", style)
        lines = [line, *told] if when.fresh else [*told, line]
        for heading, rows in transition_receipt.sections(self._receipt):
            lines += [
                Content.styled(f" {heading}", WARN if heading.startswith("ALERT") else MUTED),
                *(Content(f"   {row}") for row in rows),
            ]
        return lines

    def choices(self) -> Sequence[Choice]:
        return (Choice("close", "Close"), Choice(AGAIN, "Plan again", "default", self._may_again))

    def chosen(self, choice: str) -> None:
        self.dismiss(choice if choice == AGAIN else None)
