"""The screen of ``eaglewatch watch``: one directory, the GPUs, and the end of the log. Nothing on the host can be changed from here."""

import asyncio
import time
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.worker import Worker, WorkerState

from console.config import Host
from console.core import sanitize
from console.headless.session import Session
from console.headless.watching import Target, Watching
from console.tui.draw import MUTED, PLAIN, Piece, rule
from console.tui.messages import MISTAKE
from console.tui.state import ConsoleState
from console.tui.terminal_app import TerminalApp
from console.tui.watch_draw import main_lines
from console.tui.widgets.gpus import GpuPanel
from console.tui.widgets.header import Banner, Header, banner
from console.tui.widgets.lines import Lines
from console.tui.wire import Voice
from pipeline.errors import StageError

TICK_S = 0.5
_ONLY_ONE_GPU_LINE = 30
"""Lines of a terminal below which the GPUs get one line together."""


class WatchApp(TerminalApp[int]):
    """``run`` gives back nothing: ask ``watching`` how it ended, and ``error``."""

    TITLE = "eaglewatch"
    CSS_PATH = ["styles/app.tcss", "styles/watch.tcss"]  # noqa: RUF012
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,escape,ctrl+c", "leave", show=False)]

    def __init__(self, host: Host, target: Target, theme: str = "dark", ascii_only: bool = False, session: Session | None = None) -> None:
        super().__init__(theme, ascii_only)
        self.state = ConsoleState(host=target.host, run="watch only")
        self.session = session or Session(host, Voice(self._say))
        self.state.store = self.session.store
        self.watching = Watching(self.session, target)
        self.error: StageError | None = None

    def compose(self) -> ComposeResult:
        state = self.state
        yield Header(state, id="header")
        yield Banner(state, id="banner")
        yield _Main(state, self.watching, id="main")
        yield GpuPanel(state, id="gpus")
        yield Vertical(_Tail(state, self.watching, id="tail"), id="rest")
        yield _Foot(state, id="footer")

    def on_mount(self) -> None:
        self.leave_with_terminal(self.exit)
        self.set_interval(TICK_S, self.tick)
        self.run_worker(self._live(), exit_on_error=False)
        self.tick()

    async def _live(self) -> None:
        """Until the app ends, or the link needs a person."""
        try:
            async with self.session as session:
                await session.connect()
                await self.watching.start()
                while not session.over:
                    await self.watching.keep()
                    await session.wait(TICK_S)
                await session.link.wait_connected(0.0)  # raises what it waits for
        except StageError as error:
            self.error = error
            self.exit()

    def tick(self) -> None:
        state = self.state
        state.wall_s = time.time()
        state.utc_offset_s = time.localtime(state.wall_s).tm_gmtoff
        state.link = self.session.link.status()
        self._lay_out()
        for widget in self.query(Lines):
            widget.tick()

    def _lay_out(self) -> None:
        width, height = self.size
        gpus = len(state.gpus) + 1 if (state := self.state.view) is not None and state.gpus else 1
        gpus = gpus if height >= _ONLY_ONE_GPU_LINE else 1
        told = len(banner(self.state, width))
        wanted = len(main_lines(self.state, self.watching, width))
        tail = 0 if self.watching.target.log is None else 5
        room = height - 2 - told - gpus
        self.query_one("#banner").styles.height = told
        self.query_one("#gpus").styles.height = gpus
        main = max(min(wanted, room - min(tail, room // 3)), 1)
        self.query_one("#main").styles.height = main
        self.query_one("#tail").styles.height = max(room - main, 0)

    def on_resize(self) -> None:
        if self.is_mounted and self.query(_Foot):
            self.call_after_refresh(self.tick)

    async def action_leave(self) -> None:
        self.exit()

    async def action_quit(self) -> None:
        self.exit()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A mistake of ours: without its worker this screen would stand still and look as if all were well."""
        if event.state == WorkerState.ERROR and event.worker.error is not None:
            self.error = StageError(f"{MISTAKE}: {type(event.worker.error).__name__}: {event.worker.error}")
            self.exit()

    def _say(self, text: str) -> None:
        self.notify(sanitize.line(text, 400), markup=False)

    async def on_unmount(self) -> None:
        try:
            async with asyncio.timeout(3):
                await self.session.link.close()
        except Exception:  # the process ends now, and so does what is left of the link
            return


class _Main(Lines):
    MARKS_OLD = True

    def __init__(self, state: ConsoleState, watching: Watching, **options: str) -> None:
        super().__init__(state, **options)
        self._watching = watching

    def draw(self, width: int, height: int) -> list[Content]:
        return main_lines(self.state, self._watching, width)


class _Tail(Lines):
    """The newest lines of the log."""

    def __init__(self, state: ConsoleState, watching: Watching, **options: str) -> None:
        super().__init__(state, **options)
        self._watching = watching

    def draw(self, width: int, height: int) -> list[Content]:
        log, view = self._watching.target.log, self.state.view
        if log is None or height < 2:
            return []
        told = view.log_tail if view is not None else ()
        shown = told[-(height - 1) :]
        return [rule([Piece(f"log {sanitize.line(log, 300)}", PLAIN)], [], width), *(Content(f" {one}") for one in shown)]


class _Foot(Lines):
    def draw(self, width: int, height: int) -> list[Content]:
        return [Content.styled(" q leaves; nothing on the host is started, stopped or written by this", MUTED)]
