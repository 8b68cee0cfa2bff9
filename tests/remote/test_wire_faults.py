"""What a real host program never does, and the link must survive: an in-process server that misbehaves."""

from pathlib import Path
from typing import Any

import asyncssh
import pytest

from console.remote import agent as agent_module
from console.remote import errors, state
from console.remote.errors import AgentError, SshError
from console.remote.lines import MAX_LINE_BYTES
from console.remote.link import Link
from tests.fakes.embedded import Agent, Embedded
from tests.remote.remote_jobs import until

Process = asyncssh.SSHServerProcess


async def nothing_special(request: dict[str, Any]) -> bool:
    return False


async def test_silence_after_the_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_module, "BOOT_SECONDS", 0.5)

    async def session(process: "Process[bytes]") -> None:
        process.stdout.write(b"Press enter to accept the terms: ")
        await process.stdin.read()

    async with Embedded(tmp_path, session) as server, Link(server.host()) as link:
        await until(lambda: "no answer of the host program" in link.status().detail, why=link.status)
        assert "Press enter" in link.status().detail and link.status().word == state.CONNECTING
        await until(lambda: server.sessions >= 2)


async def test_the_upload_is_never_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_module, "UPLOAD_SECONDS", 0.5)

    async def session(process: "Process[bytes]") -> None:
        agent = Agent(process)
        await agent.first_line()
        agent.say({"boot": "need"})
        await process.stdin.read()

    async with Embedded(tmp_path, session) as server, Link(server.host()) as link:
        await until(lambda: "within" in link.status().detail, why=link.status)


@pytest.mark.parametrize(
    ("line", "kind", "word"),
    [
        ({"boot": "error", "kind": "disk-full", "message": "no room"}, errors.HOST, state.CONNECTING),
        ({"boot": "error", "kind": "data-dir", "message": "not\nyours\x1b[2J", "hint": "name another"}, errors.NO_AGENT, state.FAILED),
        ({"boot": 7}, errors.PROTOCOL, state.FAILED),
    ],
)
async def test_what_the_bootstrap_may_say(line: dict[str, Any], kind: str, word: str, tmp_path: Path) -> None:
    async def session(process: "Process[bytes]") -> None:
        agent = Agent(process)
        await agent.first_line()
        agent.say(line)
        await process.stdin.read()

    async with Embedded(tmp_path, session) as server, Link(server.host()) as link:
        await until(lambda: link.status().detail != "", why=link.status)
        assert link.status().word == word and link.status().detail.isprintable()
        error = link._facts.error
        assert error is not None and error.kind == kind


async def test_another_version_of_the_wire_is_explained(tmp_path: Path) -> None:
    async def session(process: "Process[bytes]") -> None:
        agent = Agent(process)

        async def special(request: dict[str, Any]) -> bool:
            if request["op"] == "hello":
                agent.answer(request, version=99, boot_id="b", boot_s=1.0)
            return request["op"] == "hello"

        await agent.boot()
        await agent.serve(special)

    async with Embedded(tmp_path, session) as server, Link(server.host()) as link:
        with pytest.raises(SshError, match="version 99"):
            await link.wait_connected(30)
        assert link.status().word == state.FAILED


async def test_junk_long_lines_and_bad_bytes_between_messages(tmp_path: Path) -> None:
    frames: list[dict[str, Any]] = []

    async def session(process: "Process[bytes]") -> None:
        agent = Agent(process)
        await agent.boot()

        async def special(request: dict[str, Any]) -> bool:
            if request["op"] != "junk":
                return False
            agent.raw(b"\xff\x00garbage\n" + agent.mark + b"{not json\n" + agent.mark + b"[]\n" + agent.mark + b'{"re": "x", "ok": 1}\n')
            agent.raw(agent.mark + b'{"re": 999, "ok": true}\n' + agent.mark + b'{"frame": 3}\n' + agent.mark + b'{"log": null}\n')
            for _ in range(MAX_LINE_BYTES // 65536 + 2):
                agent.raw(b"x" * 65536)
                await process.stdout.drain()
            agent.raw(b"\n")
            agent.say({"frame": {"boot_s": "soon"}})
            agent.answer(request, text="\ud800 \x1b[2J ok")
            return True

        await agent.serve(special)

    async with Embedded(tmp_path, session) as server, Link(server.host(), lambda frame, _: frames.append(frame)) as link:
        assert (await link.request("junk", timeout_s=30))["text"].endswith("ok")
        assert link.status().word == state.LIVE and server.sessions == 1
        assert link._channel is not None and link._channel.dropped_lines == 3
        await until(lambda: {"boot_s": "soon"} in frames)


async def test_a_message_of_four_mebibytes_arrives_whole(tmp_path: Path) -> None:
    async def session(process: "Process[bytes]") -> None:
        agent = Agent(process)
        await agent.boot()

        async def special(request: dict[str, Any]) -> bool:
            if request["op"] == "big":
                agent.answer(request, text="y" * (MAX_LINE_BYTES - 200))
            return request["op"] == "big"

        await agent.serve(special)

    async with Embedded(tmp_path, session) as server, Link(server.host()) as link:
        assert len((await link.request("big", timeout_s=60))["text"]) == MAX_LINE_BYTES - 200


async def test_a_connection_cut_in_the_middle_of_a_line(tmp_path: Path) -> None:
    frames: list[dict[str, Any]] = []

    async def session(process: "Process[bytes]") -> None:
        agent = Agent(process)
        await agent.boot()

        async def special(request: dict[str, Any]) -> bool:
            if request["op"] == "cut":
                agent.raw(agent.mark + b'{"frame": {"boot_s"')
                await process.stdout.drain()
                process.get_extra_info("connection").abort()
            return request["op"] == "cut"

        await agent.serve(special)

    async with Embedded(tmp_path, session) as server, Link(server.host(), lambda frame, _: frames.append(frame)) as link:
        with pytest.raises(AgentError) as caught:
            await link.request("cut", timeout_s=30)
        assert caught.value.kind == errors.LOST and caught.value.unanswered
        await until(lambda: link.status().word == state.LIVE and server.sessions == 2, why=link.status)
        assert all("boot_id" in frame for frame in frames)
