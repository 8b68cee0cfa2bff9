"""Requests, reboots and floods against an in-process server that answers as a test needs it."""

import asyncio
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from console.remote import state
from console.remote.errors import AgentError
from console.remote.link import Link
from pipeline.contract.clock import boot_s
from tests.fakes.embedded import Agent, Embedded
from tests.remote.remote_jobs import until

Process = asyncssh.SSHServerProcess


async def nothing_special(request: dict[str, Any]) -> bool:
    return False


async def test_a_launch_that_is_never_answered_is_not_told_as_refused(tmp_path: Path) -> None:
    asked: list[str] = []

    async def session(process: "Process[bytes]") -> None:
        agent = Agent(process)
        await agent.boot()

        async def special(request: dict[str, Any]) -> bool:
            if request["op"] == "launch":
                asked.append(request["attempt"])
                process.get_extra_info("connection").abort()
            return request["op"] == "launch"

        await agent.serve(special)

    async with Embedded(tmp_path, session) as server, Link(server.host()) as link:
        await link.wait_connected(30)
        with pytest.raises(AgentError) as caught:
            await link.launch("r1", "extract", "a-1", "python3", [], {}, "test", {"expected_gpus": 8}, timeout_s=3.0)
        assert caught.value.unanswered and "may have happened" in caught.value.hint
    assert len(asked) >= 2 and set(asked) == {"a-1"}


async def test_stopping_whatever_is_live_is_never_sent_twice(tmp_path: Path) -> None:
    asked: list[Any] = []

    async def session(process: "Process[bytes]") -> None:
        agent = Agent(process)
        await agent.boot()

        async def special(request: dict[str, Any]) -> bool:
            if request["op"] == "stop":
                asked.append(request["attempt"])
                if len(asked) in (1, 2):
                    process.get_extra_info("connection").abort()
                else:
                    agent.answer(request, attempt="a-1", state="STOPPING")
            return request["op"] == "stop"

        await agent.serve(special)

    async with Embedded(tmp_path, session) as server, Link(server.host()) as link:
        with pytest.raises(AgentError) as caught:
            await link.stop("r1", "extract", None, "test")
        assert caught.value.unanswered and asked == [None]
        assert (await link.stop("r1", "extract", "a-1", "test"))["state"] == "STOPPING"
        assert asked == [None, "a-1", "a-1"]


async def test_a_log_file_that_was_replaced_is_read_from_its_start(tmp_path: Path) -> None:
    asked: list[int] = []

    async def session(process: "Process[bytes]") -> None:
        agent = Agent(process)
        await agent.boot()

        async def special(request: dict[str, Any]) -> bool:
            if request["op"] == "tail":
                asked.append(request["offset"])
                inode = 1 if len(asked) == 1 else 2
                agent.answer(request, inode=inode, size=100)
                agent.say({"log": {"attempt": "a-1", "inode": inode, "offset": 0, "end": 100, "data": "x", "dropped_bytes": 0}})
            return request["op"] == "tail"

        await agent.serve(special)

    heard: list[dict[str, Any]] = []
    async with Embedded(tmp_path, session) as server, Link(server.host(), on_log=lambda piece, _: heard.append(piece)) as link:
        await link.wait_connected(30)
        await link.tail("r1", "extract", None, offset=-10)
        await until(lambda: len(heard) == 1)
        server.drop()
        await until(lambda: len(asked) == 3)
    assert asked == [-10, 100, 0]


async def test_a_listener_that_fails_ends_nothing(tmp_path: Path) -> None:
    async def session(process: "Process[bytes]") -> None:
        agent = Agent(process)
        await agent.boot()
        await agent.serve(nothing_special)

    def broken(*_: object) -> None:
        raise RuntimeError("a mistake in a view")

    async with Embedded(tmp_path, session) as server, Link(server.host(), broken, broken, broken) as link:
        await until(lambda: link.status().word == state.LIVE, why=link.status)
        await link.request("anything")
        assert server.sessions == 1


async def test_a_host_that_restarted_starts_its_ages_anew(tmp_path: Path) -> None:
    boots = iter(("boot-1", "boot-2"))
    seconds = {"boot-1": 5_000_000.0, "boot-2": 3.0}

    async def session(process: "Process[bytes]") -> None:
        agent = Agent(process)
        agent.boot_id = next(boots)
        began = boot_s()

        async def special(request: dict[str, Any]) -> bool:
            now = seconds[agent.boot_id] + boot_s() - began
            if request["op"] == "ping":
                agent.answer(request, boot_s=now)
            elif request["op"] == "watch":
                agent.answer(request)
                agent.say({"frame": {"boot_id": agent.boot_id, "boot_s": now}})
            else:
                return False
            return True

        await agent.boot()
        await agent.serve(special)

    async with Embedded(tmp_path, session) as server, Link(server.host()) as link:
        await until(lambda: link.status().word == state.LIVE, why=link.status)
        server.drop()
        await until(lambda: (link.hello or {}).get("boot_id") == "boot-2", why=link.status)
        await until(lambda: link.status().word == state.LIVE, why=link.status)
        age = link.frame_age_s()
        assert age is not None and age < 3.0


async def test_a_full_queue_of_requests_keeps_the_loop_free(tmp_path: Path) -> None:
    """Frames as fast as the wire goes: whatever else runs here still gets its turn."""
    count = 0

    async def session(process: "Process[bytes]") -> None:
        agent = Agent(process)
        await agent.boot()

        async def special(request: dict[str, Any]) -> bool:
            if request["op"] == "flood":
                agent.answer(request)
                for number in range(20000):
                    agent.say({"frame": {"boot_id": agent.boot_id, "boot_s": boot_s(), "seq": number, "fill": "z" * 200}})
                    if number % 200 == 0:
                        await process.stdout.drain()
            return request["op"] == "flood"

        await agent.serve(special)

    def take(frame: dict[str, Any], _: float) -> None:
        nonlocal count
        count += 1

    turns = 0
    async with Embedded(tmp_path, session) as server, Link(server.host(), take) as link:
        await link.request("flood", timeout_s=30)
        while count < 20000:
            await asyncio.sleep(0)
            turns += 1
            assert turns < 5_000_000
    assert turns > 20
