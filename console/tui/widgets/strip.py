"""The stage strip: one cell a stage, each a button that opens what can be done with it."""

from typing import ClassVar

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

_ROOMY_COLUMNS = 110
_ALL_COLUMNS = 72
"""Below this only the stages that this version has are shown."""


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
        self.tick()

    def tick(self) -> None:
        text, style = words.cell(self.state, self.stage, self.app.size.width >= _ROOMY_COLUMNS if self.is_attached else False)
        content = Content.styled(text, style)
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
        all_of_them = self.size.width >= _ALL_COLUMNS or not self.size.width
        for cell in self.query(StageCell):
            cell.display = cell.stage.built or all_of_them
            cell.tick()
