"""A client that does not read, and logs that misbehave: what is sent stays fresh, bounded and counted."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nvml_fakes
import pytest
from agent_client import AgentClient, Start, agents
from nvml_fakes import MIB

from pipeline.contract.clock import boot_s
from pipeline.host import procs, tail

UNREAD_S = 5.0


@pytest.fixture
def start(python: str, code_dir: Path, data_dir: Path, tmp_path: Path) -> Iterator[Start]:
    gpus = nvml_fakes.create(tmp_path / "gpus.state")
    with agents(python, code_dir, data_dir, nvml_fakes.in_python(gpus)) as one:
        yield one


@pytest.fixture
def agent(start: Start) -> AgentClient:
    return start()


@pytest.fixture
def log(run_dir: Path) -> Path:
    """The log of an attempt that is only a log."""
    attempt = run_dir / "stages" / "extract" / "a1"
    attempt.mkdir(parents=True)
    return attempt / "stdout.log"


def follow(agent: AgentClient, offset: int = 0, **fields: Any) -> dict[str, Any]:
    return agent.ask("tail", **{"run": "demo", "stage": "extract", "attempt": "a1", "offset": offset, "follow": True, **fields})


def logged(agent: AgentClient, text: str) -> str:
    """Read until the log pieces hold ``text``; all of them joined."""
    end = time.monotonic() + 60
    while True:
        joined = "".join(piece["data"] for piece in agent.logs)
        if text in joined:
            return joined
        assert time.monotonic() < end, joined[-500:]
        agent.read()


def test_after_a_pause_of_the_reader_replies_come_first_and_the_frame_is_new(agent: AgentClient, log: Path) -> None:
    log.write_text("")
    agent.ask("watch", run="demo", interval_s=0.2)
    follow(agent)
    line = "x" * 199 + "\n"
    end = time.monotonic() + UNREAD_S
    with log.open("a") as file:
        while time.monotonic() < end:  # some 10,000 lines a second, and nobody reads
            file.write(line * 500)
            file.flush()
            time.sleep(0.05)
        file.write("the last line\n")
    asked_s = boot_s()
    number = agent.send("ping")
    time.sleep(0.5)  # it is queued behind a full pipe now
    began_s = boot_s()
    agent.reply(number)
    assert all(frame["boot_s"] <= asked_s for frame in agent.frames), "a frame overtook the reply"
    old = agent.frames[-1]
    fresh = agent.next_frame()
    assert fresh["boot_s"] >= began_s - 3, f"{began_s - fresh['boot_s']:.1f} s old"
    assert fresh["seq"] - old["seq"] > 5, "it stopped sampling while nobody read"
    assert fresh["dropped"]["frames"] >= fresh["seq"] - old["seq"] - 3
    assert fresh["agent"]["rss_bytes"] < 40 * MIB

    joined = logged(agent, "the last line\n")
    skipped = sum(piece["dropped_bytes"] for piece in agent.logs)
    assert skipped > MIB and skipped + len(joined) == log.stat().st_size
    assert agent.frame_where(lambda frame: frame["dropped"]["log_bytes"])["dropped"]["log_bytes"] == skipped
    for piece in agent.logs:
        assert len(piece["data"]) <= tail.PIECE_BYTES


def test_requests_that_nobody_reads_the_replies_of_are_not_taken_without_end(agent: AgentClient) -> None:
    count, line = 60_000, b'{"op":"hello","id":%d}\n'
    data = b"".join(line % number for number in range(count))
    os.set_blocking(agent.stdin.fileno(), False)
    sent, still_s = 0, time.monotonic()
    while sent < len(data) and time.monotonic() - still_s < 2:
        try:
            sent += os.write(agent.stdin.fileno(), data[sent : sent + 65536])
            still_s = time.monotonic()
        except BlockingIOError:
            time.sleep(0.02)
    assert sent < len(data), "it took everything although nobody reads"
    stat = procs.read_stat(agent.pid)
    assert stat is not None and stat.rss_bytes < 80 * MIB
    os.set_blocking(agent.stdin.fileno(), False)
    expected = 0
    while expected < count:
        if sent < len(data):
            try:
                sent += os.write(agent.stdin.fileno(), data[sent : sent + 65536])
            except BlockingIOError:
                pass
        message = agent.read()
        assert message is not None and message["re"] == expected
        expected += 1
        agent.others.clear()


def test_the_log_rate_is_limited(agent: AgentClient, log: Path) -> None:
    log.write_bytes(b"y" * (tail.BEHIND_BYTES - 1))
    began_s = time.monotonic()
    follow(agent)
    while sum(len(piece["data"]) for piece in agent.logs) < tail.BEHIND_BYTES - 1:
        agent.read()
    least_s = (tail.BEHIND_BYTES - tail.BYTES_PER_S) / tail.BYTES_PER_S
    assert time.monotonic() - began_s >= least_s * 0.9
    assert [piece["offset"] for piece in agent.logs] == sorted(piece["offset"] for piece in agent.logs)
    assert not any(piece["dropped_bytes"] for piece in agent.logs)


def test_a_log_that_is_truncated_or_replaced_is_read_from_its_start(agent: AgentClient, log: Path) -> None:
    log.write_text("one\n")
    first = follow(agent)
    assert (first["inode"], first["size"]) == (log.stat().st_ino, 4)
    logged(agent, "one\n")
    os.truncate(log, 0)
    time.sleep(2 * 0.2 + 0.1)  # a truncation that is written over at once to the same length cannot be seen by anybody
    log.write_text("2\n")
    logged(agent, "2\n")
    assert agent.logs[-1]["offset"] == 0 and agent.logs[-1]["inode"] == first["inode"]
    new = log.with_suffix(".new")
    new.write_text("three\n")
    new.rename(log)
    logged(agent, "three\n")
    assert agent.logs[-1]["offset"] == 0 and agent.logs[-1]["inode"] != first["inode"]
    log.unlink()
    agent.ask("ping")
    log.write_text("four\n")
    logged(agent, "four\n")


def test_characters_are_never_cut_in_two_and_bad_bytes_are_replaced(agent: AgentClient, log: Path) -> None:
    text = "ü€🚀" * 9000
    log.write_bytes(text.encode() + b"\xff\xfe end\n")
    follow(agent)
    assert logged(agent, " end\n") == text + "\ufffd\ufffd end\n"
    with log.open("ab") as file:
        file.write("🚀".encode()[:2])
        file.flush()
        agent.ask("ping")
        time.sleep(0.5)
        file.write("🚀".encode()[2:] + b"!")
    assert logged(agent, "!").endswith("end\n🚀!")


def test_a_tail_from_before_the_end_that_does_not_follow_ends(agent: AgentClient, log: Path) -> None:
    log.write_text("0123456789")
    follow(agent, offset=-4, follow=False)
    assert logged(agent, "6789") == "6789"
    with log.open("a") as file:
        file.write("more")
    time.sleep(0.5)
    agent.ask("ping")
    assert [piece["data"] for piece in agent.logs] == ["6789"]


def test_a_second_tail_replaces_the_first_and_null_ends_it(agent: AgentClient, log: Path, run_dir: Path) -> None:
    other = run_dir / "stages" / "extract" / "a2" / "stdout.log"
    other.parent.mkdir()
    other.write_text("other\n")
    log.write_text("one\n")
    follow(agent)
    follow(agent, attempt="a2")
    logged(agent, "other\n")
    with log.open("a") as file:
        file.write("unheard\n")
    agent.ask("tail", run=None)
    with other.open("a") as file:
        file.write("unheard too\n")
    time.sleep(0.5)
    agent.ask("ping")
    assert "unheard" not in json.dumps(agent.logs)
