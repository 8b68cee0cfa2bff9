"""A sheet that opens by itself swallows no key: what is none of its own closes it, and does what it does on the dashboard."""

from textual import events

from console.tui.bindings import keys
from console.tui.screens.card import Card, Result

CARD_KEYS = frozenset(
    ("up", "down", "left", "right", "j", "k", "pageup", "pagedown", "tab", "enter", "space", "escape", "q", "home", "end")
)


class PassingCard(Card[Result]):
    """Base. Every action that changes something asks first, so that a key which was meant for what stood there before does no harm."""

    own_keys = CARD_KEYS

    def action_leave(self) -> None:
        self.perform("quit")

    def on_key(self, event: events.Key) -> None:
        if event.key in self.own_keys:
            return
        action = next((action for key, action in keys() if key == event.key), None)
        if action is not None:
            event.stop()
            self.perform(action.id)

    def perform(self, action: str) -> None:
        """Close, and do it on the dashboard."""
        from console.tui.app import ConsoleApp

        assert isinstance(self.app, ConsoleApp)
        self.dismiss(None)
        self.app.call_later(self.app.perform, action)
