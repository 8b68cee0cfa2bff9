"""The agent's side of the NVML process: deadlines, deaths and restarts, with a clock that the test can move."""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nvml_fakes
import pytest
from nvml_fakes import order, without

from pipeline.contract.clock import boot_s
from pipeline.host import nvml, nvml_client, procs
from pipeline.host.nvml_client import NvmlClient


class Clock:
    """The boot clock, and what the test adds to it."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return boot_s() + self.ahead_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the C fake that the processes started here load."""
    path = nvml_fakes.create(tmp_path / "gpus.state")
    for name, value in nvml_fakes.in_c(path).items():
        monkeypatch.setenv(name, value)
    return path


Make = Callable[[], NvmlClient]


@pytest.fixture
def make(code_dir: Path, tmp_path: Path, clock: Clock, state: Path) -> Iterator[Make]:
    """Makes clients that share a data directory."""
    made: list[NvmlClient] = []
    markers = tmp_path / "agents"
    markers.mkdir()

    def one() -> NvmlClient:
        made.append(NvmlClient([sys.executable, "-u", "-s", "-S", str(code_dir), "nvml"], str(markers), clock))
        return made[-1]

    yield one
    for client in made:
        client.close()


def turn(client: NvmlClient, seconds: float = 0.05) -> None:
    """What the agent's loop does."""
    ready, _, _ = select.select(client.fds, [], [], seconds) if client.fds else ([], [], [])
    for fd in ready:
        client.readable(fd)
    client.tick()


def until(client: NvmlClient, condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, client.view()
        turn(client)


def state_of(client: NvmlClient) -> str:
    return client.view()[0]["state"]


def test_a_reading_arrives_without_waiting_for_it(make: Make) -> None:
    client = make()
    assert client.view()[0]["state"] == "starting" and client.view()[1] is None
    before = time.monotonic()
    client.ask()
    client.ask()  # one is on its way
    assert time.monotonic() - before < 5
    until(client, lambda: state_of(client) == "ok")
    part, gpus = client.view()
    assert gpus is not None and len(gpus) == 8
    assert part["simulated"] is False and part["driver"] and part["boot_s"] <= boot_s()


def test_no_answer_is_stuck_and_the_old_reading_keeps_its_age(make: Make, clock: Clock, state: Path) -> None:
    client = make()
    client.ask()
    until(client, lambda: state_of(client) == "ok")
    old, pid = client.view(), client.pid
    order(state, "hang nvmlDeviceGetPowerUsage")
    client.ask()
    turn(client, 0.2)
    assert state_of(client) == "ok"
    clock.ahead_s = nvml_client.DEADLINE_S - 1
    turn(client)
    assert state_of(client) == "ok"
    clock.ahead_s = nvml_client.DEADLINE_S + 5
    turn(client)
    part, gpus = client.view()
    assert part["state"] == "stuck" and "has not answered for" in part["detail"]
    assert part["boot_s"] == old[0]["boot_s"] and gpus == old[1]
    client.ask()
    assert client.pid == pid, "a second process went into the same hang"
    without(state, "hang")
    until(client, lambda: state_of(client) == "ok")
    assert client.view()[0]["boot_s"] > old[0]["boot_s"] and client.pid == pid


def test_another_connection_starts_none_into_the_same_hang(make: Make, clock: Clock, state: Path) -> None:
    order(state, "hang nvmlInitWithFlags")
    first, second = make(), make()
    first.ask()
    clock.ahead_s = nvml_client.DEADLINE_S + 1
    turn(first)
    assert state_of(first) == "stuck" and "persistence" in first.view()[0]["detail"]
    second.ask()
    assert second.pid is None
    part, _ = second.view()
    assert part["state"] == "stuck" and f"process {first.pid} of another connection" in part["detail"]
    without(state, "hang")
    until(first, lambda: state_of(first) == "ok")
    clock.ahead_s += nvml_client.BACKOFF_S[0]
    second.ask()
    until(second, lambda: state_of(second) == "ok")


def test_a_marker_of_a_process_that_has_ended_holds_nobody_up(make: Make, clock: Clock, state: Path) -> None:
    order(state, "hang nvmlInitWithFlags")
    first, second = make(), make()
    first.ask()
    clock.ahead_s = nvml_client.DEADLINE_S + 1
    turn(first)
    assert first.pid is not None
    who = procs.identity(first.pid)
    os.kill(first.pid, signal.SIGKILL)  # and the one that started it never looks again
    without(state, "hang")
    end = time.monotonic() + 60
    while procs.alive(who):
        assert time.monotonic() < end
    second.ask()
    until(second, lambda: state_of(second) == "ok")


def test_a_process_that_was_killed_is_an_error_and_starts_again_later(make: Make, clock: Clock, state: Path) -> None:
    client = make()
    client.ask()
    until(client, lambda: state_of(client) == "ok")
    old = client.view()
    assert client.pid is not None
    os.kill(client.pid, signal.SIGKILL)
    until(client, lambda: state_of(client) == "error")
    part, gpus = client.view()
    assert "signal 9" in part["detail"]
    assert part["boot_s"] == old[0]["boot_s"] and gpus == old[1]
    client.ask()
    assert client.pid is None, "started again at once"
    clock.ahead_s += nvml_client.BACKOFF_S[0]
    client.ask()
    until(client, lambda: state_of(client) == "ok")


def test_a_driver_that_does_not_start_is_asked_ever_less_often(make: Make, clock: Clock, state: Path) -> None:
    order(state, "fail nvmlInitWithFlags 9")
    client = make()
    for pause in (*nvml_client.BACKOFF_S, nvml_client.BACKOFF_S[-1]):
        client.ask()
        assert client.pid is not None
        until(client, lambda: client.pid is None)
        part, gpus = client.view()
        assert (part["state"], part["detail"], gpus) == ("error", nvml.INIT_ERRORS[9], None)
        clock.ahead_s += pause - 1.5
        client.ask()
        assert client.pid is None
        clock.ahead_s += 1.6
    without(state, "fail")
    client.ask()
    until(client, lambda: state_of(client) == "ok")


def test_what_a_broken_process_says_last_is_the_reason(tmp_path: Path, clock: Clock) -> None:
    client = NvmlClient([sys.executable, "-c", "raise SystemExit('no luck today')"], str(tmp_path), clock)
    client.ask()
    until(client, lambda: state_of(client) == "error")
    assert "exit code 1" in client.view()[0]["detail"] and "no luck today" in client.view()[0]["detail"]
    client.close()
    missing = NvmlClient([str(tmp_path / "nothing")], str(tmp_path), clock)
    missing.ask()
    assert state_of(missing) == "error" and "does not start" in missing.view()[0]["detail"]
