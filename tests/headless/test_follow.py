"""Whoever watches may die, leave or come late: the job goes on, one of it, and the numbers continue."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from console.rehearsal import home as homes
from console.rehearsal import start
from pipeline.contract.files import read_json
from pipeline.host import procs
from tests.headless.commands import Machine, Running, check_result, settings_text


@pytest.fixture
def settings(machine: Machine, tmp_path: Path) -> str:
    start.ensure_running(str(machine.rehearsal_home))
    path = tmp_path / "run.toml"
    path.write_text(settings_text(machine))
    return str(path)


def working(line: dict) -> bool:
    return line.get("state") == "RUNNING" and line["phase"] == "steady" and (line["samples"] or 0) > 0


@pytest.mark.timeout(600)
def test_killed_left_attached_refused_and_stopped(machine: Machine, begin: Callable[..., Running], settings: str) -> None:
    launch = ("run", "extract", "--host", "rehearsal", "--run", "slow", "--settings", settings, "--json")
    follower = begin(*launch)
    before = follower.until(working, 240)
    follower.kill()

    # A second client comes and sees the same attempt further on.
    watcher = begin("attach", "rehearsal", "--json")
    after = watcher.until(lambda line: working(line) and line["samples"] > before["samples"])
    assert after["attempt"] == before["attempt"] and after["mean_tokens_per_s"] > 0 and after["tokens"] > before["tokens"]

    # The same launch again is this one, followed; another one is refused with the difference; neither starts a second.
    again = begin(*launch)
    followed = again.until(working)
    assert followed["attempt"] == before["attempt"]
    again.kill()
    assert any(f"runs already (attempt {before['attempt']} by " in message for message in again.messages)
    told = machine.run(*launch, "--limit", "3")
    assert told.returncode == 2
    message = json.loads(told.stdout.splitlines()[-1])["error"]["message"]
    assert "runs already" in message and before["attempt"] in message and "eaglewatch attach rehearsal --run slow" in message
    assert "arguments: none there, --limit 3 here" in message
    serve = machine.run("run", "serve", "--host", "rehearsal", "--run", "slow")
    assert serve.returncode == 2 and "serve needs all GPUs, and extract holds them: stop extract first" in serve.stderr
    assert machine.attempts("slow", "serve") == [] and len(machine.attempts("slow")) == 1

    # Ctrl-C leaves the job alone and says so.
    watcher.interrupt()
    code, last = watcher.end(60)
    assert code == 3
    check_result(last, ok=False)
    assert "extract goes on; eaglewatch attach rehearsal --run slow" in last["error"]["message"]
    assert last["stages"]["extract"]["state"] == "RUNNING"
    assert procs.alive(read_json(str(machine.attempts("slow")[0] / "ident.json")) or {})

    # Another watcher is there when it is stopped, and says by whom.
    witness = begin("attach", "rehearsal", "--run", "slow", "--json")
    witness.until(working)
    stopped = machine.run("stop", "rehearsal", "--run", "slow", "--stage", "extract", "--yes", "--json")
    assert stopped.returncode == 0, stopped.stderr
    result = json.loads(stopped.stdout.splitlines()[-1])
    check_result(result, ok=True)
    assert result["stages"]["extract"]["state"] == "STOPPED"
    assert "stops extract of run slow on rehearsal: pid" in stopped.stderr
    code, last = witness.end(60)
    assert code == 1
    check_result(last, ok=False)
    assert "STOPPED: stopped by" in last["error"]["message"]
    assert not procs.alive(read_json(str(machine.attempts("slow")[0] / "ident.json")) or {})
    assert next(line["reply"] for line in machine.audit() if line["what"] == "stop") is None
    again = machine.run("stop", "rehearsal", "--run", "slow", "--stage", "extract", "--yes")
    assert again.returncode == 2 and "does not run: STOPPED" in again.stderr


def die_after_claim(machine: Machine, first: Running, run: str) -> None:
    """Kill a command as soon as the host has claimed its attempt: the reply would come two seconds after exec."""
    deadline = time.monotonic() + 60
    while not machine.attempts(run):
        assert time.monotonic() < deadline and first.process.poll() is None, (first.messages, first.seen)
        time.sleep(0.005)
    first.kill()


@pytest.mark.timeout(600)
def test_a_command_that_dies_before_the_reply_is_resumed_not_repeated(
    machine: Machine, begin: Callable[..., Running], settings: str
) -> None:
    launch = ("run", "extract", "--host", "rehearsal", "--run", "lost", "--settings", settings, "--json")
    die_after_claim(machine, begin(*launch, "--limit", "12"), "lost")
    assert [line["reply"] for line in machine.audit() if line["what"] == "launch"] == [None]
    second = begin(*launch, "--limit", "12")
    code, last = second.end(300)
    assert code == 0, second.messages
    check_result(last, ok=True)
    assert last["stages"]["extract"]["verified"] == 12
    assert len(machine.attempts("lost")) == 1
    assert list((machine.state / "eaglewatch" / "launches").glob("*.json")) == []


@pytest.mark.timeout(600)
def test_another_order_never_takes_the_lost_launch_for_its_own(machine: Machine, begin: Callable[..., Running], settings: str) -> None:
    launch = ("run", "extract", "--host", "rehearsal", "--run", "other", "--json")
    first = ("--settings", settings)
    die_after_claim(machine, begin(*launch, *first), "other")
    for changed, told in (
        ((*first, "--limit", "2"), "arguments: none there, --limit 2 here"),
        ((*first, "--set", "extract.batch_samples=3"), "extract.batch_samples: 1 there, 3 here"),
        ((*first, "--interpreter", "/usr/bin/python3"), "/usr/bin/python3 here"),
    ):
        refused = machine.run(*launch, *changed)
        message = json.loads(refused.stdout.splitlines()[-1])["error"]["message"]
        assert refused.returncode == 2 and told in message, message
        assert "eaglewatch attach rehearsal --run other" in message and "eaglewatch stop rehearsal --run other" in message
    assert len(machine.attempts("other")) == 1
    stopped = machine.run("stop", "rehearsal", "--run", "other", "--stage", "extract", "--yes")
    assert stopped.returncode == 0, stopped.stderr

    # It has ended: the record of before is void, and the new order is carried out as it is.
    again = machine.run(*launch, *first, "--limit", "2")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout.splitlines()[-1])["stages"]["extract"]["verified"] == 2
    assert len(machine.attempts("other")) == 2
    assert list((machine.state / "eaglewatch" / "launches").glob("*.json")) == []


@pytest.mark.timeout(600)
def test_a_killed_server_shows_as_ages_and_the_numbers_come_back(machine: Machine, begin: Callable[..., Running], settings: str) -> None:
    follower = begin("run", "extract", "--host", "rehearsal", "--run", "cut", "--settings", settings, "--json")
    before = follower.until(working, 240)
    server = homes.running_server(str(machine.rehearsal_home))
    assert server is not None
    os.kill(server["pid"], 9)
    down = follower.until(lambda line: line["link"]["state"] == "RECONNECTING" and line["link"]["frame_age_s"] > 2)
    assert down["state"] == "RUNNING", "a lost link changes ages, never a job's state"
    assert down["gpu_memory"]["age_s"] >= down["link"]["frame_age_s"]
    start.ensure_running(str(machine.rehearsal_home))
    back_since = time.monotonic()
    after = follower.until(lambda line: line["link"]["state"] == "LIVE" and line["link"]["frame_age_s"] < 3)
    assert after["attempt"] == before["attempt"] and after["samples"] >= before["samples"]
    assert time.monotonic() - back_since < 60, "within 10 s, six times that on a busy machine"
    assert len(machine.attempts("cut")) == 1
