"""A button of one line for an action of the table."""

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from console.tui.bindings import BY_ID, reason
from console.tui.draw import MUTED, STRONG
from console.tui.state import ConsoleState


class ActionButton(Widget, can_focus=True):
    """Enter, space or a click does it; the reason why it cannot be done is its tooltip."""

    DEFAULT_CSS = """
    ActionButton { width: auto; height: 1; text-wrap: nowrap; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "press", show=False)]

    class Pressed(Message):
        """The button was pressed."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(self, state: ConsoleState, action: str) -> None:
        super().__init__(id=f"button-{action}")
        self.state = state
        self.wanted = BY_ID[action]
        self._reason: str | None = ""

    @property
    def columns(self) -> int:
        """How wide it is."""
        return len(self.wanted.key) + len(self.wanted.label) + 3

    def tick(self) -> None:
        why = reason(self.wanted, self.state)
        if why != self._reason:
            self._reason = why
            self.tooltip = Content(why or self.wanted.help)
            self.refresh()

    def render(self) -> Content:
        style = STRONG if self._reason is None else MUTED
        return Content.assemble("[", (self.wanted.key, style), " ", (self.wanted.label, style), "]")

    def action_press(self) -> None:
        self.post_message(self.Pressed(self.wanted.id))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.action_press()
