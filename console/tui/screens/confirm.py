"""The question before anything is done: exactly what will happen, and Cancel in focus. No single key says yes."""

from collections.abc import Sequence

from textual.content import Content

from console.tui.screens.card import Card, Choice
from console.tui.state import ConsoleState


class ConfirmScreen(Card[bool]):
    """True only when its button was pressed; Enter alone presses Cancel."""

    def __init__(self, state: ConsoleState, question: str, lines: Sequence[Content], yes: str, danger: bool = True) -> None:
        super().__init__(state)
        self._question, self._lines, self._yes = question, lines, yes
        self.tone = "bad" if danger else ""

    def heading(self) -> str:
        return self._question

    def body(self) -> Sequence[Content]:
        hint = f"Enter presses Cancel; for {self._yes.lower()}: Tab, then Enter"
        return (*self._lines, Content(""), Content.styled(hint, "$text-muted"))

    def choices(self) -> Sequence[Choice]:
        return (Choice("cancel", "Cancel"), Choice("yes", self._yes, "error" if self.tone else "primary"))

    def chosen(self, choice: str) -> None:
        self.dismiss(choice == "yes")

    def action_close(self) -> None:
        self.dismiss(False)
