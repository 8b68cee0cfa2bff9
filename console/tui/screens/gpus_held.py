"""The host's gate did not let a stage start: what its GPUs hold, who holds them, and the key that frees them."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from console.core import sanitize
from console.tui.draw import MUTED, WARN
from console.tui.free_gate import may_free
from console.tui.screens.card import Card, Choice
from console.tui.state import ConsoleState

FREE = "free"
_MAX_CHARS = 4000


class GpusHeldScreen(Card[bool]):
    """True when freeing them was asked for; nothing has been started, and nothing is ended from here."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("F", "free", show=False)]
    tone = "bad"

    def __init__(self, state: ConsoleState, stage: str, line: str) -> None:
        super().__init__(state)
        self._stage, self._lines = stage, sanitize.lines(line[:_MAX_CHARS])

    def heading(self) -> str:
        return f"{self._stage} was not started: its GPUs are not verified free"

    def body(self) -> Sequence[Content]:
        told = [Content.styled(f" {line}", WARN) for line in self._lines]
        return [*told, Content.styled(" nothing was claimed; F shows who holds them, and frees them with proof", MUTED)]

    def choices(self) -> Sequence[Choice]:
        return (Choice("close", "Close"), Choice(FREE, "F Free GPUs...", "primary", may_free(self.state)))

    def chosen(self, choice: str) -> None:
        self.dismiss(choice == FREE)

    def action_close(self) -> None:
        self.dismiss(False)

    def action_free(self) -> None:
        if may_free(self.state) is None:
            self.dismiss(True)
