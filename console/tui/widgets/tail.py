"""The log's lines: follows the newest, or stands still for a reader, whatever comes meanwhile.

A plain widget over the ring buffer: Textual's own ``Log`` stops painting once it is full, and its ``RichLog`` pulls a reader to the end.
"""

from typing import ClassVar, Self

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from console.core.logring import Frozen, LogRing, Note
from console.core.worker_lines import WorkerLines
from console.tui import terminal
from console.tui.state import ConsoleState
from console.tui.widgets.tail_paint import segments
from console.tui.widgets.tail_search import TailSearch
from console.tui.widgets.tail_words import no_lines

FLUSH_S = 0.25
"""Painting oftener costs more than an eye gains."""
_WHEEL_LINES = 3
_SIDEWAYS_COLUMNS = 20
_FEW_ROWS = 3
"""So many changed rows are painted alone."""
_CHARS_A_COLUMN = 4
"""At most, combining marks included: what lies beyond cannot be seen."""


class TailView(Widget, can_focus=True):
    """Draws ``state.ring``, or its lines of ``state.worker``. It paints four times a second at most, and only when these have changed."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"tail--note", "tail--match", "tail--mark"}
    DEFAULT_CSS = """
    TailView { height: 1fr; width: 1fr; }
    TailView > .tail--note { color: $text-muted; text-style: italic; }
    TailView > .tail--match { text-style: reverse; }
    TailView > .tail--mark { text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_lines(-1)", show=False),
        Binding("down", "scroll_lines(1)", show=False),
        Binding("pageup", "scroll_pages(-1)", show=False),
        Binding("pagedown", "scroll_pages(1)", show=False),
        Binding("home", "oldest", show=False),
        Binding("left", "sideways(-1)", show=False),
        Binding("right", "sideways(1)", show=False),
    ]

    class Moved(Message):
        """It follows or stands still now, or the search has something to say: what is above the lines has changed."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, TailView.Moved)

    def __init__(self, state: ConsoleState, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.state = state
        self.search = TailSearch(self)
        self.source: LogRing | WorkerLines = state.ring
        self._held: Frozen | None = None
        """What a reader reads; None while following."""
        self._top = 0
        self._left = 0
        self._window: list[str] = []
        """The lines that are painted, so that a paint never mixes two moments."""
        self._words = ""
        """What is painted while there is no line."""
        self._version = -1
        self.skipped_lines = 0
        """Lines that came and went while a reader stood still, when he went on."""

    @property
    def following(self) -> bool:
        return self._held is None

    @property
    def new_lines(self) -> int:
        """Lines that have come since the reader stopped following."""
        return 0 if self._held is None else max(self.source.end - self._held.end, 0)

    @property
    def outlived_lines(self) -> int:
        """Lines that are shown and that the ring has dropped: they are kept for this reader only."""
        return 0 if self._held is None else max(min(self.source.first, self._top + len(self._window)) - self._top, 0)

    @property
    def top(self) -> int:
        """Number of the first line shown."""
        return self._top

    @property
    def bottom(self) -> int:
        """Number of the last line shown."""
        return self._top + max(len(self._window) - 1, 0)

    def on_mount(self) -> None:
        self.set_interval(FLUSH_S, self.flush)

    def on_unmount(self) -> None:
        self.search.cancel()

    def on_resize(self) -> None:
        self._show()

    def focus(self, scroll_visible: bool = True) -> Self:
        """At once: Textual's own does it later, and keys typed ahead would go elsewhere."""
        self.screen.set_focus(self, scroll_visible)
        return self

    def flush(self) -> None:
        """Show what has come, unless the terminal is still busy with what was painted before."""
        if self.state.worker != getattr(self.source, "worker", ""):
            self._change_source()
        if self.following and self._version != self.source.version and terminal.takes_more():
            self._show()
        elif not self._window and self._words != no_lines(self.state):
            self.refresh()

    def lines(self) -> Frozen:
        """All lines that can be scrolled to now."""
        return self._held or self.source.freeze()

    def log_end(self) -> None:
        """Follow again, at what is newest now."""
        self._held = None
        self._left = self.skipped_lines = 0
        self._show(repaint=True)
        self.post_message(self.Moved())

    def toggle_follow(self) -> None:
        if self.following:
            self._held = self.source.freeze()
            self.post_message(self.Moved())
        else:
            self.log_end()

    def show_line(self, number: int, lines: Frozen) -> None:
        """Stand still at a line of ``lines``."""
        if self._held is None or not self._held.first <= number < self._held.end:
            self._held = lines
        if not self._top <= number <= self.bottom:
            self._top = number - self.size.height // 3
        self._show(repaint=True)

    def hold_more(self) -> None:
        """Let a reader go on to what has come since; what only this reader has stays, within bounds."""
        held, ring = self._held, self.source
        if held is not None:
            keep = max(held.first, ring.end - 2 * ring.max_lines)
            self._held = ring.refreeze(held, min(keep, self._top))
            self.skipped_lines = max(ring.first - held.closed_end, 0)

    def sideways_to(self, column: int, columns: int) -> None:
        """Make columns of a long line visible."""
        width = max(self.size.width - 2, 1)
        if not self._left <= column <= column + columns <= self._left + width:
            self._left = 0 if column + columns <= width else max(column - width // 3, 0)
            self._show(repaint=True)

    def action_scroll_lines(self, lines: int) -> None:
        """Up leaves following; down past the newest line follows again."""
        if self._held is None:
            if lines >= 0:
                return
            self._held = self.source.freeze()
        elif lines > 0 and self.bottom + lines >= self._held.end - 1:
            self.hold_more()
            if self.bottom + lines >= self._held.end - 1:
                self.log_end()
                return
        self._top += lines
        self._show()
        self.post_message(self.Moved())

    def action_scroll_pages(self, pages: int) -> None:
        self.action_scroll_lines(pages * max(self.size.height - 1, 1))

    def action_oldest(self) -> None:
        self._held = self.lines()
        self._top = self._held.first
        self._show()
        self.post_message(self.Moved())

    def action_sideways(self, steps: int) -> None:
        self._left = max(self._left + steps * _SIDEWAYS_COLUMNS, 0)
        self._show(repaint=True)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_scroll_lines(-_WHEEL_LINES)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_scroll_lines(_WHEEL_LINES)

    def _change_source(self) -> None:
        """Other lines, with numbers of their own: follow them, and search them anew."""
        self.source = WorkerLines(self.state.ring, self.state.worker) if self.state.worker else self.state.ring
        self.log_end()
        self.search.restart()

    def _show(self, repaint: bool = False) -> None:
        """Choose the lines for the rows, and paint the rows that changed."""
        rows = self.size.height
        if not rows:
            return
        self._version = self.source.version
        source = self._held or self.source
        last_top = max(source.end - rows, source.first)
        self._top = last_top if self.following else min(max(self._top, source.first), last_top)
        before, self._window = self._window, source.lines(self._top, self._top + rows)
        if repaint or len(before) != len(self._window):
            self.refresh()
            return
        changed = [row for row, (old, new) in enumerate(zip(before, self._window, strict=True)) if old != new or type(old) is not type(new)]
        if len(changed) > _FEW_ROWS:
            self.refresh()
        elif changed:
            self.refresh(*(Region(0, row, self.size.width, 1) for row in changed))

    def render_line(self, y: int) -> Strip:
        base, width = self.rich_style, self.size.width
        if y >= len(self._window):
            words = no_lines(self.state) if y == 0 and not self._window else ""
            self._words = words or self._words
            return Strip([Segment(f" {words}", base + self.get_component_rich_style("tail--note"))]).crop_extend(0, width, base)
        return self._strip(self._top + y, self._window[y], base, width)

    def _strip(self, number: int, line: str, base: Style, width: int) -> Strip:
        """One column for a mark, which the log itself cannot write into, then the line, cut at both sides."""
        found = number == self.search.found
        mark = ">" if found else "┄" if isinstance(line, Note) else " "
        strong = base + self.get_component_rich_style("tail--mark")
        style = base + self.get_component_rich_style("tail--note") if isinstance(line, Note) else base
        room = max(width - 1, 0)
        seen = line[: (self._left + room + 1) * _CHARS_A_COLUMN]
        strip = Strip(segments(seen, self.search.spans(number, seen), style, style + self.get_component_rich_style("tail--match")))
        cut_left, cut_right = self._left > 0 and bool(line), strip.cell_length > self._left + room
        text = strip.crop_extend(self._left, self._left + room - cut_right, style)
        if cut_left and not found:
            mark = "‹"
        start, end = Segment(mark, style if mark == " " else strong), [Segment("›", strong)] if cut_right else []
        # Simplified, because each piece with a style of its own costs 50 bytes to the terminal.
        return Strip.join([Strip([start]), text, Strip(end)]).crop_extend(0, width, base).simplify()
