"""A scripted link in place of the real one: the tests feed it frames, and it records what was asked of the host."""

import inspect
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import data_scenes
import free_scenes
import scenes
import transition_scenes
from textual.pilot import Pilot

from console.config import Host
from console.remote.errors import AgentError
from console.remote.state import LinkStatus
from console.tui.app import ConsoleApp
from console.tui.options import Clocks, Options
from console.tui.screens.confirm import ConfirmScreen
from console.tui.state import ConsoleState
from console.tui.widgets.tail import TailView
from console.tui.wire import Opened

HELLO = {
    "version": 1, "code": "0123456789abcdef", "python": "3.11.9", "user": "root", "host": "gpu1", "boot_id": "boot-a", "boot_s": 138.0,
    "pid": 77, "data_dir": "/data/eaglewatch", "simulated": False,
}  # fmt: skip
SETTINGS = '[model]\npath = "/data/models/k25"\n\n[extract]\noutput = "/data/hidden_states"\n'


PROVENANCE = {
    "python": "3.12.3", "interpreter": "/opt/train/bin/python", "packages": {"torch": "2.11", "vllm": "0.25.1"}, "override": None,
    "model": {"path": "/data/models/k25", "fingerprint": "9f1c2a77aa00bb11"}, "inputs": {"prepare": "4be1aa0012345678"}, "git": None,
}  # fmt: skip


class FakeLink:
    """One host, as the test says it stands. ``answers`` maps an operation to what it replies (or raises)."""

    def __init__(
        self, host: Host, on_frame: Any = None, on_log: Any = None, on_change: Any = None, interval_s: float = 1.0, run: Any = None
    ):
        self.host, self.run = host, run
        self._on_frame, self._on_log, self._on_change = on_frame, on_log, on_change
        self.hello: dict[str, Any] | None = None
        self.now = LinkStatus("CONNECTING", None, 1, None, "")
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.closed = self.retried = False
        self.begin: Callable[[], None] = lambda: None
        self.answers: dict[str, Any] = {
            "runs": {"runs": [{"name": "k25-10k", "stages": {}}]},
            "read": lambda fields: {"value": PROVENANCE if fields["what"] == "provenance" else SETTINGS},
            "control": {"yours": True, "holder": {"by": "me on here", "since_boot_s": 100.0}, "boot_s": 100.0},
            "interpreters": {"found": []},
            "launch": {"state": "RUNNING", "pid": 4243, "attempt": "", "existing": False},
            "stop": {"state": "STOPPING"},
            "free.plan": lambda fields: {"plan": free_scenes.plan()},
            "transition.plan": lambda fields: {"plan": transition_scenes.plan()},
            "audit": {"lines": []},
            "sample": lambda fields: data_scenes.sample(),
        }

    # What the controller uses.

    def start(self) -> None:
        self.asked.append(("start", {}))
        self.begin()

    def status(self, now_s: float | None = None) -> LinkStatus:
        return self.now

    def frame_age_s(self, now_s: float | None = None) -> float | None:
        return self.now.age_s

    def retry_now(self) -> None:
        self.retried = True

    async def request(self, op: str, timeout_s: float = 15.0, **fields: Any) -> dict[str, Any]:
        self.asked.append((op, fields))
        answer = self.answers.get(op, {})
        answer = answer(fields) if callable(answer) else answer
        answer = await answer if inspect.isawaitable(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    async def launch(
        self, run: str, stage: str, attempt: str, interpreter: str, args: list[str], env: dict[str, str], by: str, **gate: Any
    ) -> dict[str, Any]:
        return await self.request("launch", run=run, stage=stage, attempt=attempt, interpreter=interpreter, args=args, by=by, **gate)

    async def act(self, run: str, action: str, attempt: str, order: dict[str, Any], by: str) -> dict[str, Any]:
        return await self.request("launch", run=run, stage=action, attempt=attempt, order=order, by=by)

    async def stop(self, run: str, stage: str, attempt: str | None, by: str) -> dict[str, Any]:
        return await self.request("stop", run=run, stage=stage, attempt=attempt, by=by)

    async def watch(self, run: str | None, interval_s: float = 1.0, disk_path: str | None = None) -> None:
        self.run = run
        self.asked.append(("watch", {"run": run, "disk_path": disk_path}))

    async def tail(self, run: str | None, stage: str = "", attempt: str | None = None, offset: int = -65536, follow: bool = True) -> None:
        await self.request("tail", run=run, stage=stage, attempt=attempt)

    async def close(self) -> None:
        self.closed = True

    # What the test uses.

    def connect(self, **hello: Any) -> None:
        self.hello = {**HELLO, **hello}
        self.now = LinkStatus("LIVE", 0.4, 0, None, "")
        self._on_change()

    def feed(self, frame: dict[str, Any]) -> None:
        self._on_frame(frame, 0.0)

    def log(self, text: str, offset: int = 0, attempt: str = "", inode: int = 1) -> None:
        piece = {"attempt": attempt, "inode": inode, "offset": offset, "end": offset + len(text), "data": text, "dropped_bytes": 0}
        self._on_log(piece, 0.0)

    def ops(self, op: str) -> list[dict[str, Any]]:
        """The fields of every request of this operation."""
        return [fields for name, fields in self.asked if name == op]


@dataclass
class FakeClock:
    """Stands still until it is moved."""

    boot_s: float = 1000.0
    wall_s: float = 1_767_186_720.0
    """2025-12-31 13:12 UTC."""
    asleep_s: float = 0.0

    def clocks(self) -> Clocks:
        return Clocks(lambda: self.boot_s, lambda: self.boot_s - self.asleep_s, lambda: self.wall_s, lambda _: 0.0)


@dataclass
class Fixture:
    """An app on a scripted link."""

    host: str = "gpu-host"
    run: str | None = "k25-10k"
    read_only: bool = False
    start: str | None = None
    usual_run: str = ""
    theme: str = "dark"
    ascii_only: bool = False
    connected: bool = True
    frames: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""
    prepare: Callable[[FakeLink], None] | None = None
    interpreters: dict[str, str] = field(default_factory=lambda: {"default": "/opt/train/bin/python"})
    clock: FakeClock = field(default_factory=FakeClock)

    def app(self) -> ConsoleApp:
        options = Options(self.host, self.run, self.read_only, start=self.start, usual_run=self.usual_run)
        self.made = ConsoleApp(options, self.theme, self.ascii_only, self.clock.clocks(), self._open, self._link)
        return self.made

    @property
    def link(self) -> FakeLink:
        return self._made

    def _open(self, options: Options, say: Any) -> Opened:
        return Opened(Host(alias=options.host, interpreters=self.interpreters))

    def _link(self, host: Host, **options: Any) -> FakeLink:
        self._made = FakeLink(host, **options)
        self._made.begin = self._begin
        return self._made

    def _begin(self) -> None:
        if self.prepare is not None:
            self.prepare(self._made)
        if self.connected:
            self._made.connect()
        for frame in self.frames:
            self._made.feed(frame)
        if self.log:
            self._made.log(self.log)


def state_of(frame: Any, status: LinkStatus | None = None) -> ConsoleState:
    """What the screen knows after this frame, with control and a live link."""
    state = ConsoleState("gpu-host", scenes.RUN, wall_s=1_767_186_720.0)
    state.link = status or LinkStatus("LIVE", 0.4, 0, None, "")
    state.in_control = True
    state.store.fold(frame)
    if state.view is not None:
        state.history.observe(state.view)
    return state


def lost(op: str) -> AgentError:
    return AgentError("lost", f"connection lost before the answer to {op} came")


def painted(app: ConsoleApp) -> list[str]:
    """What is on the screen, a string a line."""
    strips = app.screen._compositor.render_strips(app.size)
    return ["".join(segment.text for segment in strip) for strip in strips]


@asynccontextmanager
async def showing(fixture: Fixture, width: int = 80, height: int = 24) -> AsyncIterator[Pilot[Any]]:
    """The app on a screen of this size, once the scripted host has been asked everything."""
    async with fixture.app().run_test(size=(width, height), notifications=True) as pilot:
        await until(pilot, lambda: hasattr(fixture, "_made") and bool(fixture.link.asked))
        if fixture.connected:
            await until(pilot, lambda: app_of(pilot).state.runs is not None)
            if app_of(pilot).state.run is not None:
                await until(pilot, lambda: app_of(pilot).state.settings is not None or app_of(pilot).state.settings_missing)
        app_of(pilot).tick()
        await pilot.pause()
        yield pilot


def app_of(pilot: Pilot[Any]) -> ConsoleApp:
    assert isinstance(pilot.app, ConsoleApp)
    return pilot.app


async def until(pilot: Pilot[Any], condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Until ``condition`` holds; the screen goes on meanwhile."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "\n".join(painted(app_of(pilot)))
        await pilot.pause(0.02)


async def redraw(pilot: Pilot[Any]) -> str:
    """What is painted after a tick; the log has a clock of its own."""
    app_of(pilot).tick()
    for tail in app_of(pilot).screen_stack[0].query(TailView):
        tail.flush()
    await pilot.pause()
    return "\n".join(painted(app_of(pilot)))


async def confirm(pilot: Pilot[Any]) -> str:
    """What the question said; it is answered with yes."""
    await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen))
    text = await redraw(pilot)
    await pilot.press("tab", "enter")
    return text
