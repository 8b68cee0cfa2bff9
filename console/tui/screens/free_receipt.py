"""What freeing GPUs came to, and when: the verdict, then what shows it. An idle baseline can be accepted here; it is never called 0."""

from collections.abc import Sequence
from typing import Any

from textual.content import Content

from console.core import action, free_live, free_receipt, reading, receipt_age
from console.core.action import Action
from console.tui.draw import BAD, GOOD, MUTED, STRONG, WARN
from console.tui.free_gate import may_accept, may_look
from console.tui.screens.card import Choice
from console.tui.screens.free_live import curve_lines, step_lines
from console.tui.screens.gated import GatedCard, off
from console.tui.state import ConsoleState
from console.tui.widgets.header import target
from pipeline.contract import free

ACCEPT, AGAIN = "accept", "again"
_AROUND = 5


class FreeReceiptScreen(GatedCard[str | None]):
    """Gives back ``accept`` or ``again`` when that was pressed."""

    def __init__(self, state: ConsoleState, ended: Action, receipt: dict[str, Any], steps: Sequence[free_live.Step]) -> None:
        """``receipt``: {} when it left none; then its ``steps`` are all that is known."""
        super().__init__(state)
        self._ended, self._receipt, self._steps = ended, receipt, steps
        self.tone = self._tone

    @property
    def _when(self) -> receipt_age.Ended:
        return receipt_age.of(self._receipt, self._ended, self.state.view, self.state.age_s)

    @property
    def _style(self) -> str:
        """Good only where 0 MiB is proven, and may be read as the present; an accepted baseline is usable, and not that."""
        code = self._receipt.get("exit_code")
        if code == free.EXIT_FREE and self._receipt.get("verified") is True and self._ended.attempt.done:
            return GOOD if self._when.fresh and self.state.current else STRONG
        return STRONG if self._receipt.get("usable") is True else BAD if code == free.EXIT_HELD else WARN

    @property
    def _tone(self) -> str:
        return {GOOD: "good", STRONG: ""}.get(self._style, "bad")

    def heading(self) -> str:
        word = free_receipt.word(self._receipt) or free_live.ended_word(self._ended.attempt.state)
        return f"{'SIMULATED  ' if self.state.store.simulated else ''}Freeing GPUs of {target(self.state)}: {word}"

    def tick(self) -> None:
        for sheet in self.query("#sheet"):
            sheet.set_class(self._tone == "good", "good")
            sheet.set_class(self._tone == "bad", "bad")
        super().tick()

    def body(self) -> Sequence[Content]:
        when = age_lines(self.state, self._when, "what the GPUs hold now, a new plan tells")
        if not self._receipt:
            said = Content.styled(f" {free_live.standing(self._ended)}", WARN)
            left = Content.styled(" it left no receipt: nothing is proven. Its steps:", MUTED)
            return [said, *when, left, *step_lines(self._steps, live=False)]
        verdict = Content.styled(f" {free_receipt.line(self._receipt)}", self._style)
        lines = [verdict, *when] if self._when.fresh else [*when, verdict]
        if free_receipt.acceptable(self._receipt):
            lines += off("Accept", may_accept(self.state, self.state.run))
        for heading, rows in free_receipt.sections(self._receipt):
            lines += [Content.styled(f" {heading}", MUTED), *(Content(f"   {row}") for row in rows)]
        width = max(self.query_one("#sheet").size.width - _AROUND, 20) if self.is_mounted else 70
        curve, indices = (reading.sequence(self._receipt, key) for key in ("curve", "indices"))
        return [*lines, *curve_lines(action.points(curve), action.indices(indices), width)]

    def choices(self) -> Sequence[Choice]:
        found: list[Choice] = [Choice("close", "Close")]
        if free_receipt.acceptable(self._receipt):
            found.append(Choice(ACCEPT, "Accept as idle baseline", "primary", may_accept(self.state, self.state.run)))
        return (*found, Choice(AGAIN, "Plan again", "default", may_look(self.state)))

    def chosen(self, choice: str) -> None:
        self.dismiss(choice if choice in (ACCEPT, AGAIN) else None)


def age_lines(state: ConsoleState, when: receipt_age.Ended, instead: str) -> list[Content]:
    """When it ended; of an old one, that it tells of then, and what tells of now."""
    words = when.words(state.wall_s, state.utc_offset_s)
    if when.fresh:
        return [Content.styled(f" {words}", MUTED)]
    return [Content.styled(f" {words}: it was so then; {instead}", WARN)]
