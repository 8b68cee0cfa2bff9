"""What freeing GPUs came to: the verdict first, then what shows it. An idle baseline can be accepted from here; it is never called 0."""

from collections.abc import Sequence
from typing import Any

from textual.content import Content

from console.core import action, free_live, free_receipt
from console.core.action import Action
from console.tui.draw import BAD, GOOD, MUTED, STRONG, WARN
from console.tui.free_gate import may_accept
from console.tui.screens.card import Card, Choice
from console.tui.screens.free_live import curve_lines, step_lines
from console.tui.state import ConsoleState
from pipeline.contract import free

ACCEPT, AGAIN = "accept", "again"
_AROUND = 5


class FreeReceiptScreen(Card[str | None]):
    """Gives back ``accept`` or ``again`` when that was pressed."""

    def __init__(self, state: ConsoleState, ended: Action, receipt: dict[str, Any], steps: Sequence[free_live.Step]) -> None:
        """``receipt``: {} when it left none; then its ``steps`` are all that is known."""
        super().__init__(state)
        self._ended, self._receipt, self._steps = ended, receipt, steps
        self.tone = "good" if _style(ended, receipt) == GOOD else "bad"

    def heading(self) -> str:
        word = free_receipt.outcome(self._receipt) or free_live.ended_word(self._ended.attempt.state)
        return f"{'SIMULATED  ' if self.state.store.simulated else ''}Freeing GPUs of {self.state.host}: {word}"

    def body(self) -> Sequence[Content]:
        if not self._receipt:
            said = Content.styled(f" {free_live.standing(self._ended)}", WARN)
            return [said, Content.styled(" it left no receipt: nothing is proven. Its steps:", MUTED), *step_lines(self._steps)]
        lines = [Content.styled(f" {free_receipt.line(self._receipt)}", _style(self._ended, self._receipt))]
        for heading, rows in free_receipt.sections(self._receipt):
            lines += [Content.styled(f" {heading}", MUTED), *(Content(f"   {row}") for row in rows)]
        width = max(self.query_one("#sheet").size.width - _AROUND, 20) if self.is_mounted else 70
        return [*lines, *curve_lines(action.points(self._receipt.get("curve")), width)]

    def choices(self) -> Sequence[Choice]:
        found: list[Choice] = [Choice("close", "Close")]
        if free_receipt.acceptable(self._receipt):
            found.append(Choice(ACCEPT, "Accept as idle baseline", "primary", may_accept(self.state, self.state.run)))
        return (*found, Choice(AGAIN, "Plan again"))

    def chosen(self, choice: str) -> None:
        self.dismiss(choice if choice in (ACCEPT, AGAIN) else None)


def _style(ended: Action, receipt: dict[str, Any]) -> str:
    """Good only where 0 MiB is proven; an accepted baseline is usable, and not that."""
    code = receipt.get("exit_code")
    if code == free.EXIT_FREE and receipt.get("verified") is True and ended.attempt.done:
        return GOOD
    return STRONG if receipt.get("usable") is True else BAD if code == free.EXIT_HELD else WARN
