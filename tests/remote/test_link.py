"""The link to a real host program through a real OpenSSH server: numbers, losses, and what becomes of jobs."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from console.remote import clocks, errors, ssh, standing, state
from console.remote import link as link_module
from console.remote.errors import AgentError
from console.remote.link import Link
from pipeline.contract.clock import boot_s
from tests.fakes.embedded import Embedded, run_command
from tests.fakes.sshd import Sshd
from tests.remote.remote_jobs import Job, put_settings, until

Make = Callable[..., Sshd]
MakeJob = Callable[..., Job]


def word(link: Link) -> str:
    return link.status().word


async def live(link: Link, timeout_s: float = 30.0) -> None:
    await until(lambda: word(link) == state.LIVE, timeout_s, link.status)


class Words:
    """Every word that a link had, in order, each once in a row."""

    def __init__(self) -> None:
        self.link: Link | None = None
        self.seen: list[str] = []

    def note(self) -> None:
        if self.link and (not self.seen or self.seen[-1] != word(self.link)):
            self.seen.append(word(self.link))


async def check_first_contact(link: Link, frames: list[dict], data: Path) -> None:
    hello = await link.wait_connected(30)
    assert hello["data_dir"] == str(data) and hello["version"] == 1
    await live(link)
    await until(lambda: len(frames) >= 3)
    assert [frame["seq"] for frame in frames] == sorted({frame["seq"] for frame in frames})
    age = link.frame_age_s()
    assert age is not None and 0 <= age <= boot_s() - frames[-1]["boot_s"] + 0.1  # same machine, same clock
    with pytest.raises(AgentError) as caught:
        await link.request("read", run="none", what="settings", stage=None, attempt=None)
    assert caught.value.kind in (errors.MISSING, errors.USAGE)
    with pytest.raises(AgentError) as caught:
        await link.request("no-such-thing")
    assert caught.value.kind == errors.USAGE


async def test_first_contact_through_openssh(sshd: Make, tmp_path: Path) -> None:
    frames: list[dict] = []
    host = sshd().host(data_dir=str(tmp_path / "data"))
    async with Link(host, lambda frame, _: frames.append(frame), interval_s=0.2) as link:
        await check_first_contact(link, frames, tmp_path / "data")
        pid = link.hello["pid"] if link.hello else 0
    assert word(link) == state.CLOSED
    await until(lambda: not psutil.pid_exists(pid), why=lambda: "the host program outlived its connection")
    with pytest.raises(AgentError) as caught:
        await link.request("hello")
    assert caught.value.kind == errors.CLOSED


async def test_first_contact_through_the_embedded_server(tmp_path: Path) -> None:
    frames: list[dict] = []
    async with Embedded(tmp_path, run_command) as server:
        host = server.host(data_dir=str(tmp_path / "data"))
        async with Link(host, lambda frame, _: frames.append(frame), interval_s=0.2) as link:
            await check_first_contact(link, frames, tmp_path / "data")


async def test_the_data_directory_may_be_in_the_home(sshd: Make) -> None:
    server = sshd()
    async with Link(server.host()) as link:
        hello = await link.wait_connected(30)
    assert hello["data_dir"] == str(server.home / "eaglewatch")


async def test_the_bundle_is_sent_once(sshd: Make, tmp_path: Path) -> None:
    host = sshd().host(data_dir=str(tmp_path / "data"))
    for _ in range(2):
        async with Link(host) as link:
            code = (await link.wait_connected(30))["code"]
        complete = tmp_path / "data" / "code" / code / ".complete"
        first = complete.stat().st_mtime_ns
    assert complete.stat().st_mtime_ns == first
    assert len(list((tmp_path / "data" / "code").iterdir())) == 1


async def test_killing_sshd_makes_it_late_then_reconnecting_and_a_restart_brings_the_truth(
    sshd: Make, tmp_path: Path, job: MakeJob
) -> None:
    server, words, frames, work = sshd(), Words(), [], job()
    link = Link(
        server.host(data_dir=str(tmp_path / "data")), lambda frame, _: frames.append(frame), on_change=words.note, run="r1", interval_s=0.2
    )
    words.link = link
    async with link:
        await link.wait_connected(30)
        await put_settings(link)
        reply = await work.launch(link)
        assert (reply["state"], reply["existing"]) == ("RUNNING", False)
        await until(lambda: bool(frames[-1]["stages"]["extract"]["log"]["bytes"]))
        before = frames[-1]["stages"]["extract"]
        words.seen.clear()
        server.kill()
        await until(lambda: word(link) == state.RECONNECTING, why=link.status)
        assert state.LATE in words.seen and words.seen.index(state.LATE) < words.seen.index(state.RECONNECTING)
        await until(lambda: link.status().attempt >= 2 and link.status().next_in_s is not None, why=link.status)
        assert "refuses connections" in link.status().detail
        await until(lambda: (link.status().age_s or 0.0) > 0.5, why=link.status)  # two refusals may come sooner than that
        await until(lambda: word(link) == state.RECONNECTING and (link.frame_age_s() or 0) > 3.0, why=link.status)
        assert psutil.pid_exists(before["pid"])
        server.start()
        restarted = boot_s()
        await live(link)
        assert boot_s() - restarted < 10.0
        after = frames[-1]["stages"]["extract"]
        assert (after["attempt"], after["pid"]) == (before["attempt"], before["pid"])
        await until(lambda: frames[-1]["stages"]["extract"]["log"]["bytes"] > before["log"]["bytes"])
        assert work.starts() == 1
        await work.stop(link)
        await until(lambda: frames[-1]["stages"]["extract"]["state"] == "STOPPED", why=lambda: frames[-1]["stages"])


async def test_the_watched_run_is_asked_for_again_after_a_reconnect(sshd: Make, tmp_path: Path) -> None:
    server, frames = sshd(), []
    async with Link(server.host(data_dir=str(tmp_path / "data")), lambda frame, _: frames.append(frame)) as link:
        await link.wait_connected(30)
        await put_settings(link)
        await link.watch("r1", interval_s=0.2)
        await until(lambda: bool(frames) and (frames[-1]["run"] or {}).get("exists") is True)
        server.drop()
        await until(lambda: link.hello is not None and frames[-1]["agent"]["pid"] == link.hello["pid"])
        frames.clear()
        await until(lambda: len(frames) >= 2 and frames[-1]["agent"]["pid"] == (link.hello or {}).get("pid"))
        assert frames[-1]["run"]["name"] == "r1"


async def test_what_is_wanted_while_it_dials_is_asked_when_it_is_there(sshd: Make, tmp_path: Path) -> None:
    frames: list[dict] = []
    async with Link(sshd().host(data_dir=str(tmp_path / "data")), lambda frame, _: frames.append(frame)) as link:
        for number in range(200):
            await link.watch(f"r{number}", interval_s=0.2)
            if word(link) == state.LIVE:
                break
            await asyncio.sleep(0.01)
        await until(lambda: bool(frames) and frames[-1]["run"]["name"] == f"r{number}", why=lambda: frames[-1:])


async def test_a_half_open_connection_is_noticed_and_replaced(sshd: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "KEEPALIVE_SECONDS", 0.5)
    server = sshd()
    async with Link(server.host(data_dir=str(tmp_path / "data")), interval_s=0.2) as link:
        await live(link)
        pid = (link.hello or {})["pid"]
        assert server.freeze()
        await until(lambda: word(link) != state.LIVE, why=link.status)
        await until(lambda: (link.hello or {})["pid"] != pid, why=link.status)
        await live(link)


async def test_a_silent_host_program_is_no_data_and_closing_does_not_wait_for_it(sshd: Make, tmp_path: Path) -> None:
    async with Link(sshd().host(data_dir=str(tmp_path / "data")), interval_s=0.2) as link:
        await live(link)
        agent = psutil.Process((link.hello or {})["pid"])
        agent.suspend()
        try:
            await until(lambda: word(link) == state.LATE, why=link.status)
            now = boot_s()
            assert link.status(now + 16.0).word == state.NO_DATA  # the screen's clock may be any
            with pytest.raises(AgentError) as caught:
                await link.request("hello", timeout_s=0.3)
            assert caught.value.kind == errors.TIMEOUT
            agent.resume()
            await live(link)
            agent.suspend()
            began = boot_s()
            await link.close()
            assert boot_s() - began < 8.0
        finally:
            agent.kill()


async def test_a_machine_that_slept_dials_at_once(sshd: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept_s = 0.0
    async with Link(sshd().host(data_dir=str(tmp_path / "data"))) as link:
        await live(link)
        pid = (link.hello or {})["pid"]
        for module in (link_module, standing, clocks):
            monkeypatch.setattr(module, "boot_s", lambda: boot_s() + slept_s)
        await asyncio.sleep(1.2)
        assert (link.hello or {})["pid"] == pid
        slept_s = 3600.0
        assert word(link) == state.NO_DATA  # what was on the screen when the lid was closed is an hour old
        await until(lambda: (link.hello or {})["pid"] != pid, why=link.status)


async def test_two_links_and_a_request_each(sshd: Make, tmp_path: Path) -> None:
    host = sshd().host(data_dir=str(tmp_path / "data"))
    async with Link(host, interval_s=0.2) as one, Link(host, interval_s=0.2) as two:
        names = await asyncio.gather(one.request("runs", 30), two.request("runs", 30))
        assert [name["runs"] for name in names] == [[], []]


async def test_a_request_without_a_connection_says_why_in_time(sshd: Make, tmp_path: Path) -> None:
    server = sshd()
    server.kill()
    async with Link(server.host(data_dir=str(tmp_path / "data"))) as link:
        with pytest.raises(AgentError, match=r"not connected in time.*refuses connections") as caught:
            await link.request("hello", timeout_s=1.0)
        assert caught.value.kind == errors.TIMEOUT
        assert word(link) == state.CONNECTING
        server.start()
        link.retry_now()
        await live(link)


async def test_closing_while_it_dials_or_waits(sshd: Make) -> None:
    server = sshd()
    server.kill()
    for wait_s in (0.0, 0.3):
        link = Link(server.host())
        link.start()
        await asyncio.sleep(wait_s)
        began = boot_s()
        await link.close()
        assert boot_s() - began < 5.0 and word(link) == state.CLOSED
    await Link(server.host()).close()  # never started
