"""The keys worth knowing, each a thing to click. Built from the table of actions: what can be done now, then what cannot, dimmed."""

from textual import events
from textual.content import Content
from textual.message import Message

from console.tui.bindings import ACTIONS, Action, reason
from console.tui.draw import MUTED, PLAIN, STRONG, WARN
from console.tui.state import ConsoleState
from console.tui.widgets.lines import Lines

_LEAST_NEEDED_FIRST = (
    "audit", "search_log", "palette", "evidence", "focus_log", "samples", "details", "free_gpus", "start_stage", "next_stage", "stop_stage",
)  # fmt: skip
_ALWAYS = ("help", "quit")


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
    """The line, and which columns belong to which action: acting keys first, then a bar, then looking ones, as many as fit.

    Where not all fit, those go first that cannot be used now; how to get help and how to leave never go.
    """
    shown = [action for action in ACTIONS if action.short and not (state.read_only and action.dangerous)]
    if state.busy:
        return Content.styled(f" {state.busy} ...", WARN), []
    impossible = {one.id for one in shown if reason(one, state) is not None}
    order = [name for name in _LEAST_NEEDED_FIRST if name in impossible] + [name for name in _LEAST_NEEDED_FIRST if name not in impossible]
    gap = 2
    while _width(shown, gap) > width and len(shown) > 1:
        if gap > 1 and not any(one.id in impossible for one in shown):
            gap = 1
            continue
        last = next((name for name in order if any(one.id == name for one in shown)), _ALWAYS[0])
        shown = [one for one in shown if one.id != last]
    acting = [one for one in shown if one.key in (">", "S", "X", "F")]
    looking = [one for one in shown if one not in acting]
    parts: list[Content | str | tuple[str, str]] = []
    places: list[tuple[int, int, str]] = []
    column = 0
    for number, action in enumerate([*acting, *looking]):
        before = "| " if number == len(acting) and number else " " if not number else ""
        column += len(before)
        style = MUTED if action.id in impossible else PLAIN
        parts += [before, (action.key, STRONG if style == PLAIN else MUTED), (f" {action.short}", style), " " * gap]
        end = column + len(action.key) + len(action.short) + 1
        places.append((column, end, action.id))
        column = end + gap
    return Content.assemble(*parts[:-1]), places


def _width(actions: list[Action], gap: int) -> int:
    """Columns of the line: its margin, the bar between the two kinds, and every action with the gap after it but for the last."""
    return 1 + 2 + sum(len(one.key) + 1 + len(one.short) for one in actions) + gap * (len(actions) - 1)
