"""On the rehearsal host: armed while generate answers, with no console there, through the real stages to the extraction. SIMULATED GPUs."""

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from console.headless import hosts
from console.rehearsal import start
from console.remote.errors import AgentError
from console.remote.link import Link
from pipeline.contract import layout, rehearsal, telemetry, transition
from pipeline.contract.clock import boot_s
from pipeline.host import state
from pipeline.rehearsal import faults
from tests.headless.commands import Machine, Running

RUN = ("--host", "rehearsal", "--run", "rehearsal")
STAGES = ("prepare", "vocab", "extract")
PATIENCE_S = 200.0


@pytest.fixture
def short(machine: Machine) -> Machine:
    """Few prompts, and answers of few words."""
    start.ensure_running(str(machine.rehearsal_home))
    settings = ("generate.max_prompts=4", "generate.greedy_holdout=0", "generate.max_response_tokens=24", "generate.concurrency=2")
    init = machine.run("init", "rehearsal", "rehearsal", "--preset", "rehearsal", *(word for one in settings for word in ("--set", one)))
    assert init.returncode == 0, init.stderr
    return machine


async def arm(machine: Machine, armed: bool) -> str:
    """Plan and launch a transition, and hang up; its attempt."""
    host = hosts.reach(start.ensure_running(str(machine.rehearsal_home)))
    async with Link(host) as link:
        await link.wait_connected(30)
        stages = [{"stage": one, "interpreter": sys.executable, "args": [], "env": {}} for one in STAGES]
        fields = {"label": "rehearsal", "run": "rehearsal", "from": "generate", "stages": stages, "expected_gpus": 8}
        plan = (await link.request("transition.plan", 60.0, **fields))["plan"]
        assert plan["service"] is None or plan["service"]["name"] == "rehearsal/serve"
        order = {"plan": plan, "phrase": plan["phrase_armed" if armed else "phrase"], "armed": armed, "times": {"release_s": 3}}
        attempt = layout.new_attempt_id()
        await link.act("rehearsal", transition.ACTION, attempt, order, "tester")
        return attempt


async def refused_launch(machine: Machine) -> str:
    host = hosts.reach(start.ensure_running(str(machine.rehearsal_home)))
    async with Link(host) as link:
        await link.wait_connected(30)
        with pytest.raises(AgentError) as caught:
            gpus = {"expected_gpus": 8}
            await link.launch("rehearsal", "extract", layout.new_attempt_id(), sys.executable, [], {}, "tester", gpus)
        return f"{caught.value.kind}: {caught.value}"


def ended(run_directory: str, attempt: str) -> dict[str, Any]:
    directory = layout.attempt_dir(run_directory, transition.ACTION, attempt)
    deadline = boot_s() + PATIENCE_S
    while (view := state.view(directory))["state"] in telemetry.LIVE_STATES:
        assert boot_s() < deadline, f"the transition did not end: {view}"
        time.sleep(0.2)
    return view


@pytest.mark.timeout(600)
def test_armed_with_nobody_there_memory_that_stays_and_going_on(short: Machine, begin: Callable[..., Running]) -> None:
    home = str(short.rehearsal_home)
    run_directory = layout.run_dir(rehearsal.data_dir(home), "rehearsal")
    up = short.run("run", "serve", *RUN, "--json", timeout=200)
    assert up.returncode == 0, up.stderr
    faults.arm(home, rehearsal.parse_fault("gpu-memory-stays,at=0.1,stage=generate"))
    generating = begin("run", "generate", *RUN, "--json")
    generating.until(lambda line: line.get("state") == "RUNNING")
    attempt = asyncio.run(arm(short, armed=True))
    generating.close()

    view = ended(run_directory, attempt)
    assert (view["state"], view["exit"]["code"], view["receipt"]["stopped_at"]) == ("FAILED", 11, "FREE"), view["why"]
    assert "82604 MiB held by something not visible from here" in view["why"]
    standing = state.newest(run_directory)
    assert [standing[one]["state"] for one in ("generate", "prepare", "vocab", "serve")] == ["DONE", "DONE", "DONE", "STOPPED"]
    assert "extract" not in standing
    refused = asyncio.run(refused_launch(short))
    assert refused.startswith("gpus: extract needs its GPUs verified free: NOT FREE") and "82604 MiB" in refused

    faults.arm(home, None)
    view = ended(run_directory, asyncio.run(arm(short, armed=False)))
    assert view["state"] == "DONE", view["why"]
    steps = [[one["step"], one["stage"]] for one in view["receipt"]["steps"]]
    assert steps[:4] == [["OUTPUT", "generate"], ["STAGE", "prepare"], ["STAGE", "vocab"], ["PREFLIGHT", "extract"]]
    assert "STOP_SERVER" not in [one for one, _ in steps], "the server has stopped already"
    assert list(view["receipt"]["launched"]) == ["extract"], "nothing is done twice"
    assert all(one["ok"] is True for one in view["receipt"]["preflight"])
    assert state.newest(run_directory)["extract"]["state"] in ("RUNNING", "DONE")
