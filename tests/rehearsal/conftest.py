"""A running rehearsal host, and a way to connect to it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import asyncssh
import pytest

from console.rehearsal.start import RehearsalHost, ensure_running

Connect = Callable[..., Awaitable[asyncssh.SSHClientConnection]]


@pytest.fixture
def host(rehearsal_home: str) -> Iterator[RehearsalHost]:
    yield ensure_running(rehearsal_home)


@pytest.fixture
async def connect(host: RehearsalHost) -> AsyncIterator[Connect]:
    """Connect as the console does; every connection is closed at the end."""
    opened: list[asyncssh.SSHClientConnection] = []

    async def open_one(**changed: object) -> asyncssh.SSHClientConnection:
        options: dict = {"port": host.port, "username": host.user, "client_keys": [host.client_key], "known_hosts": host.known_hosts}
        connection = await asyncssh.connect(host.address, config=None, agent_path=None, connect_timeout=20, **{**options, **changed})
        opened.append(connection)
        return connection

    yield open_one
    for connection in opened:
        connection.abort()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(connection.wait_closed(), 5)


@pytest.fixture
def until() -> Callable[..., Awaitable[None]]:
    """Poll until a condition holds; fail after ``timeout_s``."""

    async def poll(condition: Callable[[], object], timeout_s: float = 30.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come to hold"
            await asyncio.sleep(0.02)

    return poll
