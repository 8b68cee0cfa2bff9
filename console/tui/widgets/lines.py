"""A widget that draws lines out of the state, and paints only when they changed."""

from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget

from console.tui.draw import WARN
from console.tui.state import ConsoleState

OLD = "!"


class Lines(Widget):
    """Base: override ``draw``. The number of lines is the widget's height, which the dashboard sets."""

    DEFAULT_CSS = """
    Lines { height: 1; width: 1fr; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    MARKS_OLD = False
    """Put a mark in front of each line while the link does not vouch for its numbers."""

    def __init__(self, state: ConsoleState, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.state = state
        self._lines: list[Content] = []

    def draw(self, width: int, height: int) -> list[Content]:
        """The lines for this size; more than ``height`` are cut."""
        raise NotImplementedError

    def tick(self) -> None:
        """Draw anew; paint when something changed."""
        if not self.size.width:
            return
        before, self._lines = self._lines, self._drawn()
        lines = self._lines
        if len(before) != len(lines):
            self.refresh()
            return
        changed = [row for row, (old, new) in enumerate(zip(before, lines, strict=True)) if not new.is_same(old)]
        if changed:  # only their rows: what is sent to a terminal far away costs more than finding out
            self.refresh(*(Region(0, row, self.size.width, 1) for row in changed))

    def on_resize(self) -> None:
        self.tick()

    def render(self) -> Content:
        if not self._lines:
            self._lines = self._drawn()  # the first paint comes before the first tick
        return Content("\n").join(self._lines)

    def _drawn(self) -> list[Content]:
        lines = self.draw(self.size.width, self.size.height)[: max(self.size.height, 1)]
        old = self.MARKS_OLD and self.state.view is not None and not self.state.current
        return [_marked(one) for one in lines] if old else lines


def _marked(line: Content) -> Content:
    return Content.assemble((OLD, WARN), line[1:]) if line.plain.startswith(" ") else line
