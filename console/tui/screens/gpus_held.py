"""The host's gate did not let a stage start: what its GPUs hold, who holds them, and the key that frees them."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from console.core import sanitize
from console.tui.draw import MUTED, WARN
from console.tui.free_gate import may_look
from console.tui.screens.card import Choice
from console.tui.screens.gated import GatedCard, off
from console.tui.state import ConsoleState

FREE = "free"
_MAX_CHARS = 4000


class GpusHeldScreen(GatedCard[bool]):
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
        return [
            *told,
            *off("Free GPUs", may_look(self.state)),
            Content.styled(
                " nothing was started; F shows who holds them, frees them with proof, and lets you accept an idle baseline", MUTED
            ),
        ]

    def choices(self) -> Sequence[Choice]:
        return (Choice("close", "Close"), Choice(FREE, "F Free GPUs...", "primary", may_look(self.state)))

    def chosen(self, choice: str) -> None:
        self.dismiss(choice == FREE)

    def action_close(self) -> None:
        self.dismiss(False)

    def action_free(self) -> None:
        if why := may_look(self.state):
            self.notify(why, severity="warning", markup=False)
            return
        self.dismiss(True)
