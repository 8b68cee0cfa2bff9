"""A phrase that has to be typed before something is done. Cancel has the focus; nothing but the whole phrase and Enter says yes."""

from collections.abc import Iterable, Sequence

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input

from console.core import sanitize
from console.tui.draw import STRONG, WARN
from console.tui.screens.card import Card, Choice
from console.tui.state import ConsoleState

_MAX_CHARS = 400


class TypedScreen(Card[str | None]):
    """Base: the phrase, once it was typed; None when it was cancelled. Override ``heading``, ``body`` and ``why_not``."""

    tone = "bad"
    fixed_lines = 2
    yes = "Yes"

    def __init__(self, state: ConsoleState, phrase: str) -> None:
        super().__init__(state)
        self.phrase = phrase

    def why_not(self) -> str | None:
        """Why it cannot be done now, whatever is typed."""
        raise NotImplementedError

    def below(self) -> Iterable[Widget]:
        yield _Hint(self.phrase)
        yield Input(placeholder="type it here: Tab, the phrase, Enter", max_length=_MAX_CHARS, id="phrase")

    def choices(self) -> Sequence[Choice]:
        return (Choice("cancel", "Cancel"), Choice("yes", self.yes, "error", "the phrase is not typed yet"))

    @property
    def _typed(self) -> bool:
        return " ".join(self.query_one(Input).value.split()) == self.phrase

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.query_one("#choice-yes", Button).disabled = not self._typed

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._yes()

    def chosen(self, choice: str) -> None:
        if choice == "yes":
            self._yes()
        else:
            self.dismiss(None)

    def _yes(self) -> None:
        why = self.why_not()
        if not self._typed or why is not None:
            said = why or f"that is not the phrase, which is: {sanitize.line(self.phrase, _MAX_CHARS)}"
            self.notify(said, severity="warning", markup=False)
            return
        self.dismiss(self.phrase)


class _Hint(Widget):
    """The phrase, in sight while it is typed."""

    DEFAULT_CSS = "_Hint { height: 1; }"

    def __init__(self, phrase: str) -> None:
        super().__init__()
        self._phrase = phrase

    def render(self) -> Content:
        return Content.assemble((" type  ", WARN), (sanitize.line(self._phrase, _MAX_CHARS), STRONG))
