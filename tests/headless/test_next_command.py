"""``eaglewatch next`` against a rehearsal host: the real plan and the real action, armed behind a stage that runs, and disarmed."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.contract import layout, transition
from pipeline.host import procs
from tests.headless.commands import Machine, Running
from tests.host.made_attempts import Made

pytestmark = pytest.mark.timeout(240)
PHRASE = "arm rehearsal rehearsal prepare vocab extract"


@pytest.fixture
def generating(machine: Machine) -> Iterator["subprocess.Popen[bytes]"]:
    """A run whose generate stage runs: a process that waits in its place."""
    init = machine.run("init", "rehearsal", "rehearsal", "--preset", "rehearsal")
    assert init.returncode == 0, init.stderr
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    Made(machine.runs() / "rehearsal", layout.new_attempt_id(), stage="generate").ident(**procs.identity(process.pid))
    yield process
    process.kill()
    process.wait()


def following(machine: Machine, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return machine.run("next", "rehearsal", "--run", "rehearsal", *arguments)


def last(done: "subprocess.CompletedProcess[str]") -> dict:
    return json.loads(done.stdout.splitlines()[-1])


def attempts(machine: Machine) -> list[Path]:
    return machine.attempts("rehearsal", transition.ACTION)


def test_plan_arm_and_disarm(machine: Machine, generating: "subprocess.Popen[bytes]", begin: Callable[..., Running]) -> None:
    plan = following(machine, "--plan", "--armed")
    assert plan.returncode == 0, plan
    assert plan.stdout.startswith("SIMULATED  run rehearsal on rehearsal: generate -> prepare -> vocab -> extract")
    assert "ARMED          wait until generate has ended verified" in plan.stdout and f"--confirm '{PHRASE}'" in plan.stdout
    assert "it stops: nothing" in plan.stdout and "GPUs: GPU 0-7 0 MiB" in plan.stdout
    for words, said in (
        (("--confirm", PHRASE), "is the phrase with --armed; nothing was done"),
        (("--confirm", ""), "the phrase '' does not fit what is there now; nothing was done"),
        (("--confirm", PHRASE, "--armed", "--digest", "0123"), "is not what is there now"),
        (("--plan", "--from", "extract"), "nothing that needs the GPUs follows extract; train is not in this version"),
        (("--plan", "--from", "serve"), "serve has not run in this run: there is nothing to go on from"),
        (("--plan", "--override", "since"), "--override: it is of a transition that is confirmed"),
        (("--plan", "--run", "nope"), "no run nope on rehearsal; eaglewatch status rehearsal lists its runs"),
        (("--show",), "had no transition yet"),
        (("--show", "--armed", "--from", "serve"), "--armed, --from: does nothing with --show"),
        (("--cancel",), "had no transition yet"),
    ):
        refused = following(machine, *words)
        assert refused.returncode == 2 and said in refused.stderr, refused
    assert not attempts(machine)
    now = following(machine, "--plan", "--json")
    assert f"--armed --digest {last(now)['digest']} --confirm '{PHRASE}'" in last(now)["command_armed"]
    now = following(machine, "--plan")
    assert "generate still runs: begun now it stops at the first step, armed it waits" in now.stdout
    assert f"--confirm '{PHRASE}'" in now.stdout and "--confirm 'next" not in now.stdout

    armed = following(machine, "--confirm", PHRASE, "--armed", "--detach", "--json")
    assert armed.returncode == 0 and last(armed)["ok"] is True, armed
    (attempt,) = attempts(machine)
    second = following(machine, "--confirm", PHRASE, "--armed")
    assert second.returncode == 2 and "is there already" in second.stderr and "nothing was done. To follow it: eaglewatch" in second.stderr
    assert "one is there already (ARMED, generate is " in following(machine, "--plan").stderr
    shown = begin("next", "rehearsal", "--run", "rehearsal", "--show", "--json")
    shown.until(lambda line: line.get("step") == "ARMED")
    log = machine.run("log", "rehearsal", "--run", "rehearsal", "--stage", "transition")
    assert log.returncode == 0 and "ARMED stage=generate" in log.stdout, log
    status = machine.run("status", "rehearsal", "--run", "rehearsal")
    assert "transition: ARMED, generate is " in status.stdout, status
    cancelled = following(machine, "--cancel")
    assert cancelled.returncode == 1 and "disarmed; nothing was done" in cancelled.stdout, cancelled
    code, line = shown.end()
    assert code == 1 and (line["receipt"]["outcome"], line["receipt"]["attempt"]) == ("disarmed", attempt.name)
    assert generating.poll() is None and not machine.attempts("rehearsal", "prepare")
    noted = [one["reply"] for one in machine.audit() if one["what"] == transition.ACTION and one["attempt"] == attempt.name]
    assert noted == [None, "RUNNING"]

    generating.kill()
    generating.wait()
    gone = following(machine, "--plan")
    assert gone.returncode == 2 and "no next transition of run rehearsal" in gone.stderr, "generate did not end verified"
