"""The only part of the screen that touches the wire: it keeps the state up to date, and asks the host for what the operator wants."""

import asyncio
import importlib
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from textual.message import Message

from console.core import sanitize
from console.core.attempt import Attempt
from console.tui.absence import AbsenceWatch
from console.tui.action_notices import ActionNotices
from console.tui.courses import Courses
from console.tui.end_watch import EndWatch
from console.tui.health_notices import HealthNotices
from console.tui.keeper import ControlKeeper
from console.tui.log_follower import LogFollower
from console.tui.lookups import Lookups
from console.tui.messages import Broken, Changed, Said
from console.tui.options import Clocks, Options
from console.tui.record_requests import RecordRequests
from console.tui.state import LIVE, ConsoleState
from console.tui.tasks import Tasks
from console.tui.transition_requests import TransitionRequests
from pipeline.errors import StageError

if TYPE_CHECKING:
    from console.tui.wire import Opened, ScreenSession

SLEPT_S = 3.0
"""Time that only the clock which counts suspend has seen, between two ticks."""
CLOSE_S = 3.0


class Controller(Lookups, RecordRequests, TransitionRequests):
    """Make it, ``start`` it after the first paint, ``tick`` it, ``close`` it. ``post`` gives messages to the app."""

    def __init__(
        self,
        state: ConsoleState,
        options: Options,
        post: Callable[[Message], object],
        clocks: Clocks | None = None,
        open_host: "Callable[..., Opened] | None" = None,
        make_link: Callable[..., Any] | None = None,
    ):
        self.state = state
        self.options = options
        self._post = post
        self._clocks = clocks or Clocks()
        self._open_host, self._make_link = open_host, make_link
        self._tasks = Tasks(state, post)
        self._keeper = ControlKeeper(state, self._clocks, self._tasks, self._ask_control)
        self._absence = AbsenceWatch(state)
        self._ends = EndWatch(state, self._clocks, post)
        self._follower = LogFollower(state, self._tasks, self._tail)
        self._wire: Any = None
        self._opened: Opened | None = None
        self._session: ScreenSession | None = None
        self._console = secrets.token_hex(8)
        self._suspended_s: float | None = None
        self._hello: Any = None
        self._notices = ActionNotices(state, self._ends.told)
        self._health = HealthNotices(state)
        self._courses = Courses(state, self._tasks, self.curve)
        self._start_asked = options.start is not None
        self.tick()

    # Life.

    async def start(self) -> None:
        """Find the host and dial it; returns once it is being dialed. What makes that impossible is posted as ``Broken``."""
        loop, options = asyncio.get_running_loop(), self.options

        def say(text: str) -> None:
            loop.call_soon_threadsafe(self._starting, text)

        try:
            self._wire = await asyncio.to_thread(importlib.import_module, "console.tui.wire")
            open_host = self._open_host or self._wire.open_host
            self._opened = await asyncio.to_thread(open_host, options, say)
        except StageError as error:
            self._post(Broken(error))
            return
        state, make_link = self.state, self._make_link or self._wire.Link
        session = self._wire.ScreenSession(self._opened, state.run, self._say, self._heard, state.ring.take, make_link)
        self._session = session
        state.store = session.store
        if self._opened.wanted is not None:
            state.settings_offered = self._wire.resolve_settings(self._opened.wanted.toml)
        session.link.start()
        self._starting("")

    def tick(self) -> None:
        """Bring clocks and link into the state, and do what has become due."""
        state, clocks = self.state, self._clocks
        state.wall_s = clocks.wall_s()
        state.utc_offset_s = clocks.offset_s(state.wall_s)
        suspended_s = clocks.boot_s() - clocks.steady_s()
        if self._suspended_s is not None and suspended_s - self._suspended_s > SLEPT_S:
            state.slept_s = suspended_s - self._suspended_s
        self._suspended_s = suspended_s
        if self._session is None:
            return
        before = state.link.word if state.link else ""
        state.link = self._session.link.status()
        if state.link.word == LIVE:
            state.slept_s = None
        if state.link.word != before:
            self._post(Changed())
        hello = self._session.link.hello
        if hello is not None and hello is not self._hello:
            self._hello = state.hello = hello
            self._tasks.spawn(self._greet(), "asking the host")

    async def close(self) -> None:
        """Leave the host; its jobs go on. Always returns, soon."""
        self._ends.keep()
        self._tasks.cancel()
        if self._session is not None:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await self._session.link.close()
            except Exception:  # the process ends now, and so does what is left of the link
                return

    # What the operator asks for. All raise StageError.

    async def choose_run(self, run: str) -> None:
        """Watch another run of the host."""
        state = self.state
        self._ends.keep()
        state.run, state.settings, state.settings_missing, state.looked_at = run, None, False, ""
        state.dumps = []
        self._keeper.reset()
        self._follower.reset()
        self._absence.reset()
        state.looking_back = False
        self._ends.reset()
        await self._link.watch(run)
        await self._settle()

    async def list_runs(self) -> None:
        """Bring the list of the host's runs up to date."""
        self.state.runs, _ = await self._wire.runs(self._session, self.state.host, self.options.usual_run)

    def retry(self) -> None:
        """Dial at once."""
        if self._session is not None:
            self._session.link.retry_now()

    async def launch(self, stage: str, interpreter: str, args: list[str]) -> str:
        """Start a stage; its attempt's id once the host has answered."""
        state = self.state
        order = self._wire.Order(state.host, state.run, stage, interpreter, args)
        work = self._wire.launch(self._session, order, self._opened, state.settings is None)
        attempt = await self._tasks.busy(f"starting {stage}", work)
        self._ends.launched(attempt)
        self._tasks.spawn(self._settle(), "reading the settings")
        return attempt

    async def stop(self, attempt: Attempt) -> str:
        """Ask for a stop; the attempt's state in the answer."""
        state = self.state
        work = self._wire.stop(self._session, state.host, state.run, attempt)
        return await self._tasks.busy(f"stopping {attempt.stage}", work)

    async def take_control(self, take_over: bool) -> bool:
        """Ask for control of the run; ``take_over``: also from whoever has it. Whether it is this console's now."""
        return await self._tasks.busy("asking for control", self._keeper.claim(take_over))

    # What comes from the host.

    def _heard(self) -> None:
        """A frame was folded."""
        state, view = self.state, self.state.view
        if view is None:
            return
        first = state.history.newest is None
        state.history.observe(view)
        if state.run is not None and view.run is not None and view.run.name == state.run:
            absence = self._absence.heard(view)
            if absence is not None:
                state.looking_back = True  # before the ends are told of: what happened is the first sheet
                self._tasks.spawn(self._tell_absence(absence), "asking what happened meanwhile")
            self._ends.heard(view)
            self._keeper.heard()
            self._settings_heard(view.run)
            self._follower.heard(state.run)
            self._courses.heard(view)
            for said in self._health.of(view):
                self._post(said)
        for said in self._notices.of(view):
            self._post(said)
        if first:
            self.tick()
            self._post(Changed())

    async def _tail(self, run: str, stage: str, attempt: str) -> None:
        await self._link.tail(run, stage, attempt)

    async def _ask_control(self, take_over: bool, holder: str) -> dict[str, Any]:
        return await self._wire.control(self._session, self.state.host, self.state.run, self._console, take_over, holder)

    async def _greet(self) -> None:
        """After each connection: which runs there are, control, the settings."""
        state = self.state
        state.runs, opened = await self._wire.runs(self._session, state.host, self.options.usual_run)
        if state.run is None and opened:
            await self.choose_run(opened)
        else:
            await self._settle()

    async def _settle(self) -> None:
        """Control, settings and disk of the chosen run; then what the command line asked to start, once."""
        state, run = self.state, self.state.run
        if run is None:
            return
        self._keeper.want(now=True)
        if await self._read_settings(run) and self._start_asked and not state.read_only:
            self._start_asked = False
            self._tasks.spawn(self._rehearse(), "the rehearsal")

    async def _rehearse(self) -> None:
        from console.tui.rehearser import Rehearser

        if await self._keeper.claim(take_over=False):
            await Rehearser(self.state, self.options, self._tasks, self, self._session, self._opened, self._wire).run()

    def _say(self, text: str) -> None:
        self._post(Said(text))

    def _starting(self, text: str) -> None:
        self.state.starting = sanitize.line(text, 200)
        self._post(Changed())
