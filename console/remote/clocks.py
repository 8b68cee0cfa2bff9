"""What runs beside a connection: pings that keep the clock offset, and the look-out for a machine that slept."""

import asyncio
import contextlib
import time

from console.remote.agent import AgentChannel
from console.remote.ages import ClockOffset
from console.remote.errors import AgentError
from pipeline.contract.clock import boot_s

PING_SECONDS = (0.2, 1.0, 5.0)
"""Waits between pings; the last one repeats."""
SUSPEND_SECONDS = 2.0
"""A machine that slept this long dials anew: what it was connected to has given it up, or soon will."""


async def keep_offset(channel: AgentChannel, offset: ClockOffset) -> None:
    """Ping for ever."""
    waits = iter(PING_SECONDS)
    while True:
        await asyncio.sleep(next(waits, PING_SECONDS[-1]))
        with contextlib.suppress(AgentError):  # silence shows in the frames' age
            offset.sample(*await channel.ping())


async def slept() -> None:
    """Returns once this machine was suspended: the clock that counts it has gained on the one that does not."""
    before_s = boot_s() - time.monotonic()
    while True:
        await asyncio.sleep(1.0)
        now_s = boot_s() - time.monotonic()
        if now_s - before_s > SUSPEND_SECONDS:
            return
        before_s = now_s
