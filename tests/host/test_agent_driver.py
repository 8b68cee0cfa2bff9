"""The agent and the process that reads the driver for it: frames whatever becomes of that one, and nothing of it left behind."""

import os
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import nvml_fakes
import pytest
from agent_client import AgentClient, Start, agents
from host_launches import find_pythons
from nvml_fakes import MIB

from pipeline.host import procs
from pipeline.rehearsal import sim_gpus

ONCE = pytest.mark.parametrize("python", [find_pythons()[-1]], ids=["oldest"], indirect=True)
"""For tests that wait for the driver's own long intervals: with the oldest Python alone."""


@pytest.fixture
def gpus(tmp_path: Path) -> Path:
    return nvml_fakes.create(tmp_path / "gpus.state")


@pytest.fixture
def start(python: str, code_dir: Path, data_dir: Path, gpus: Path) -> Iterator[Start]:
    with agents(python, code_dir, data_dir, nvml_fakes.in_python(gpus)) as one:
        yield one


@pytest.fixture
def agent(start: Start) -> AgentClient:
    return start()


def nvml_of(agent: AgentClient) -> list[int]:
    """Children of the agent that are alive."""
    return [pid for pid in procs.descendants([agent.pid]) if procs.alive(procs.identity(pid))]


def ended(who: dict[str, Any]) -> None:
    end = time.monotonic() + 60
    while procs.alive(who):
        assert time.monotonic() < end, f"{who} lives"
        time.sleep(0.02)


def readings(frame: dict[str, Any]) -> bool:
    return frame["nvml"]["state"] == "ok"


def test_the_driver_is_asked_once_a_second_at_most(agent: AgentClient) -> None:
    agent.ask("watch", run=None, interval_s=0.2)
    agent.frame_where(readings)
    times = sorted({agent.next_frame()["nvml"]["boot_s"] for _ in range(16)})[1:]  # the first was late by the start of the process
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps and min(gaps) >= 0.5


@ONCE
def test_frames_follow_what_happens_on_the_gpus(agent: AgentClient, gpus: Path) -> None:
    agent.ask("watch", run=None, interval_s=0.2, disk_path="/")
    assert agent.frame_where(readings)["gpus"][4]["used_bytes"] == 0
    sim_gpus.hold(str(gpus), 4, 81024, 50, 100)
    frame = agent.frame_where(lambda frame: frame["gpus"][4]["used_bytes"])
    assert frame["gpus"][4]["used_bytes"] == 81024 * MIB and frame["output_disk"]["path"] == "/"
    row = agent.frame_where(lambda frame: frame["gpus"][4]["procs"])["gpus"][4]["procs"][0]
    assert row["pid"] == os.getpid() and row["here"] is True


def test_it_ends_with_its_input_and_takes_the_nvml_process_along(agent: AgentClient, data_dir: Path) -> None:
    agent.ask("watch", run=None, interval_s=0.2)
    agent.frame_where(readings)
    (child,) = [procs.identity(pid) for pid in nvml_of(agent)]
    assert list((data_dir / "agents").iterdir())
    assert agent.close() == 0
    ended(child)
    assert not list((data_dir / "agents").iterdir())


def test_it_ends_when_nobody_can_read_any_more(agent: AgentClient) -> None:
    agent.ask("watch", run=None, interval_s=0.2)
    agent.frame_where(readings)
    children = [procs.identity(pid) for pid in nvml_of(agent)]
    agent.stdout.close()
    assert agent.process.wait(60) == 0
    for child in children:
        ended(child)


def test_a_killed_agent_leaves_no_nvml_process_not_even_one_that_hangs(start: Start, gpus: Path) -> None:
    nvml_fakes.order(gpus, "hang nvmlInitWithFlags")
    agent = start(nvml_fakes.in_c(gpus))
    agent.ask("watch", run=None, interval_s=0.2)
    for _ in range(3):  # frames come although the driver hangs
        assert agent.next_frame()["nvml"]["state"] == "starting"
    end = time.monotonic() + 60
    while not any(b"libnvidia-ml" in Path(f"/proc/{pid}/maps").read_bytes() for pid in nvml_of(agent)):
        assert time.monotonic() < end
        agent.next_frame()
    children = [procs.identity(pid) for pid in nvml_of(agent)]
    agent.kill()
    for child in children:
        ended(child)


@ONCE
def test_a_driver_that_hangs_becomes_stuck_while_frames_keep_coming(start: Start, gpus: Path) -> None:
    agent = start(nvml_fakes.in_c(gpus))
    agent.ask("watch", run=None, interval_s=0.5)
    read = agent.frame_where(readings)
    nvml_fakes.order(gpus, "hang nvmlDeviceGetUtilizationRates")
    stuck = agent.frame_where(lambda frame: frame["nvml"]["state"] == "stuck")
    assert stuck["boot_s"] - stuck["nvml"]["boot_s"] >= 10, "called stuck too early"
    assert len(stuck["gpus"]) == 8 and stuck["nvml"]["boot_s"] >= read["nvml"]["boot_s"]
    assert len(nvml_of(agent)) == 1
    nvml_fakes.without(gpus, "hang")
    agent.frame_where(lambda frame: frame["nvml"]["state"] == "ok" and frame["nvml"]["boot_s"] > stuck["nvml"]["boot_s"])


@ONCE
def test_an_nvml_process_that_is_killed_is_told_and_replaced(agent: AgentClient) -> None:
    agent.ask("watch", run=None, interval_s=0.2)
    agent.frame_where(readings)
    (pid,) = nvml_of(agent)
    os.kill(pid, signal.SIGKILL)
    told = agent.frame_where(lambda frame: frame["nvml"]["state"] == "error")
    assert "signal 9" in told["nvml"]["detail"] and len(told["gpus"]) == 8
    again = agent.frame_where(readings)
    assert again["nvml"]["boot_s"] > told["boot_s"] and nvml_of(agent) != [pid]


def test_a_host_without_a_driver_still_has_frames(start: Start, tmp_path: Path) -> None:
    agent = start(nvml_fakes.broken_library(tmp_path))
    agent.ask("watch", run=None, interval_s=0.2)
    frame = agent.frame_where(lambda frame: frame["nvml"]["state"] == "error")
    assert "libnvidia-ml.so.1" in frame["nvml"]["detail"] and frame["gpus"] is None
