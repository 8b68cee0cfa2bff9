"""The stage strip: one cell a stage, each a button that opens what can be done with it."""

from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from console.tui import words
from console.tui.state import ConsoleState
from pipeline.contract.stages import STAGES, Stage

_PADDING = 2
_WAYS = ((words.ROOMY, True), (words.USUAL, True), (words.SHORT, True), (words.SHORT, False))
"""From many words to few, at last without the stages that this version does not have: the first way that fits is taken."""


class StageCell(Widget, can_focus=True):
    """A stage's name and how far it is. Enter, space or a click opens it."""

    DEFAULT_CSS = """
    StageCell { width: auto; height: 1; padding: 0 1; text-wrap: nowrap; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "press", show=False)]

    class Pressed(Message):
        """A cell was pressed."""

        def __init__(self, stage: str) -> None:
            super().__init__()
            self.stage = stage

    def __init__(self, state: ConsoleState, stage: Stage) -> None:
        super().__init__(id=f"stage-{stage.name}")
        self.state = state
        self.stage = stage
        self.tooltip = None if stage.built else Content(words.reason_not_built(stage.name))
        self._content = Content()
        self.show(words.USUAL)

    def show(self, room: int) -> None:
        """Draw it in as many words as there is room for."""
        content = Content.styled(*words.cell(self.state, self.stage, room))
        if not content.is_same(self._content):
            wider = content.cell_length != self._content.cell_length
            self._content = content
            self.refresh(layout=wider)

    def render(self) -> Content:
        return self._content

    def action_press(self) -> None:
        self.post_message(self.Pressed(self.stage.name))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.action_press()


class StageStrip(Horizontal):
    """All cells in the order of the pipeline; the arrow keys go from one to the next."""

    DEFAULT_CSS = """
    StageStrip { height: 1; width: 1fr; overflow: hidden; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "app.focus_next", show=False),
        Binding("left", "app.focus_previous", show=False),
    ]

    def __init__(self, state: ConsoleState, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._state = state

    def compose(self) -> ComposeResult:
        for stage in STAGES.values():
            yield StageCell(self._state, stage)

    def tick(self) -> None:
        room, all_of_them = way(self._state, self.size.width)
        for cell in self.query(StageCell):
            cell.display = cell.stage.built or all_of_them
            cell.show(room)


def way(state: ConsoleState, columns: int) -> tuple[int, bool]:
    """How many words the cells may take so that all are seen, and whether stages that are not built are among them."""
    for room, all_of_them in _WAYS:
        shown = [stage for stage in STAGES.values() if stage.built or all_of_them]
        if not columns or sum(cell_len(words.cell(state, stage, room)[0]) + _PADDING for stage in shown) <= columns:
            return room, all_of_them
    return _WAYS[-1]
