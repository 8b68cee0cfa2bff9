"""How a link to a host stands: kept from what is heard over it, told at any time, and waited for."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from console.config import Host
from console.remote import errors, state
from console.remote.agent import AgentChannel, Heard
from console.remote.ages import ClockOffset
from console.remote.errors import AgentError
from console.remote.requests import Requests
from console.remote.state import Facts, LinkStatus
from pipeline.contract.clock import boot_s
from pipeline.contract.telemetry import number

log = logging.getLogger(__name__)


class Standing(Requests):
    """Base of Link, which dials and fills in the facts."""

    def __init__(self, host: Host, interval_s: float, on_frame: Heard | None, on_change: Callable[[], None] | None):
        self.host = host
        self.hello: dict[str, Any] | None = None
        """The host program's answer to ``hello``, of the newest connection."""
        self._on_frame, self._on_change = on_frame, on_change
        self._facts = Facts(interval_s=interval_s)
        self._offset = ClockOffset()
        self._frame: tuple[str, float] | None = None
        """Boot and time of the newest frame, by the host."""
        self._channel: AgentChannel | None = None
        self._changed = asyncio.Event()

    def status(self, now_s: float | None = None) -> LinkStatus:
        """How the link stands at ``now_s`` (local boot clock; None: now)."""
        now = boot_s() if now_s is None else now_s
        return state.judge(self._facts, self.frame_age_s(now), now)

    def frame_age_s(self, now_s: float | None = None) -> float | None:
        """Age of the newest frame by the host's clock, wherever it waited; None before there is one."""
        if self._frame is None or self._frame[0] != self._offset.boot_id:
            return None
        return self._offset.age_s(self._frame[1], boot_s() if now_s is None else now_s)

    async def wait_connected(self, timeout_s: float) -> dict[str, Any]:
        """The answer to ``hello``, once there is a connection. Raises RemoteError: at once for what waits for a person, else in time."""
        await self._connected(boot_s() + timeout_s)
        assert self.hello is not None
        return self.hello

    async def _connected(self, deadline_s: float) -> AgentChannel:
        while True:
            channel = self._channel
            if channel is not None and not channel.lost.done():
                return channel
            if self._facts.closed:
                raise AgentError(errors.CLOSED, f"{self.host.alias}: the link is closed")
            if self._facts.stopped and self._facts.error:
                raise self._facts.error
            left_s = deadline_s - boot_s()
            if left_s <= 0:
                why = f": {self._facts.error}" if self._facts.error else ""
                raise AgentError(errors.TIMEOUT, f"{self.host.alias}: not connected in time{why}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changed.wait()

    def _hear_frame(self, frame: dict[str, Any], received_s: float) -> None:
        made_s, boot_id = number(frame.get("boot_s")), frame.get("boot_id")
        if made_s is not None and isinstance(boot_id, str):
            self._frame = boot_id, made_s
            self._facts.fresh = True
        if self._on_frame is not None:
            self._on_frame(frame, received_s)

    def _note(self) -> None:
        """Something changed: wake who waits for it."""
        self._changed.set()
        self._changed = asyncio.Event()
        if self._on_change is not None:
            try:
                self._on_change()
            except Exception:  # a mistake in a view must not end the link
                log.exception("a listener failed")
