"""``eaglewatch free-gpus`` against a rehearsal host: SIMULATED GPUs, real processes that hold them, the real action."""

import contextlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from pipeline.contract import layout, rehearsal
from pipeline.rehearsal import sim_gpus
from tests.headless.commands import Machine, Running

pytestmark = pytest.mark.timeout(240)


@contextlib.contextmanager
def sleeping(first: str = "") -> Iterator["subprocess.Popen[bytes]"]:
    """A process of nobody's run that sleeps, once it has done ``first``."""
    code = f"import signal, time; {first or 'pass'}; print(flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def holder() -> Iterator["subprocess.Popen[bytes]"]:
    with sleeping() as process:
        yield process


@pytest.fixture
def stubborn() -> Iterator["subprocess.Popen[bytes]"]:
    """It ignores SIGTERM."""
    with sleeping("signal.signal(signal.SIGTERM, signal.SIG_IGN)") as process:
        yield process


def free(machine: Machine, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return machine.run("free-gpus", "rehearsal", *arguments)


def last(done: "subprocess.CompletedProcess[str]") -> dict:
    return json.loads(done.stdout.splitlines()[-1])


def state(machine: Machine) -> str:
    return str(machine.rehearsal_home / "gpus.state")


def test_plan_phrase_confirm_receipt_and_an_idle_baseline(machine: Machine, holder: "subprocess.Popen[bytes]") -> None:
    nobody = free(machine, "--plan")
    assert nobody.returncode == 0 and "nobody holds a GPU" in nobody.stdout, nobody
    for gpu in (0, 1):
        sim_gpus.hold(state(machine), gpu, 82611, pid=holder.pid)
    plan = free(machine, "--plan", "--all")
    row = next(line for line in plan.stdout.splitlines() if str(holder.pid) in line)
    assert plan.returncode == 0 and row.startswith("[x]") and "165,222" in row and "0-1" in row, plan
    assert plan.stdout.startswith("SIMULATED  GPUs of rehearsal: GPU 0-1 82,611 MiB; GPU 2-7 0 MiB")
    assert "--confirm 'free rehearsal 1'" in plan.stdout and "VERIFY: 5 readings" in plan.stdout

    told = last(free(machine, "--plan", "--json"))
    assert told["phrase"] == "free rehearsal 0" and told["selection"] == [] and told["ok"] is True, "nothing foreign is proposed"

    wrong = free(machine, "--confirm", "free rehearsal 1")
    assert wrong.returncode == 2 and "does not fit what is there now; nothing was done" in wrong.stderr, "one, but none is selected"
    other = free(machine, "--confirm", "free rehearsal 1", "--all", "--digest", "0123456789abcdef")
    assert other.returncode == 2 and "is not what is there now" in other.stderr
    alien = free(machine, "--plan", "--select", "1")
    assert alien.returncode == 2 and "process 1 holds no GPU that is looked at" in alien.stderr
    assert holder.poll() is None and not machine.attempts(layout.HOST_RUN, "free-gpus")

    done = free(machine, "--confirm", "free rehearsal 1", "--select", str(holder.pid), "--digest", told["digest"])
    assert done.returncode == 0, done
    assert holder.wait(20) == -15
    assert "FREE: 0 MiB on 8/8" in done.stdout and "TERM           one SIGTERM each" in done.stdout
    assert f"{holder.pid} " in done.stdout and "ended by SIGTERM" in done.stdout
    words = [(one["what"], one["reply"], one["phrase"], one["digest"]) for one in machine.audit()]
    assert words == [("free-gpus", reply, "free rehearsal 1", told["digest"]) for reply in (None, words[1][1])] and words[1][1]
    shown = free(machine, "--show", "--json")
    assert shown.returncode == 0 and last(shown)["receipt"]["verified"] is True and last(shown)["simulated"] is True


def test_held_and_baseline_have_their_exit_codes_and_a_baseline_is_accepted_and_not_zero(
    machine: Machine, holder: "subprocess.Popen[bytes]"
) -> None:
    assert free(machine, "--show").returncode == 2, "nothing was freed yet"
    sim_gpus.hold(state(machine), 3, 500, pid=holder.pid)
    held = free(machine, "--confirm", "free rehearsal 0", "--json")
    assert held.returncode == 11 and holder.poll() is None, held
    assert last(held)["receipt"]["gpus"][3]["kind"] == "held" and last(held)["error"]["exit_code"] == 11
    holder.kill()
    holder.wait()
    path = machine.rehearsal_home / "gpus.state"
    text = path.read_text()
    path.write_text("\n".join(_with_base(line, 3) if line.startswith("gpu 7 ") else line for line in text.splitlines()) + "\n")
    run = machine.runs() / "some-run"
    run.mkdir(parents=True)
    idle = free(machine, "--confirm", "free rehearsal 0", "--run", "some-run", "--accept-baseline")
    assert idle.returncode == 10, idle
    assert "baseline accepted for run some-run: 0,0,0,0,0,0,0,3 MiB, no holder; that is not 0" in idle.stdout
    again = free(machine, "--confirm", "free rehearsal 0", "--run", "some-run", "--json")
    assert again.returncode == 10 and last(again)["usable"] is True and last(again)["ok"] is False
    assert last(again)["receipt"]["line"] == "baseline accepted: 0,0,0,0,0,0,0,3 MiB, no holder"
    assert [one["what"] for one in machine.audit() if one["what"] == "baseline-accept"] == ["baseline-accept"] * 2
    status = machine.run("status", "rehearsal", "--run", "some-run").stdout
    assert sum("baseline accepted" in line for line in status.splitlines() if line.split()[:1] == ["7"]) == 1, status
    told = r"free-gpus: ended .* ago \(.*\): baseline accepted: 0,0,0,0,0,0,0,3 MiB, no holder; all of it: \S+ free-gpus rehearsal (.*)"
    command = re.search(told, status)
    assert command and command[1] == "--run some-run --show", status
    assert free(machine, *command[1].split()).returncode == 10, "the command that it tells shows that one"


def test_one_that_waits_is_cancelled_and_says_what_it_had_done(
    machine: Machine, stubborn: "subprocess.Popen[bytes]", begin: Callable[..., Running]
) -> None:
    assert free(machine, "--plan").returncode == 0
    sim_gpus.hold(state(machine), 0, 81_024, pid=stubborn.pid)
    command = last(free(machine, "--plan", "--all", "--json"))["command"]
    running = begin(*shlex.split(command)[1:], "--json")
    running.until(lambda line: line.get("step") == "GRACE")
    cancelled = free(machine, "--cancel")
    assert cancelled.returncode == 1, cancelled
    assert "cancelled in GRACE; 0 services stopped, 1 processes got SIGTERM, 0 SIGKILL" in cancelled.stdout
    code, line = running.end()
    assert code == 1 and line["receipt"]["outcome"] == "cancelled" and stubborn.poll() is None
    assert free(machine, "--cancel").returncode == 2, "nothing runs any more"


def _with_base(line: str, mib: int) -> str:
    return " ".join([*line.split()[:5], str(mib)])


def test_some_gpus_only_and_what_makes_no_sense(machine: Machine) -> None:
    for words, said in (
        (("--plan", "--accept-baseline", "--run", "r"), "--plan has changed nothing"),
        (("--confirm", "x", "--accept-baseline"), "name it with --run"),
        (("--confirm", "free rehearsal 1", "--all"), "--confirm with --all or --select needs --digest PLAN"),
        (("--confirm", "free rehearsal 1", "--select", "1"), "--confirm with --all or --select needs --digest PLAN"),
        (("--show", "--all", "--digest", "d"), "--digest, --all: does nothing with --show"),
        (("--cancel", "--accept-baseline", "--run", "r"), "what is cancelled proves nothing"),
        (("--plan", "--select", "1", "--all"), "not allowed with"),
        ((), "one of the arguments --plan --confirm --show --cancel is required"),
    ):
        refused = free(machine, *words)
        assert refused.returncode == 2 and said in refused.stderr, refused
    two = free(machine, "--plan", "--gpus", "2,5", "--json")
    assert last(two)["plan"]["wanted"] == ["GPU-SIMULATED-0002", "GPU-SIMULATED-0005"], two
    missing = free(machine, "--plan", "--gpus", "8")
    assert missing.returncode == 2 and "--gpus: no GPU 8 on rehearsal" in missing.stderr
    assert rehearsal.ENV_HOME not in machine.environment
