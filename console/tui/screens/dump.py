"""A stack dump, to be read and scrolled: which process waits, and where."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from console.tui.draw import MUTED, WARN
from console.tui.screens.card import Card
from console.tui.state import ConsoleState

if TYPE_CHECKING:
    from console.headless.dumping import Dump

_MOST_LINES = 5000
"""That are shown; the incident bundle has all."""


class DumpScreen(Card[None]):
    """Opens once it came."""

    def __init__(self, state: ConsoleState, came: "Dump") -> None:
        super().__init__(state)
        self._came = came
        self._lines = lines(came)

    def heading(self) -> str:
        return f"Stacks of {self._came.stage} on {self.state.host}"

    def body(self) -> Sequence[Content]:
        return self._lines


def lines(came: "Dump") -> list[Content]:
    """How it was taken, what went wrong, then the stacks."""
    pids = ", ".join(map(str, came.pids[:12])) + (" ..." if len(came.pids) > 12 else "")
    head = [Content.styled(f" by {came.how}: {came.processes}, pid {pids}", MUTED)] if came.how and came.pids else []
    head += [Content.styled(f" {came.trouble}", WARN)] if came.trouble else []
    if not came.text:
        return [*head, Content.styled(" no stack was read", WARN)]
    found = came.text.split("\n")
    kept = f" kept for the incident bundle (ctrl+s){'; these are its first lines' if len(found) > _MOST_LINES else ''}"
    return [*head, Content.styled(kept, MUTED), Content(), *(Content(f" {one}") for one in found[:_MOST_LINES])]
