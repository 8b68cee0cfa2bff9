"""Something that was asked for did not happen: what, and what to do. It stays until it was read."""

from collections.abc import Sequence

from textual.content import Content

from console.core import sanitize
from console.tui.screens.card import Card
from console.tui.state import ConsoleState

_MAX_CHARS = 4000


class ProblemScreen(Card[None]):
    """A title and the message as it came, made safe."""

    tone = "bad"

    def __init__(self, state: ConsoleState, title: str, text: str) -> None:
        super().__init__(state)
        self._title = title
        self._lines = [Content(f" {line}") for line in sanitize.lines(text[:_MAX_CHARS])]

    async def action_leave(self) -> None:
        await self.app.action_quit()  # it opened by itself

    def heading(self) -> str:
        return self._title

    def body(self) -> Sequence[Content]:
        return self._lines
