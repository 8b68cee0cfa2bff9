"""The keys worth knowing, each a thing to click. Built from the table of actions; what cannot be done now is dimmed."""

from textual import events
from textual.content import Content
from textual.message import Message

from console.tui.bindings import ACTIONS, Action, reason
from console.tui.draw import MUTED, PLAIN, STRONG, WARN
from console.tui.state import ConsoleState
from console.tui.widgets.lines import Lines

_LEAST_NEEDED_FIRST = (
    "audit", "details", "evidence", "search_log", "start_stage", "samples", "focus_log", "palette", "free_gpus", "next_stage",
)  # fmt: skip


class KeyFooter(Lines):
    """One line. ``hint`` takes its place while something with a story of its own has the focus."""

    class Chosen(Message):
        """An action was clicked."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(self, state: ConsoleState, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(state, id)
        self.hint = ""
        self._places: list[tuple[int, int, str]] = []

    def draw(self, width: int, height: int) -> list[Content]:
        if self.hint:
            self._places = []
            return [Content.styled(f" {self.hint}", STRONG)]
        content, self._places = footer(self.state, width)
        return [content]

    def on_click(self, event: events.Click) -> None:
        for start, end, action in self._places:
            if start <= event.x < end:
                self.post_message(self.Chosen(action))


def footer(state: ConsoleState, width: int) -> tuple[Content, list[tuple[int, int, str]]]:
    """The line, and which columns belong to which action: acting keys first, then a bar, then looking ones, as many as fit."""
    shown = [action for action in ACTIONS if action.short]
    if state.busy:
        return Content.styled(f" {state.busy} ...", WARN), []
    acting = [one for one in shown if one.key in (">", "S", "X", "F")]
    looking = [one for one in shown if one not in acting]
    while _width(acting) + _width(looking) + 3 > width and (looking or acting):
        _drop(acting, looking)
    parts: list[Content | str | tuple[str, str]] = []
    places: list[tuple[int, int, str]] = []
    column = 0
    for number, action in enumerate([*acting, *looking]):
        gap = "| " if number == len(acting) and number else " " if not number else ""
        column += len(gap)
        style = PLAIN if reason(action, state) is None else MUTED
        parts += [gap, (action.key, STRONG if style == PLAIN else MUTED), (f" {action.short}  ", style)]
        end = column + len(action.key) + len(action.short) + 1
        places.append((column, end, action.id))
        column = end + 2
    return Content.assemble(*parts), places


def _width(actions: list[Action]) -> int:
    return sum(len(one.key) + len(one.short) + 3 for one in actions)


def _drop(acting: list[Action], looking: list[Action]) -> None:
    """Leave out the least needed: stop, help and quit stay longest."""
    for name in _LEAST_NEEDED_FIRST:
        for actions in (acting, looking):
            for one in actions:
                if one.id == name:
                    actions.remove(one)
                    return
    (acting or looking).pop(0)
