"""The link to one host for life: dials, starts the host program, asks for frames, and does it all again until it is closed."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from console.config import Host
from console.core import sanitize
from console.remote import deploy, errors, ssh, state
from console.remote.agent import AgentChannel, Heard, open_agent
from console.remote.backoff import Backoff
from console.remote.clocks import keep_offset, slept
from console.remote.errors import AgentError, SshError
from console.remote.standing import Standing
from console.remote.watching import Wanted
from pipeline.contract import WIRE_VERSION
from pipeline.contract.clock import boot_s
from pipeline.errors import UserError

log = logging.getLogger(__name__)

CLOSE_SECONDS = 8.0


class Link(Standing):
    """One host. ``start`` it, read ``status`` at any time, ``close`` it. Losing it never means anything for a job."""

    def __init__(
        self,
        host: Host,
        on_frame: Heard | None = None,
        on_log: Heard | None = None,
        on_change: Callable[[], None] | None = None,
        interval_s: float = 1.0,
        run: str | None = None,
    ):
        super().__init__(host, interval_s, on_frame, on_change)
        self._on_log = on_log
        self._wanted = Wanted(run=run, interval_s=interval_s)
        self._backoff = Backoff()
        self._dial_now = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to dial, in a task of its own. Needs a running event loop."""
        if self._task is None:
            self._task = asyncio.create_task(self._live(), name=f"link {self.host.alias}")

    async def __aenter__(self) -> "Link":
        self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def retry_now(self) -> None:
        """Dial at once, also where the link has given up; a connection whose host program is silent is dropped for it."""
        if self._facts.connected_s is None or self.status().word == state.NO_DATA:
            self._dial_now.set()

    async def watch(self, run: str | None, interval_s: float = 1.0, disk_path: str | None = None) -> None:
        """Which run the frames are about and how often they come; holds across reconnects.

        Raises AgentError when the host refuses it or does not answer; not for want of a connection, which will be asked when it is there.
        """
        self._wanted.watch(run, interval_s, disk_path)
        self._facts.interval_s = interval_s
        await self._ask(self._wanted.ask_frames)

    async def tail(self, run: str | None, stage: str = "", attempt: str | None = None, offset: int = -65536, follow: bool = True) -> None:
        """Follow a log; goes on where it was after a reconnect. ``run`` None ends it. Raises as ``watch`` does."""
        self._wanted.tail(run, stage, attempt, offset, follow)
        await self._ask(self._wanted.ask_log)

    async def _ask(self, what: Callable[[AgentChannel], Awaitable[None]]) -> None:
        if self._channel is None:
            return
        try:
            await what(self._channel)
        except AgentError as error:
            if error.kind != errors.LOST:
                raise

    async def close(self) -> None:
        """End the connection, and with it the host program; jobs go on. Always returns."""
        self._facts.closed = True
        self._changed.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
        self._note()

    async def _live(self) -> None:
        while True:
            self._dial_now.clear()
            self._backoff.dialing()
            self._facts.attempt = self._backoff.attempt
            self._facts.next_s = None
            self._note()
            wait_s: float | None
            try:
                wait_s = await self._one_connection()
            except SshError as error:
                wait_s = self._failed(error)
            except UserError as error:
                wait_s = self._failed(SshError(errors.CONFIG, str(error)))
            except Exception as error:  # a mistake, of ours or of a library: told, and tried again
                log.exception("link to %s", self.host.alias)
                wait_s = self._failed(SshError(errors.LOST, f"{self.host.alias}: {type(error).__name__}: {sanitize.line(error, 200)}"))
            if wait_s == 0.0:
                continue
            self._facts.next_s = None if wait_s is None else boot_s() + wait_s
            self._note()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._dial_now.wait()

    def _failed(self, error: SshError) -> float | None:
        """Note why a dial failed; seconds until the next one, None when it waits for a person."""
        self._facts.error = error
        # A host that worked before and has no host program now is probably starting up, its file systems not there yet.
        self._facts.stopped = not (error.retried or (error.kind == errors.NO_AGENT and self._facts.ever))
        return None if self._facts.stopped else self._backoff.failed(boot_s())

    async def _one_connection(self) -> float:
        """From dialing to the loss of the connection; seconds until the next dial. Raises SshError when there was none."""
        bundle = await asyncio.to_thread(deploy.bundle)
        connection = await ssh.connect(self.host)
        self._facts.fresh = False
        channel = None
        try:
            channel = await open_agent(connection, self.host, bundle, self._hear_frame, self._hear_log)
            await self._greet(channel)
            since_s = boot_s()
            reason = await self._serve(channel)
            reason = _LOST if connection.closed else reason
        finally:
            self._channel = None
            self._facts.connected_s = None
            self._note()
            await connection.close()
            if channel is not None:
                await channel.close()
        now_s = boot_s()
        self._facts.error = SshError(errors.LOST, f"{self.host.alias}: {reason}")
        wait_s = self._backoff.lost(now_s, now_s - since_s)
        return 0.0 if reason in (_SLEPT, _ASKED) else wait_s

    async def _greet(self, channel: AgentChannel) -> None:
        """Hello, first ping and what is wanted, in one round trip. Raises SshError when the host program does not answer so."""
        try:
            hello, ping, _ = await asyncio.gather(channel.request("hello"), channel.ping(), self._wanted.ask(channel))
            while self._wanted.unasked:  # something else since
                await self._wanted.ask(channel)
        except AgentError as error:
            raise SshError(errors.LOST if error.unanswered else errors.PROTOCOL, str(error)) from None
        version = hello.get("version")
        if version != WIRE_VERSION:
            text = f"{self.host.alias}: its host program speaks version {sanitize.line(version, 20)} of the wire, not {WIRE_VERSION}"
            raise SshError(errors.PROTOCOL, text)
        self._offset.host(str(hello.get("boot_id")))
        self._offset.sample(*ping)
        self.hello = hello
        self._channel = channel
        facts = self._facts
        facts.connected_s, facts.ever = boot_s(), True
        facts.attempt, facts.error, facts.stopped = 0, None, False
        self._note()

    async def _serve(self, channel: AgentChannel) -> str:
        """Until the connection is gone, this machine slept, or a new dial is asked for; the reason."""
        self._dial_now.clear()
        pings = asyncio.create_task(keep_offset(channel, self._offset))
        sleep, asked = asyncio.create_task(slept()), asyncio.create_task(self._dial_now.wait())
        try:
            await asyncio.wait([channel.lost, sleep, asked], return_when=asyncio.FIRST_COMPLETED)
            return channel.lost.result() if channel.lost.done() else _SLEPT if sleep.done() else _ASKED
        finally:
            for task in (pings, sleep, asked):
                task.cancel()
            await asyncio.gather(pings, sleep, asked, return_exceptions=True)

    def _hear_log(self, piece: dict[str, Any], received_s: float) -> None:
        self._wanted.heard(piece)
        if self._on_log is not None:
            self._on_log(piece, received_s)


_LOST = "connection lost"
_SLEPT = "this machine slept"
_ASKED = "a new connection was asked for"
