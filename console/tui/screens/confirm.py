"""The question before anything is done: exactly what will happen, and Cancel in focus. No single key says yes."""

from collections.abc import Iterable, Sequence

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input

from console.tui.draw import WARN
from console.tui.screens.card import Card, Choice
from console.tui.state import ConsoleState


class ConfirmScreen(Card[bool]):
    """True only when its button was pressed; Enter alone presses the other one."""

    def __init__(
        self, state: ConsoleState, question: str, lines: Sequence[Content], yes: str, danger: bool = True, no: str = "Cancel"
    ) -> None:
        super().__init__(state)
        self._question, self._lines, self._yes, self._no = question, lines, yes, no
        self.tone = "bad" if danger else ""

    def heading(self) -> str:
        return self._question

    def body(self) -> Sequence[Content]:
        hint = f"Enter presses {self._no}; for {self._yes.lower()}: Tab, then Enter"
        return (*self._lines, Content(""), Content.styled(hint, "$text-muted"))

    def choices(self) -> Sequence[Choice]:
        return (Choice("cancel", self._no), Choice("yes", self._yes, "error" if self.tone else "primary"))

    def chosen(self, choice: str) -> None:
        self.dismiss(choice == "yes")

    def action_close(self) -> None:
        self.dismiss(False)


class ReasonScreen(Card[str | None]):
    """The question before something that only a typed reason lets through; the reason, or None. Its button waits for one."""

    tone = "bad"
    fixed_lines = 1
    MAX_CHARS = 200

    def __init__(self, state: ConsoleState, question: str, doubt: str, lines: Sequence[Content], yes: str) -> None:
        super().__init__(state)
        self._question, self._doubt, self._lines, self._yes = question, doubt, lines, yes

    @property
    def reason(self) -> str:
        return " ".join(self.query_one(Input).value.split())

    def heading(self) -> str:
        return self._question

    def body(self) -> Sequence[Content]:
        hint = f"type why it is right all the same; it is logged here and there. Then Tab to {self._yes}, and Enter"
        return (Content.styled(f" {self._doubt}", WARN), *self._lines, Content(""), Content.styled(hint, "$text-muted"))

    def below(self) -> Iterable[Widget]:
        yield Input(placeholder="the reason", max_length=self.MAX_CHARS, id="reason")

    def choices(self) -> Sequence[Choice]:
        return (Choice("cancel", "Cancel"), Choice("yes", self._yes, "error", "a reason is needed"))

    def focus_first(self) -> None:
        self.set_focus(self.query_one(Input))  # at once, so that nothing typed ahead goes elsewhere

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.query_one("#choice-yes", Button).disabled = not self.reason

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter is no yes: it goes on to Cancel."""
        event.stop()
        self.query_one("#choice-cancel", Button).focus()

    def chosen(self, choice: str) -> None:
        self.dismiss(self.reason if choice == "yes" and self.reason else None)
