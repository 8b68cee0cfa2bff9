"""Freeing GPUs through the agent: plan, launch as an attempt, what outlives the agent, and the idle baseline. SIMULATED GPUs."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nvml_fakes
import pytest
from agent_client import AgentClient, Start, agents
from host_launches import RUN, running, wait_for

from pipeline.contract import free, layout, telemetry
from pipeline.contract.files import read_json
from pipeline.host import procs, state
from pipeline.rehearsal import sim_gpus

LABEL = "root@gpu-box-3"


@pytest.fixture
def gpus(tmp_path: Path) -> Path:
    return nvml_fakes.create(tmp_path / "gpus.state", linger_ms=300)


@pytest.fixture
def start(code_dir: Path, data_dir: Path, gpus: Path) -> Iterator[Start]:
    with agents(sys.executable, code_dir, data_dir, nvml_fakes.in_python(gpus)) as one:
        yield one


@pytest.fixture
def holder(gpus: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that ignores SIGTERM and holds GPU 0 and 1."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    for gpu in (0, 1):
        sim_gpus.hold(str(gpus), gpu, 82611, pid=process.pid)
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def plan_of(agent: AgentClient, run: str | None = None, **fields: Any) -> dict[str, Any]:
    return agent.ask("free.plan", **{"label": LABEL, "run": run, "expected_gpus": 8, **fields})["plan"]


def order_of(plan: dict[str, Any], **times: float) -> dict[str, Any]:
    selection = free.killable(plan["rows"])
    return {"plan": plan, "selection": selection, "phrase": free.phrase(LABEL, free.select(plan["rows"], selection)), "times": times}


def launch(
    agent: AgentClient, order: dict[str, Any], run: str = layout.HOST_RUN, attempt: str | None = None, **fields: Any
) -> dict[str, Any]:
    attempt = attempt or layout.new_attempt_id()
    return agent.ask("launch", **{"run": run, "stage": free.ACTION, "attempt": attempt, "by": "tester", "order": order, **fields})


def where(data_dir: Path, attempt: str, run: str = layout.HOST_RUN) -> str:
    return layout.attempt_dir(layout.run_dir(str(data_dir), run), free.ACTION, attempt)


def ended(directory: str) -> dict[str, Any]:
    def over() -> dict[str, Any] | None:
        view = state.view(directory)
        return None if view["state"] in telemetry.LIVE_STATES else view

    return wait_for(over, "the end of the action", 60)


def test_plan_launch_and_receipt(python: str, code_dir: Path, data_dir: Path, gpus: Path, holder: "subprocess.Popen[bytes]") -> None:
    with agents(python, code_dir, data_dir, nvml_fakes.in_python(gpus)) as start:
        _plan_launch_and_receipt(start, data_dir, holder)


def _plan_launch_and_receipt(start: Start, data_dir: Path, holder: "subprocess.Popen[bytes]") -> None:
    agent = start()
    plan = plan_of(agent)
    (row,) = plan["rows"]
    assert (row["pid"], row["evidence"], row["killable"]) == (holder.pid, ["NVML C", "simulated"], True)
    assert plan["simulated"] is True and plan["complete"] is True and plan["digest"] == plan_of(agent)["digest"]
    reply = launch(agent, order_of(plan, grace_s=1))
    again = launch(agent, order_of(plan, grace_s=1), attempt=reply["attempt"])
    assert (reply["existing"], again["existing"]) == (False, True), "a launch that is asked for again is the same launch"
    changed = {"run": layout.HOST_RUN, "stage": free.ACTION, "attempt": reply["attempt"], "by": "t", "order": order_of(plan, grace_s=2)}
    assert agent.refused("launch", **changed)["kind"] == "usage", "the same attempt with another order is no launch of it"
    directory = where(data_dir, reply["attempt"])
    agent.kill()  # console and link are gone in the middle
    view = ended(directory)
    assert (view["state"], view["exit"]["code"], view["receipt"]["line"]) == ("DONE", 0, "FREE: 0 MiB on 8/8")
    assert view["receipt"]["processes"][0]["ended"] == "SIGKILL" and holder.wait(20) == -9
    assert view["receipt"]["took_s"] > 4 and len(view["receipt"]["readings"]) == 5
    lines = [json.loads(line) for line in (data_dir / "audit.jsonl").read_text().splitlines()]
    assert [line["what"] for line in lines] == ["free-gpus", "free-gpus result"]
    assert lines[0]["phrase"] == f"free {LABEL} 1" and lines[0]["by"] == "tester" and lines[1]["exit_code"] == 0
    other = start()
    assert other.ask("read", run=layout.HOST_RUN, what="receipt", stage=free.ACTION, attempt=None)["value"]["verified"] is True
    assert other.ask("runs")["runs"] == [], "the host's own actions are no run"
    found = read_json(str(data_dir / layout.BASELINE)) or {}
    assert {one["bytes"] for one in found["gpus"].values()} == {0}


def in_its_grace(agent: AgentClient, data_dir: Path) -> tuple[dict[str, Any], str]:
    """(the reply, the attempt's directory) of an action that waits for the process that it has sent SIGTERM to."""
    reply = launch(agent, order_of(plan_of(agent, RUN)), RUN)
    directory = where(data_dir, reply["attempt"], RUN)
    wait_for(lambda: (read_json(layout.progress_file(directory, 0)) or {}).get("step") == "GRACE", "the grace", 60)
    return reply, directory


@pytest.mark.parametrize("frozen", [False, True], ids=["", "its supervisor is frozen"])
def test_a_stop_cancels_it_and_a_second_one_is_refused_meanwhile(
    frozen: bool, start: Start, data_dir: Path, run_dir: Path, holder: "subprocess.Popen[bytes]"
) -> None:
    agent = start()
    reply, directory = in_its_grace(agent, data_dir)
    progress = read_json(layout.progress_file(directory, 0)) or {}
    assert progress["deadline_boot_s"] > progress["boot_s"] and progress["live"] == 1
    second = launch(agent, order_of(plan_of(agent)))
    assert second["state"] == "REFUSED" and second["holder"]["attempt"] == reply["attempt"], second
    supervisor = (read_json(os.path.join(directory, layout.SUPERVISOR_LOCK)) or {})["pid"]
    os.kill(supervisor, signal.SIGSTOP if frozen else signal.SIGCONT)
    agent.ask("stop", run=RUN, stage=free.ACTION, attempt=reply["attempt"], by="tester")
    view = ended(directory)
    os.kill(supervisor, signal.SIGCONT)
    assert view["state"] == "STOPPED" and view["receipt"]["outcome"] == "cancelled" and running(holder.pid)
    assert view["receipt"]["line"] == "cancelled in GRACE; 0 services stopped, 1 processes got SIGTERM, 0 SIGKILL"
    assert view["receipt"]["verdict"] == "NOT FREE", view["receipt"]


def test_an_action_that_is_killed_leaves_its_steps_and_no_lock(
    start: Start, data_dir: Path, run_dir: Path, holder: "subprocess.Popen[bytes]"
) -> None:
    agent = start()
    reply, directory = in_its_grace(agent, data_dir)
    os.kill(reply["pid"], 9)
    view = ended(directory)
    assert view["state"] == "CRASHED" and running(holder.pid)
    steps = [(one["step"], one["begins"]) for one in view["events"] if one["kind"] == "step"]
    assert steps[-3:] == [("TERM", True), ("TERM", False), ("GRACE", True)]
    again = ended(where(data_dir, launch(agent, order_of(plan_of(agent, RUN), grace_s=0), RUN)["attempt"], RUN))
    assert (again["state"], again["why"]) == ("DONE", "")


def test_orders_that_are_not_what_was_shown(start: Start, holder: "subprocess.Popen[bytes]") -> None:
    agent = start()
    plan = plan_of(agent)
    good = order_of(plan)

    def refused(**change: Any) -> str:
        request = {"run": layout.HOST_RUN, "stage": free.ACTION, "attempt": layout.new_attempt_id(), "by": "t"}
        return agent.refused("launch", **request, order={**good, **change})["message"]

    assert refused(phrase="free 1") == f"the phrase is not the one to type, which is: free {LABEL} 1"
    assert "does not fit its digest" in refused(plan={**plan, "digest": "0" * 16})
    assert "does not fit its digest" in refused(plan={**plan, "rows": []})
    assert refused(selection=[[1, 1]]) == "process 1 cannot be selected: is not in the plan"
    assert "each once" in refused(selection=good["selection"] * 2)
    assert refused(plan=None).startswith("free-gpus takes `order`") and "not whole" in refused(plan={**plan, "rows": 3})
    assert refused(times={"grace_s": -1}).startswith("times:") and refused(times={"interval_s": 0}).startswith("times:")
    other = agent.refused("launch", run=RUN, stage=free.ACTION, attempt=layout.new_attempt_id(), by="t", order=good)
    assert other["message"] == f"the plan is of run None, the launch of run {RUN!r}"
    for fields in ({"expected_gpus": 0}, {"expected_gpus": 8, "label": "two words"}, {"expected_gpus": 8, "wanted": ["0"]}):
        assert agent.refused("free.plan", **fields)["kind"] == "usage"
    assert agent.refused("put-settings", run=layout.HOST_RUN, toml="", resolved={})["kind"] == "usage"


def test_our_own_attempt_is_stopped_by_its_supervisor(start: Start, data_dir: Path, run_dir: Path, gpus: Path, tmp_path: Path) -> None:
    agent = start()
    job = tmp_path / "interpreter"
    job.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
    job.chmod(0o755)
    attempt = layout.new_attempt_id()
    fields = {"stage": "serve", "attempt": attempt, "interpreter": str(job), "gpus": {"expected_gpus": 8}}
    reply = agent.ask("launch", run=RUN, by="t", args=[], env={}, **fields)
    sim_gpus.hold(str(gpus), 3, 700, pid=reply["pid"])
    plan = plan_of(agent, RUN)
    (row,) = plan["rows"]
    assert row["chosen"] and row["relation"] == "ours, this run" and row["manager"]["how"] == "attempt"
    assert plan["phrase"] == plan["phrase_all"] == f"free {LABEL} 1 {RUN}/serve"
    done = launch(agent, order_of(plan), RUN)
    view = ended(where(data_dir, done["attempt"], RUN))
    assert view["state"] == "DONE", view["why"]
    serve = state.view(layout.attempt_dir(str(run_dir), "serve", attempt))
    assert serve["state"] == "STOPPED" and serve["why"].startswith("stopped by tester")
    assert view["receipt"]["stopped"][0]["ok"] and view["receipt"]["processes"][0]["ended"] == "with its service"


def test_an_idle_baseline_is_recorded_accepted_and_never_called_zero(start: Start, data_dir: Path, run_dir: Path, gpus: Path) -> None:
    text = gpus.read_text()
    for index, mib in enumerate((0, 0, 0, 1, 1, 1, 3, 3)):
        text = text.replace(
            f"gpu {index} GPU-SIMULATED-{index:04d} 97253 600 0\n", f"gpu {index} GPU-SIMULATED-{index:04d} 97253 600 {mib}\n"
        )
    gpus.write_text(text)
    agent = start()
    agent.ask("watch", run=None, interval_s=0.2)  # its NVML process gives way while ours is closed, and comes back
    agent.frame_where(lambda frame: frame["nvml"]["state"] == "ok")
    first = ended(where(data_dir, launch(agent, order_of(plan_of(agent, RUN), release_s=0.5), RUN)["attempt"], RUN))
    assert (first["state"], first["exit"]["code"]) == ("FAILED", 10)
    line = first["receipt"]["line"]
    assert line.startswith("NOT FREE: no holders; not 0 MiB; GPU 0-2 FREE: 0 MiB; GPU 3-5 NOT FREE: idle baseline 1 MiB")
    assert first["why"] == line and not first["receipt"]["usable"]
    recorded = (read_json(str(data_dir / layout.BASELINE)) or {})["gpus"]
    shown = {uuid: one["bytes"] for uuid, one in recorded.items()}
    assert [size >> 20 for _, size in sorted(shown.items())] == [0, 0, 0, 1, 1, 1, 3, 3]
    assert all(one["ours_closed"] and one["reopened_bytes"] == one["bytes"] for one in recorded.values())
    assert agent.refused("baseline.accept", run=RUN, by="t", gpus={**shown, "GPU-SIMULATED-0007": 7})["kind"] == "usage"
    assert agent.refused("baseline.accept", run="other", by="t", gpus=shown)["kind"] == "missing"
    path = data_dir / layout.BASELINE
    recorded = path.read_text()
    path.write_text(recorded.replace(procs.this_boot(), "a-boot-before"))
    assert agent.refused("baseline.accept", run=RUN, by="t", gpus=shown)["kind"] == "missing", "recorded before the host was restarted"
    path.write_text(recorded)
    assert agent.ask("baseline.accept", run=RUN, by="t", gpus=shown)["accepted"] == shown
    second = ended(where(data_dir, launch(agent, order_of(plan_of(agent, RUN)), RUN)["attempt"], RUN))
    assert second["exit"]["code"] == 10 and second["receipt"]["usable"] is True and second["receipt"]["verified"] is False
    assert second["receipt"]["line"] == "baseline accepted: 0,0,0,1,1,1,3,3 MiB, no holder"
    assert second["receipt"]["seconds"]["WAIT_RELEASE"] < 3, "what is known to stay is not waited for"
    agent.frame_where(lambda frame: frame["nvml"]["state"] == "ok" and frame["boot_s"] - frame["nvml"]["boot_s"] < 3)


def test_nothing_of_it_is_left_running(start: Start, data_dir: Path) -> None:
    agent = start()
    view = ended(where(data_dir, launch(agent, order_of(plan_of(agent)))["attempt"]))
    assert view["state"] == "DONE"
    marker = str(data_dir).encode()

    def left() -> list[int]:
        pids = [pid for pid in procs.scan() if pid not in procs.descendants([agent.pid]) | {agent.pid, os.getpid()}]
        return [pid for pid in pids if marker in _command(pid)]

    wait_for(lambda: not left(), "the end of supervisor and shim")


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
