"""What the dashboard shows between its first lines and its last: stages, GPUs, progress, evidence, log."""

from textual.containers import Container, Horizontal
from textual.widget import Widget

from console.tui import gates, words
from console.tui.layout import Plan
from console.tui.state import ConsoleState
from console.tui.widgets.button import ActionButton
from console.tui.widgets.evidence import EvidenceLine, VerifiedLine
from console.tui.widgets.gpus import GpuPanel
from console.tui.widgets.log_pane import LogPane
from console.tui.widgets.progress import ProgressBlock
from console.tui.widgets.strip import StageCell, StageStrip

_BUTTON_FROM_COLUMNS, _NEXT_FROM_COLUMNS = 70, 100
"""Where one fits beside the words of the GPU panel's header, and where two do."""


class Parts:
    """The widgets from top to bottom, their heights, and what draws them."""

    def __init__(self, state: ConsoleState) -> None:
        self._state = state
        self.log = LogPane(state, id="log")
        self._strip, self._panel, self._button = (
            StageStrip(state, id="strip"),
            GpuPanel(state, id="gpu-panel"),
            ActionButton(state, "free_gpus"),
        )
        self._next = ActionButton(state, "next_stage")
        self._buttons = Horizontal(self._next, self._button, id="gpu-buttons")
        self._gpus = Container(self._panel, self._buttons, id="gpus")
        self._progress = ProgressBlock(state, id="progress")
        self._evidence, self._verified = EvidenceLine(state, id="evidence"), VerifiedLine(state, id="verified")
        self._plan: Plan | None = None

    @property
    def widgets(self) -> list[Widget]:
        """In their order on the screen."""
        return [self._strip, self._gpus, self._progress, self._evidence, self._verified, self.log]

    def tick(self) -> None:
        """Draw what changed."""
        for widget in (self._strip, self._panel, self._next, self._button, self._progress, self._evidence, self._verified, self.log):
            widget.tick()

    def lay_out(self, chosen: Plan, width: int) -> None:
        """Give each its lines."""
        self._buttons.display = chosen.gpus > 1 and width >= _BUTTON_FROM_COLUMNS
        under_way = gates.live_transition(self._state) or gates.next_transition(self._state) is not None
        self._next.display = self._buttons.display and width >= _NEXT_FROM_COLUMNS and under_way and not self._state.read_only
        self._button.display = not self._state.read_only  # its key only says why it is off
        shown = [one for one in (self._next, self._button) if self._buttons.display and one.display]
        for one in shown:
            one.styles.width = one.columns
        self._buttons.styles.width = sum(one.columns + 1 for one in shown)
        self._panel.reserved = sum(one.columns + 1 for one in shown) + 1 if shown else 0
        if chosen == self._plan:
            return
        self._plan = chosen
        heights = (chosen.strip, chosen.gpus, chosen.progress, chosen.evidence, chosen.verified, chosen.log_title + chosen.log)
        for widget, lines in zip(self.widgets, heights, strict=True):
            widget.display = lines > 0
            widget.styles.height = lines

    def hint(self, focused: Widget | None) -> str:
        """What the thing in focus is, where its own place is too small to say it."""
        name = self.stage_of(focused)
        if name is None:
            return ""
        why = gates.start_stage(self._state, name)
        if why == words.reason_not_built(name):
            return f"{why}; Enter: more, Escape: back"
        why = gates.act(self._state) or why
        return f"Enter: details, start, stop of {name}" + (f" ({why})" if why else "")

    @staticmethod
    def stage_of(focused: Widget | None) -> str | None:
        """The stage of a cell of the strip; None for anything else."""
        return focused.stage.name if isinstance(focused, StageCell) else None
