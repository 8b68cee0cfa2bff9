"""Jobs and their logs over a link that breaks: what was asked for happens once, and nothing is read twice."""

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from console.remote import errors, state
from console.remote.errors import AgentError, RemoteError
from console.remote.link import Link
from tests.fakes.sshd import Sshd
from tests.remote.remote_jobs import Job, put_settings, until

Make = Callable[..., Sshd]
MakeJob = Callable[..., Job]


def word(link: Link) -> str:
    return link.status().word


async def live(link: Link, timeout_s: float = 30.0) -> None:
    await until(lambda: word(link) == state.LIVE, timeout_s, link.status)


async def test_a_launch_whose_answer_is_lost_is_sent_again_and_runs_once(sshd: Make, tmp_path: Path, job: MakeJob) -> None:
    server, work = sshd(), job()
    async with Link(server.host(data_dir=str(tmp_path / "data"))) as link:
        await link.wait_connected(30)
        await put_settings(link)
        asked = asyncio.create_task(work.launch(link))
        await until(lambda: work.starts() == 1)
        assert server.drop()  # the host answers two seconds after the start
        reply = await asked
        assert (reply["existing"], reply["state"]) == (True, "RUNNING")
        assert (await work.launch(link))["pid"] == reply["pid"]
        assert work.starts() == 1
        await work.stop(link)


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.04, 0.1])
async def test_a_connection_dropped_soon_after_the_launch_is_sent(delay_s: float, sshd: Make, tmp_path: Path, job: MakeJob) -> None:
    server, work = sshd(), job()
    async with Link(server.host(data_dir=str(tmp_path / "data"))) as link:
        await link.wait_connected(30)
        await put_settings(link)
        asked = asyncio.create_task(work.launch(link))
        await asyncio.sleep(delay_s)
        server.drop()
        assert (await asked)["state"] == "RUNNING"
        assert work.starts() == 1
        await work.stop(link)


async def test_a_refused_launch_is_not_sent_again(sshd: Make, tmp_path: Path, job: MakeJob) -> None:
    work = job()
    async with Link(sshd().host(data_dir=str(tmp_path / "data"))) as link:
        with pytest.raises(AgentError) as caught:
            await work.launch(link)
    assert caught.value.kind == errors.MISSING and "r1" in str(caught.value)


async def test_a_log_goes_on_where_it_was_after_a_reconnect(sshd: Make, tmp_path: Path, job: MakeJob) -> None:
    server, work, pieces = sshd(), job(), []
    async with Link(server.host(data_dir=str(tmp_path / "data")), on_log=lambda piece, _: pieces.append(piece)) as link:
        await link.wait_connected(30)
        await put_settings(link)
        await work.launch(link)
        await link.tail("r1", "extract", None, offset=0)
        for _ in range(2):
            count = len(pieces)
            await until(lambda count=count: len(pieces) > count + 3)
            server.drop()
            await until(lambda: link.status().detail != "")
        count = len(pieces)
        await until(lambda: len(pieces) > count + 3)
        await link.tail(None)
        await work.stop(link)
    text = "".join(piece["data"] for piece in pieces)
    lines = text.split("\n")[:-1]
    assert lines == [f"line {number}" for number in range(len(lines))]
    assert all(one["end"] == two["offset"] for one, two in itertools.pairwise(pieces))


async def test_a_followed_log_that_is_gone_is_no_reason_to_have_no_frames(sshd: Make, tmp_path: Path, job: MakeJob) -> None:
    server, work = sshd(), job()
    async with Link(server.host(data_dir=str(tmp_path / "data"))) as link:
        with pytest.raises(RemoteError):
            await link.wait_connected(30)
            await link.tail("r1", "extract", work.attempt)
        server.drop()
        await until(lambda: word(link) != state.LIVE)
        await live(link)
