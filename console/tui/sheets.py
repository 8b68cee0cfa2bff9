"""What opens by itself, one sheet at a time, once no other is open: first what happened while nobody looked."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from console.tui.endings import Endings
from console.tui.screens.dashboard import Dashboard

if TYPE_CHECKING:
    from console.tui.app import ConsoleApp

Open = Callable[[], None]


class Sheets:
    """Of one app; the first paint waits for this module."""

    def __init__(self, app: "ConsoleApp", endings: Endings) -> None:
        self._app, self._endings = app, endings
        self._look_back: Open | None = None
        self._cards: list[Open] = []

    def add(self, card: Open) -> None:
        """It waits until no other is open, and nobody types."""
        self._cards.append(card)

    def look_back(self, card: Open) -> None:
        """As ``add``, before all others."""
        self._look_back = card

    def open_next(self) -> None:
        """Open one, if it is its time. None comes before the host was asked what happened meanwhile."""
        app = self._app
        if not app.screen_stack or not isinstance(app.screen, Dashboard) or app.state.looking_back:  # while the app ends there is none
            return
        if self._look_back is not None and not self._typing():
            card, self._look_back = self._look_back, None
            card()
        elif self._endings.unseen():
            app.flows.ended()
        elif self._cards and not self._typing():
            self._cards.pop(0)()

    def _typing(self) -> bool:
        """Somebody writes into the prompt: what is typed shall not go to a sheet."""
        focused = self._app.focused
        if focused is None:
            return False
        from textual.widgets import Input

        return isinstance(focused, Input)
