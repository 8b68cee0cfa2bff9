"""A service among the stages: it is never done, its server gets one SIGTERM and time, and it runs beside other stages."""

import importlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nvml_fakes
import pytest
from agent_client import Start, agents
from host_jobs import ask_stop, kinds
from host_launches import RUN, Host, wait_for
from made_attempts import Made

from pipeline.contract import layout, telemetry
from pipeline.contract.stages import STAGES
from pipeline.host import services, stop
from pipeline.host.interpreter_needs import DISTRIBUTIONS, NEEDS

WORKER = """
import os, signal, sys, time
def note(text):
    with open(sys.argv[1], "a") as file: file.write(text + "\\n")
os.setsid()
signal.signal(signal.SIGTERM, lambda *_: note("worker TERM"))
note(f"worker {os.getpid()}")
while True: time.sleep(60)
"""
SERVER = """
import os, signal, subprocess, sys, time
slow_s, told = float(sys.argv[2]), []
def note(text):
    with open(sys.argv[1], "a") as file: file.write(text + "\\n")
def term(*_):
    note("server TERM")
    told.append(time.monotonic())
os.setsid()
signal.signal(signal.SIGTERM, term)
worker = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(sys.argv[0]), "worker.py"), sys.argv[1]])
note(f"server {os.getpid()}")
while not told or time.monotonic() < told[0] + slow_s: time.sleep(0.05)
worker.kill()
worker.wait()
note("server ended its worker")
"""
STAGE = """
import json, os, signal, subprocess, sys, time
here = os.path.dirname(sys.argv[0])
server = subprocess.Popen([sys.executable, here + "/server.py", *sys.argv[-2:]])
def term(*_):
    server.send_signal(signal.SIGTERM)
    server.wait()
    folder = os.environ["EAGLEWATCH_ATTEMPT_DIR"]
    with open(folder + "/receipt.json", "w") as file: json.dump({"verified": True, "attempt": os.path.basename(folder)}, file)
    sys.exit(0)
signal.signal(signal.SIGTERM, term)
while True: time.sleep(60)
"""

LEAVES = """
import os, signal, sys, time
def note(text):
    with open(sys.argv[-1], "a") as file:
        file.write(text + "\\n")
if os.fork() == 0:
    got = []
    signal.signal(signal.SIGTERM, lambda *_: (got.append(1), note("worker TERM")))
    note("worker")
    while not got:
        time.sleep(0.02)
    time.sleep(0.5)
    note("worker ends")
    os._exit(0)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
while True:
    time.sleep(60)
"""


def serve(host: Host, slow_s: float) -> tuple[str, dict[str, Any], dict[str, int]]:
    """A serve stage with a server that takes its time to end, and a worker of it in another session."""
    for name, body in (("worker.py", WORKER), ("server.py", SERVER)):
        (host.scratch / name).write_text(body)
    notes = host.scratch / "notes"
    directory, reply = host.launch(host.program(STAGE, "stage"), stage="serve", args=[str(notes), str(slow_s)])
    wait_for(lambda: len(host.lines("notes")) == 2, "server and worker")
    return directory, reply, {name: int(pid) for name, pid in (line.split() for line in host.lines("notes"))}


def test_a_stop_is_one_sigterm_to_the_stage_and_the_server_is_left_to_it(host: Host) -> None:
    directory, _, pids = serve(host, slow_s=3.0)
    ask_stop(host, directory)
    view = host.wait_state(directory, telemetry.STOPPED)
    assert view["why"] == "stopped by tester; exit code 0" and view["receipt"]["verified"] is True
    assert host.read(directory, layout.STOP)["grace_s"] == 90.0
    assert host.lines("notes")[2:] == ["server TERM", "server ended its worker"]
    for pid in pids.values():
        host.wait_gone(pid)
    assert not {"survivors", "kill_sent"} & set(kinds(host, directory))


def test_a_stopped_attempt_has_ended_once_its_supervisor_is_done_with_what_it_left(host: Host) -> None:
    """Else whoever stopped it would send the worker a second SIGTERM, which cuts a clean end short."""
    directory, _ = host.launch(host.program(LEAVES, "stage"), stage="serve", args=[str(host.scratch / "notes")])
    wait_for(lambda: len(host.lines("notes")) == 1, "the worker")
    manager = services.of_attempt({"run": RUN, "stage": "serve", "attempt": os.path.basename(directory)})
    done = services.stop_manager(manager, 5.0, str(host.data_dir), "t", lambda: False)
    assert done.ok and not stop.supervised(directory) and host.lines("notes")[1:] == ["worker TERM", "worker ends"]


def test_a_server_whose_stage_was_killed_is_ended_in_its_own_time(host: Host) -> None:
    """Longer than other leftovers get: and it alone gets the SIGTERM, once, for it ends its own workers."""
    directory, reply, pids = serve(host, slow_s=6.5)
    os.kill(reply["pid"], signal.SIGKILL)
    assert host.wait_state(directory, telemetry.CRASHED)["exit"]["signal"] == signal.SIGKILL
    for pid in pids.values():
        host.wait_gone(pid)
    assert host.lines("notes")[2:] == ["server TERM", "server ended its worker"]
    assert set(host.wait_event(directory, "survivors")["pids"]) == set(pids.values())
    assert "kill_sent" not in kinds(host, directory)


def test_a_service_is_never_done(run_dir: Path) -> None:
    made = Made(run_dir, stage="serve").ended_ident().exit(0)
    assert made.verdict() == (telemetry.UNVERIFIED, "exit code 0, but no receipt")
    made.put(layout.RECEIPT, verified=True, attempt="a1")
    assert made.verdict() == (telemetry.STOPPED, "it ended cleanly (exit code 0), and nobody asked for it here")
    made.stop()
    assert made.verdict() == (telemetry.STOPPED, "stopped by you; exit code 0")


def test_a_stop_that_was_not_clean_says_what_the_stage_said(run_dir: Path) -> None:
    made = Made(run_dir, stage="serve").ended_ident().stop().exit(1).event("error", message="the server did not end", exit_code=1)
    assert made.verdict() == (telemetry.STOPPED, "stopped by you; exit code 1; the server did not end")


@pytest.fixture
def start(host: Host, python: str, tmp_path: Path) -> Iterator[Start]:
    gpus = nvml_fakes.create(tmp_path / "gpus.state")
    with agents(python, host.code_dir, host.data_dir, nvml_fakes.in_python(gpus)) as one:
        yield one


def test_stages_of_one_run_live_side_by_side(start: Start, host: Host) -> None:
    agent = start()
    program = host.program("exec sleep 600", shebang="/bin/sh")
    asked = {stage: agent.send("launch", **host.request(program, stage=stage)) for stage in ("serve", "generate", "vocab")}
    pids = {stage: agent.reply(number)["pid"] for stage, number in asked.items()}
    assert len(set(pids.values())) == 3
    agent.ask("watch", run="demo", interval_s=0.2)

    def states(frame: dict[str, Any]) -> dict[str, str]:
        return {stage: view["state"] for stage, view in frame["stages"].items()}

    frame = agent.frame_where(lambda frame: states(frame) == dict.fromkeys(asked, telemetry.RUNNING))
    assert {stage: view["pid"] for stage, view in frame["stages"].items()} == pids
    second = agent.ask("launch", **host.request(program, stage="serve"))
    assert (second["state"], second["holder"]["pid"]) == (telemetry.REFUSED, pids["serve"])
    assert agent.refused("put-settings", run="demo", toml="a = 1\n", resolved={}, replace=True)["kind"] == "busy"
    agent.ask("stop", run="demo", stage="generate", by="me")
    frame = agent.frame_where(lambda frame: states(frame)["generate"] == telemetry.STOPPED)
    assert (states(frame)["serve"], states(frame)["vocab"]) == (telemetry.RUNNING, telemetry.RUNNING)


def test_a_frame_of_five_stages_stays_small(run_dir: Path, start: Start) -> None:
    """30 kB a second on the line at one frame a second, with as much in each part as a long run leaves."""
    for stage in ("serve", "generate", "prepare", "vocab", "extract"):
        made = Made(run_dir, stage + "-20261130-030000-abcdef012345", stage=stage).ended_ident().exit(0)
        for number in range(30):
            made.event("phase", phase="steady", before="loading", seconds=1234.567 + number)
        facts = [["with reasoning", "9,990 of 10,000 (99.9 %)", "ok"]] * 8
        counts = dict.fromkeys(("total", "tokens", "total_tokens", "bytes", "total_bytes", "resumed_done", "first_done"), 19_704_705_123)
        times = dict.fromkeys(("phase_boot_s", "first_boot_s", "last_boot_s", "beat_boot_s", "boot_s"), 1_234_567.123)
        made.put("progress/0.json", phase="steady", unit="sample", done=9990, note="n" * 100, facts=facts, **counts, **times)
        receipt = {f"fact_{number}": "x" * 20 for number in range(20)}
        made.put(layout.RECEIPT, verified=True, attempt=made.name, **receipt)
    agent = start()
    agent.ask("watch", run="demo", interval_s=0.2)
    frame = agent.frame_where(lambda frame: frame["nvml"]["state"] == "ok")
    assert len(frame["stages"]) == 5 and all(len(view["events"]) == 20 for view in frame["stages"].values())
    sizes = {name: len(json.dumps(part, separators=(",", ":"))) for name, part in frame.items()}
    assert sum(sizes.values()) < 30_000, sizes


def test_interpreters_are_asked_for_what_the_stages_need() -> None:
    assert set(NEEDS) == {stage.name for stage in STAGES.values() if stage.built}
    for stage, distributions in NEEDS.items():
        wanted = set(importlib.import_module(f"pipeline.stages.{stage}").NEEDED_PACKAGES)
        by_settings = {"vllm"} if stage == "serve" else set()  # only where the settings name no other program
        assert set(distributions) - by_settings == wanted - by_settings, stage
        assert set(distributions) <= set(DISTRIBUTIONS)
