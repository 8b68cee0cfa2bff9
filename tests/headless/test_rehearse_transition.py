"""The way from generate to extract by the command, on the rehearsal host through the real stages. SIMULATED GPUs.

Armed while generate answers, with no console there; a console that watches is killed, and the link with it, in the middle of freeing;
memory that stays; and on from there.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console.rehearsal import home as homes
from console.rehearsal import start
from pipeline.contract import layout, rehearsal, telemetry, transition
from pipeline.host import state
from pipeline.rehearsal import faults
from tests.headless.commands import Machine, Running

RUN = ("--host", "rehearsal", "--run", "rehearsal")
NEXT = ("next", "rehearsal", "--run", "rehearsal")
PATIENCE_S = 200.0


@pytest.fixture
def short(machine: Machine) -> Machine:
    """Few prompts, and answers of few words."""
    start.ensure_running(str(machine.rehearsal_home))
    settings = ("generate.max_prompts=4", "generate.greedy_holdout=0", "generate.max_response_tokens=24", "generate.concurrency=2")
    init = machine.run("init", "rehearsal", "rehearsal", "--preset", "rehearsal", *(word for one in settings for word in ("--set", one)))
    assert init.returncode == 0, init.stderr
    return machine


def last(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    return json.loads(done.stdout.splitlines()[-1])


def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def began(directory: Path, step: str) -> bool:
    path = directory / layout.EVENTS
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return any(one.get("step") == step for one in lines)


@pytest.mark.timeout(600)
def test_armed_with_nobody_there_memory_that_stays_and_going_on(short: Machine, begin: Callable[..., Running]) -> None:
    home = str(short.rehearsal_home)
    up = short.run("run", "serve", *RUN, "--json", timeout=200)
    assert up.returncode == 0, up.stderr
    faults.arm(home, rehearsal.parse_fault("gpu-memory-stays,at=0.1,stage=generate"))
    generating = begin("run", "generate", *RUN, "--json")
    generating.until(lambda line: line.get("state") == "RUNNING")
    (answering,) = short.attempts("rehearsal", "generate")
    generate = json.loads((answering / layout.IDENT).read_text())["pid"]
    os.kill(generate, signal.SIGSTOP)  # its few answers may be there before a slow machine has armed the transition
    plan = last(short.run(*NEXT, "--plan", "--armed", "--json"))
    assert plan["phrase_armed"] == "arm rehearsal rehearsal prepare vocab extract rehearsal/serve"
    armed = short.run(*NEXT, "--confirm", plan["phrase_armed"], "--armed", "--digest", plan["digest"], "--release-s", "5", "--detach")
    assert armed.returncode == 0 and armed.stdout.startswith("SIMULATED  ARMED, generate is RUNNING"), armed
    assert "eaglewatch next rehearsal --run rehearsal --show" in armed.stdout
    generating.close()
    os.kill(generate, signal.SIGCONT)

    (attempt,) = short.attempts("rehearsal", transition.ACTION)
    until(lambda: began(attempt, "STAGE"), "nobody is there, and it goes on")
    watching = begin(*NEXT, "--show", "--json")
    watching.until(lambda line: line.get("step") == "FREE", PATIENCE_S)
    assert [line["step"] for line in watching.seen if line.get("begins")][:3] == ["CONFIRMED", "ARMED", "OUTPUT"], "from its beginning"
    watching.kill()
    server = homes.running_server(home)
    assert server is not None
    os.kill(server["pid"], signal.SIGKILL)
    until(lambda: state.view(str(attempt))["state"] not in telemetry.LIVE_STATES, "the host goes on by itself, to an end")

    shown = short.run(*NEXT, "--show")
    assert shown.returncode == 11, shown
    assert "stopped at FREE: NOT FREE" in shown.stdout and "82604 MiB that no process seen here holds" in shown.stdout
    assert "82,604 MiB on GPU 1-7 that no process seen here holds" in shown.stdout and "--fault none" in shown.stdout
    assert "the next transition resumes at HOLDERS, and stops there" in shown.stdout
    assert f"to go on: eaglewatch {' '.join(NEXT)} --plan" in shown.stderr
    standing = state.newest(str(short.runs() / "rehearsal"))
    assert [standing[one]["state"] for one in ("generate", "prepare", "vocab", "serve")] == ["DONE", "DONE", "DONE", "STOPPED"]
    assert "extract" not in standing
    refused = short.run("run", "extract", *RUN)
    assert refused.returncode == 2 and "extract needs its GPUs verified free: NOT FREE" in refused.stderr and "82604 MiB" in refused.stderr

    faults.arm(home, None)
    done = short.run(*NEXT, "--confirm", "next rehearsal rehearsal prepare vocab extract", "--json", timeout=PATIENCE_S)
    receipt = last(done)["receipt"]
    assert done.returncode == 0 and last(done)["ok"] is True, done
    steps = [[one["step"], one["stage"]] for one in receipt["steps"]]
    assert steps[:4] == [["OUTPUT", "generate"], ["STAGE", "prepare"], ["STAGE", "vocab"], ["PREFLIGHT", "extract"]]
    assert "STOP_SERVER" not in [one for one, _ in steps], "the server has stopped already"
    assert list(receipt["launched"]) == ["extract"], "nothing is done twice"
    assert all(one["ok"] is True for one in receipt["preflight"]) and receipt["free"]["line"] == "FREE: 0 MiB on 8/8"
    assert f"to follow extract: eaglewatch attach {' '.join(NEXT[1:])} --stage extract" in done.stderr
    for stage in ("generate", "prepare", "vocab", "extract"):
        assert len(short.attempts("rehearsal", stage)) == 1
