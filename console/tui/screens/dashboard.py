"""The dashboard: everything an operator needs at a glance, in 24 lines of 80 columns and in any other size.

It is painted in two steps: first what says where one is and how to leave, then the rest, whose code is loaded meanwhile.
"""

import asyncio
import importlib
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Size
from textual.screen import Screen

from console.tui.layout import Plan, plan
from console.tui.state import ConsoleState
from console.tui.widgets.footer import KeyFooter
from console.tui.widgets.header import Banner, Header, banner

if TYPE_CHECKING:
    from console.tui.screens.parts import Parts
    from console.tui.widgets.log_pane import LogPane

_GPUS_EXPECTED = 8


class Dashboard(Screen[None]):
    """Lays its parts out by ``layout.plan`` and draws them at each tick."""

    AUTO_FOCUS = ""

    def __init__(self, state: ConsoleState) -> None:
        super().__init__(classes="-old")
        self.state = state
        self._parts: Parts | None = None
        self._plan: Plan | None = None
        self._drawn_size: Size | None = None

    def compose(self) -> ComposeResult:
        yield Header(self.state, id="header")
        yield Banner(self.state, id="banner")
        yield Vertical(id="parts")
        yield KeyFooter(self.state, id="footer")

    async def fill(self) -> None:
        """Add what the first paint did not wait for."""
        await asyncio.to_thread(importlib.import_module, "console.tui.screens.parts")
        from console.tui.screens.parts import Parts

        parts = Parts(self.state)
        await self.query_one("#parts").mount_all(parts.widgets)
        self._parts, self._plan = parts, None
        self.tick()

    @property
    def log_pane(self) -> "LogPane | None":
        """The log; None for the blink of an eye after the first paint."""
        return self._parts.log if self._parts else None

    @property
    def focused_stage(self) -> str | None:
        """The stage whose cell has the focus."""
        return self._parts.stage_of(self.focused) if self._parts else None

    def on_mount(self) -> None:
        if self._drawn_size is None:
            self.tick()

    def on_resize(self, event: events.Resize) -> None:
        if event.size != self._drawn_size:
            self.tick(event.size)

    def tick(self, size: Size | None = None) -> None:
        """Draw what changed."""
        if not self.query(KeyFooter):
            return  # the first resize comes before anything is there
        self._drawn_size = size or self.size
        self._lay_out(*self._drawn_size)
        self.set_class(not self.state.current, "-old")
        self.query_one(Header).tick()
        self.query_one(Banner).tick()
        footer = self.query_one(KeyFooter)
        if self._parts is not None:
            self._parts.tick()
            footer.hint = self._parts.hint(self.focused)
        footer.tick()

    def _lay_out(self, width: int, height: int) -> None:
        gpus = self.state.view.gpus if self.state.view else None
        chosen = plan(height, len(banner(self.state, width)), _GPUS_EXPECTED if gpus is None else max(len(gpus), 1))
        if self._parts is not None:
            self._parts.lay_out(chosen, width)
        if chosen == self._plan:
            return
        self._plan = chosen
        for name, lines in (("banner", chosen.banner), ("footer", chosen.footer)):
            widget = self.query_one(f"#{name}")
            widget.display = lines > 0
            widget.styles.height = lines

    def key_escape(self) -> None:
        self.state.looked_at = ""
        self.set_focus(None)
        self.tick()

    def on_descendant_focus(self) -> None:
        """A cell of the strip shows its stage; so it stays while the log or a button has the focus, until Escape."""
        if (stage := self.focused_stage) is not None:
            self.state.looked_at = stage
        self.tick()

    def on_descendant_blur(self) -> None:
        self.tick()
