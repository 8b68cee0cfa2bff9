"""All keys, from the table of actions; those that cannot be used now say why."""

from collections.abc import Sequence

from textual.content import Content

from console.tui.bindings import ACTIONS, Action, reason
from console.tui.draw import MUTED, STRONG, WARN
from console.tui.screens.card import Card
from console.tui.state import ConsoleState

_KEY_COLUMNS, _LABEL_COLUMNS = 7, 15
_MOVING = (
    ("Tab", "Buttons", "arrows too; Enter presses, Escape closes"),
    ("", "In the log", "arrows, PageUp, Home scroll; f or G follows again"),
)


class HelpScreen(Card[None]):
    """Reads the table of actions, so that it cannot differ from the keys."""

    title_text = "Help: lower-case keys look, upper-case keys act and ask first"

    def body(self) -> Sequence[Content]:
        return [*(help_line(action, self.state) for action in ACTIONS), *(_columns(*row, MUTED, MUTED) for row in _MOVING)]


def help_line(action: Action, state: ConsoleState) -> Content:
    """``X  Stop a stage  choose one ...``; when it cannot be done now, the reason instead."""
    why = reason(action, state)
    key = action.key or ":"
    if why is None:
        return _columns(key, action.label, action.help, STRONG, MUTED)
    return _columns(key, action.label, f"not now: {why}", MUTED, WARN)


def _columns(key: str, label: str, text: str, style: str, text_style: str) -> Content:
    return Content.assemble(" ", (key.ljust(_KEY_COLUMNS), style), (f"{label} ".ljust(_LABEL_COLUMNS), style), (text, text_style))
