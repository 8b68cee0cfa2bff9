"""A sheet over the dashboard: a title, lines that may be drawn anew at each tick, and buttons. Escape closes it."""

from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Static
from textual.worker import Worker, WorkerState

from console.core import sanitize
from console.tui.messages import MISTAKE, Problem
from console.tui.state import ConsoleState

Result = TypeVar("Result")
_BORDER_AND_BUTTONS = 4


class Choice(NamedTuple):
    """A button of a card. ``why`` not None: it cannot be pressed, for that reason."""

    id: str
    label: str
    variant: str = "default"
    why: str | None = None


class Card(ModalScreen[Result]):
    """Base: override ``body`` and ``choices``. What the button that was pressed stands for is for ``chosen``."""

    CSS_PATH = "../styles/sheets.tcss"
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close", show=False),
        Binding("q", "leave", show=False),
        Binding("ctrl+s", "app.perform('incident')", show=False),  # with the sheet in its picture
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
        Binding("pagedown", "scroll(10)", show=False),
    ]
    title_text = ""
    fixed_lines = 0
    """Of ``above`` and ``below`` together."""
    button_form = "[ {} ]"
    tone = ""
    """A class of the sheet: ``good``, ``bad`` or nothing."""

    def __init__(self, state: ConsoleState) -> None:
        super().__init__()
        self.state = state
        self._shown = Content()

    def body(self) -> Sequence[Content]:
        """The lines; long ones wrap."""
        raise NotImplementedError

    def choices(self) -> Sequence[Choice]:
        """The buttons, the harmless one first: it has the focus."""
        return (Choice("close", "Close"),)

    def above(self) -> Iterable[Widget]:
        """What stays in sight above the lines."""
        return ()

    def below(self) -> Iterable[Widget]:
        """What stays in sight between the lines and the buttons."""
        return ()

    def chosen(self, choice: str) -> None:
        """A button was pressed."""
        self.dismiss(None)

    def heading(self) -> str:
        return self.title_text

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet", classes=self.tone) as sheet:
            sheet.border_title = Content(sanitize.line(self.heading(), 200))
            self._shown = self._draw()
            yield from self.above()
            with VerticalScroll(id="scroll", can_focus=False):
                yield Static(self._shown, id="body")
            yield from self.below()
            with Horizontal(id="buttons"):
                for choice in self.choices():
                    label = Content(self.button_form.format(choice.label))
                    button = Button(label, id=f"choice-{choice.id}", compact=True, disabled=choice.why is not None)
                    button.add_class(f"-{choice.variant}")
                    button.tooltip = None if choice.why is None else Content(choice.why)
                    yield button

    def on_mount(self) -> None:
        self.focus_first()

    def focus_first(self) -> None:
        """The first button that can be pressed: the harmless one."""
        buttons = [one for one in self.query(Button) if not one.disabled]
        if buttons:
            buttons[0].focus()

    def on_resize(self, event: events.Resize) -> None:
        """The buttons stay in sight, whatever the lines need."""
        for scroll in self.query("#scroll"):  # none while it is taken down
            scroll.styles.max_height = max(event.size.height - _BORDER_AND_BUTTONS - self.fixed_lines, 1)

    def tick(self) -> None:
        """Draw the lines anew; a tick may come before they are there for the first time, or while the sheet goes."""
        if not self.query("#body"):
            return
        content = self._draw()
        if not content.is_same(self._shown):
            self._shown = content
            self.query_one("#body", Static).update(content)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.chosen((event.button.id or "").removeprefix("choice-"))

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A mistake of ours in a sheet's worker: the app is told, which hears only of its own."""
        if event.state == WorkerState.ERROR and event.worker.error is not None:
            self.app.post_message(Problem(MISTAKE, f"{type(event.worker.error).__name__}: {event.worker.error}"))

    def action_close(self) -> None:
        self.dismiss(None)

    def action_leave(self) -> None:
        """The key that leaves the console: a sheet that the operator has opened it only closes."""
        self.action_close()

    def action_scroll(self, lines: int) -> None:
        for scroll in self.query("#scroll").results(VerticalScroll):  # none yet, for a key that was typed ahead
            scroll.scroll_relative(y=lines, animate=False)

    def _draw(self) -> Content:
        return Content("\n").join(self.body())
