"""A link and its store for one command, and waiting for what the host tells."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from console.config import REHEARSAL, Host
from console.core import fmt, runs
from console.core.frame_ring import FrameRing
from console.core.runs import Listed
from console.core.store import Store
from console.headless.lines import LinkNow
from console.headless.output import CannotTellError, Output
from console.remote import state
from console.remote.link import Link
from console.remote.state import LinkStatus
from pipeline.contract.clock import boot_s

CONNECT_S = 60.0
PATIENCE_S, REHEARSAL_PATIENCE_S = 5.0, 20.0
"""After a first dial that failed, others are tried this long: a server that restarts is back by then, a rehearsed dropped link too."""
FRAME_S = 15.0
OVER = (state.AUTH_NEEDED, state.HOST_KEY, state.FAILED, state.CLOSED)
"""Words of a link that does not dial by itself any more."""


class Session:
    """``async with`` it: the link dials inside, and is closed at the end; jobs do not depend on it."""

    def __init__(
        self,
        host: Host,
        output: Output,
        run: str | None = None,
        interval_s: float = 1.0,
        on_log: Callable[[dict[str, Any]], None] | None = None,
    ):
        self.host = host
        self.output = output
        self.store = Store()
        self.frames = FrameRing()
        self._interval_s = interval_s
        self._changed = asyncio.Event()
        self._on_log = on_log
        self.link = Link(host, on_frame=self._heard, on_log=self._heard_log, on_change=self._wake, interval_s=interval_s, run=run)

    async def __aenter__(self) -> "Session":
        self.link.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.link.close()

    async def connect(self) -> None:
        """Until the host program has said hello. Raises RemoteError (a person is needed) or CannotTellError (not reached)."""
        deadline, failed_at = boot_s() + CONNECT_S, None
        patience_s = REHEARSAL_PATIENCE_S if self.host.alias == REHEARSAL else PATIENCE_S
        while self.link.hello is None:
            status, now = self.link.status(), boot_s()
            if status.word in OVER:
                await self.link.wait_connected(0.0)  # raises the error itself, with its exit code
            if failed_at is None and status.next_in_s is not None:
                failed_at = now
            if now > deadline or (failed_at is not None and now > failed_at + patience_s):
                raise CannotTellError(status.detail or f"{self.host.alias}: not connected within {CONNECT_S:.0f} s")
            await self.wait(0.2)
        self.store.greet(self.link.hello)
        self.output.simulated = self.store.simulated

    async def watch(self, run: str | None) -> None:
        """Frames about ``run`` from now on; returns with the first one. Raises RemoteError or CannotTellError."""
        await self.link.watch(run, self._interval_s)
        await self.frame_of(run)

    async def frame_of(self, run: str | None) -> None:
        """Until the view is about ``run``. Raises CannotTellError when no such frame comes in time."""

        def told() -> bool:
            view = self.store.view
            return view is not None and (run is None or (view.run is not None and view.run.name == run and view.stages is not None))

        if not await self.until(told, FRAME_S):
            view = self.store.view
            why = f"; the host program could not make {view.broken}" if view is not None and view.broken else ""
            raise CannotTellError(f"{self.host.alias}: no frame about run {run} within {FRAME_S:.0f} s; link {self.now().words}{why}")

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Whether ``condition`` came true in time. Raises RemoteError when the link has given up."""
        deadline = boot_s() + timeout_s
        while not condition():
            if self.link.status().word in OVER:
                await self.link.wait_connected(0.0)
            left_s = deadline - boot_s()
            if left_s <= 0:
                return False
            await self.wait(min(left_s, 1.0))
        return True

    async def wait(self, timeout_s: float) -> None:
        """Until something changed: a frame, or the link's state; or ``timeout_s`` is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        self._changed.clear()

    def now(self) -> LinkNow:
        """How the link stands."""
        status = self.link.status()
        wall_s = time.time()
        return LinkNow(status.word, link_words(status), self.link.frame_age_s(), wall_s, time.localtime(wall_s).tm_gmtoff)

    @property
    def over(self) -> bool:
        """The link waits for a person."""
        return self.link.status().word in OVER

    async def runs(self) -> list[Listed]:
        """The host's runs as it lists them. Raises RemoteError."""
        return runs.parse(await self.link.request("runs"))

    def _heard(self, frame: dict[str, Any], _received_s: float) -> None:
        self.frames.add(frame)
        self.store.fold(frame)
        self._wake()

    def _heard_log(self, piece: dict[str, Any], _received_s: float) -> None:
        if self._on_log is not None:
            self._on_log(piece)
            self._changed.set()

    def _wake(self) -> None:
        if self.link.hello is not None:
            self.store.greet(self.link.hello)
        self._changed.set()


def link_words(status: LinkStatus) -> str:
    """The word of a link with its age, and what comes next."""
    words = status.word if status.age_s is None else f"{status.word} {fmt.age(status.age_s)}"
    if status.word == state.NO_DATA:
        return f"{words} (link up, host program silent)"
    if status.word in (state.CONNECTING, state.RECONNECTING):
        words = f"{status.word} {status.attempt}" if status.attempt else status.word
        words += f", next in {status.next_in_s:.0f} s" if status.next_in_s else ""
        words += f", data {fmt.age(status.age_s)} old" if status.age_s is not None else ""
    return f"{words}: {status.detail}" if status.detail and status.word != state.LIVE else words
