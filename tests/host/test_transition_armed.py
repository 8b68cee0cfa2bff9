"""Armed transitions and transitions through the agent: nobody there, a stop, an end that is not the hoped one, and a kill."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nvml_fakes
import pytest
from agent_client import AgentClient, Start, agents
from freeing_runs import Box
from host_jobs import kill
from host_launches import RUN, Host, find_pythons, mentions, running, wait_for
from transition_runs import CHAIN, Way

from pipeline.contract import layout, telemetry, transition
from pipeline.host import locks, procs, state


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**nvml_fakes.in_c(tmp_path / "gpus.state"), "EAGLEWATCH_DEV": str(tmp_path / "dev")}


@pytest.fixture
def way(
    tmp_path: Path, data_dir: Path, code_dir: Path, host: Host, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Way]:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    box = Box(tmp_path, data_dir, code_dir)
    yield Way(host, box)
    host.clean()
    box.end()


@pytest.fixture
def start(way: Way, code_dir: Path, data_dir: Path, environment: dict[str, str]) -> Iterator[Start]:
    """With the oldest Python of a host: agent, supervisors and the action itself."""
    with agents(find_pythons()[-1], code_dir, data_dir, environment) as one:
        yield one


def plan_of(agent: AgentClient, way: Way, before: str, *stages: str, **fields: Any) -> dict[str, Any]:
    return agent.ask("transition.plan", **way.request(before, *stages, **fields))["plan"]


def launch(agent: AgentClient, plan: dict[str, Any], armed: bool = False, **times: float) -> str:
    """Launch it; the attempt's directory."""
    order = {"plan": plan, "phrase": plan["phrase_armed" if armed else "phrase"], "armed": armed, "times": times}
    attempt = layout.new_attempt_id()
    reply = agent.ask("launch", run=RUN, stage=transition.ACTION, attempt=attempt, by="tester", order=order)
    assert reply["attempt"] == attempt
    return layout.attempt_dir(layout.run_dir(agent.ask("hello")["data_dir"], RUN), transition.ACTION, attempt)


def steps(directory: str) -> list[str]:
    path = Path(directory) / layout.EVENTS
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [one["step"] for one in lines if one["kind"] == "step" and one["begins"]]


def ended(directory: str) -> dict[str, Any]:
    wait_for(lambda: state.view(directory)["state"] not in telemetry.LIVE_STATES, "the end of the transition", 90)
    return state.view(directory)


def armed_and_waiting(way: Way, agent: AgentClient, *stages: str) -> str:
    way.steer("generate.wait")
    way.start("generate")
    way.serve()
    directory = launch(agent, plan_of(agent, way, "generate", *stages), armed=True)
    wait_for(lambda: (state.view(directory)["progress"] or {}).get("phase") == "armed", "the armed phase")
    return directory


def test_armed_it_goes_on_with_nobody_there(way: Way, start: Start) -> None:
    agent = start()
    directory = armed_and_waiting(way, agent, *CHAIN)
    assert way.live("serve") == "RUNNING" and way.live("prepare") == "" and not way.locked()
    assert not locks.is_held(str(way.host.data_dir / layout.FREE_LOCK)), "one that waits holds nothing up"
    agent.close()
    way.unsteer("generate.wait")
    view = ended(directory)
    assert (view["state"], view["why"]) == ("DONE", "")
    assert view["receipt"]["line"] == "extract: 1 new sample; hs_0.safetensors is whole" and view["receipt"]["armed"] is True
    assert way.live("extract") == "RUNNING" and way.live("serve") == "STOPPED"
    assert steps(directory)[:5] == ["CONFIRMED", "ARMED", "OUTPUT", "STAGE", "STAGE"]


def test_a_stage_before_that_fails_disarms_it(way: Way, start: Start) -> None:
    directory = armed_and_waiting(way, start(), *CHAIN)
    way.steer("generate.fail")
    way.unsteer("generate.wait")
    view = ended(directory)
    assert view["state"] == "FAILED" and view["why"].startswith("disarmed: generate is FAILED: ")
    assert (view["receipt"]["outcome"], view["receipt"]["steps"]) == ("disarmed", [])
    assert way.live("serve") == "RUNNING" and way.live("prepare") == ""


def test_a_stop_disarms_it_and_a_second_one_of_the_run_is_refused_while_it_waits(way: Way, start: Start) -> None:
    agent = start()
    directory = armed_and_waiting(way, agent, "prepare")
    second = launch(agent, plan_of(agent, way, "generate", "prepare"), armed=True)
    assert state.view(second)["state"] == "REFUSED" and os.path.basename(directory) in state.view(second)["why"]
    agent.ask("stop", run=RUN, stage=transition.ACTION, attempt=os.path.basename(directory), by="me")
    view = ended(directory)
    told = view["receipt"]
    assert (view["state"], told["outcome"], told["line"]) == ("STOPPED", "disarmed", "disarmed; nothing was done")
    assert way.live("generate") == "RUNNING" and way.live("serve") == "RUNNING"


def test_a_stop_counts_once_it_is_on_disk_also_while_its_supervisor_is_frozen(way: Way, start: Start) -> None:
    agent = start()
    directory = armed_and_waiting(way, agent, "prepare")
    supervisor = json.loads((Path(directory) / layout.SUPERVISOR_LOCK).read_text())["pid"]
    os.kill(supervisor, signal.SIGSTOP)
    try:
        agent.ask("stop", run=RUN, stage=transition.ACTION, attempt=os.path.basename(directory), by="me")
        view = ended(directory)
        assert (view["state"], view["receipt"]["line"]) == ("STOPPED", "disarmed; nothing was done")
    finally:
        os.kill(supervisor, signal.SIGCONT)


def test_another_holder_stops_an_armed_one_with_an_alert_and_the_server_stays(way: Way, start: Start) -> None:
    way.finish("generate", "prepare")
    directory = armed_and_waiting(way, start(), *CHAIN)
    (stranger,) = way.box.hold(gpus="2")
    way.unsteer("generate.wait")
    view = ended(directory)
    assert view["exit"]["code"] == 11 and str(stranger) in view["receipt"]["alert"] and view["receipt"]["stopped_at"] == "HOLDERS"
    assert way.live("serve") == "RUNNING" and way.box.lives(stranger)


@pytest.mark.parametrize("step", ["PREFLIGHT", "FREE"])
def test_a_kill_leaves_a_named_state_and_the_next_one_goes_on(way: Way, start: Start, step: str) -> None:
    agent = start()
    way.finish("generate", "prepare", "vocab")
    way.serve()
    if step == "FREE":
        way.box.order("linger_ms 600000")
    else:
        way.steer("preflight.wait")
    directory = launch(agent, plan_of(agent, way, "vocab", "extract"))
    wait_for(lambda: step in steps(directory), f"step {step}")
    pid = state.view(directory)["pid"]
    kill(pid)
    view = ended(directory)
    assert (view["state"], view["exit"]["signal"]) == ("CRASHED", signal.SIGKILL) and view["progress"]["step"]
    assert way.live("serve") == ("RUNNING" if step == "PREFLIGHT" else "STOPPED") and way.live("extract") == ""
    ours = str(way.host.scratch).encode()
    wait_for(lambda: not [one for one in procs.scan() if mentions(one, ours) and mentions(one, b"preflight")], "the preflight's end")
    if step == "FREE":
        way.box.order("linger_ms 0")
    else:
        way.unsteer("preflight.wait")
    again = ended(launch(agent, plan_of(agent, way, "vocab", "extract")))
    assert again["state"] == "DONE", again["why"]
    assert way.live("extract") == "RUNNING" and len(way.notes("serve got")) == 1


def test_a_supervisor_that_dies_with_it_ends_nothing_that_it_launched(way: Way, start: Start) -> None:
    agent = start()
    way.finish("generate", "prepare", "vocab")
    way.steer("extract.wait")
    directory = launch(agent, plan_of(agent, way, "vocab", "extract"))
    wait_for(lambda: "FIRST_UNIT" in steps(directory), "the launch")
    agent.ask("stop", run=RUN, stage=transition.ACTION, attempt=os.path.basename(directory), by="me")
    view = ended(directory)
    assert view["state"] == "STOPPED" and "extract was launched, and it goes on" in view["receipt"]["line"]
    wait_for(lambda: not locks.is_held(os.path.join(directory, layout.SUPERVISOR_LOCK)), "the end of its supervisor")
    extract = state.current(str(way.run_dir), "extract")
    assert extract and extract["state"] == "RUNNING" and running(extract["pid"])


def test_who_frees_gpus_now_stops_it(way: Way, start: Start) -> None:
    agent = start()
    way.finish("generate", "prepare", "vocab")
    lock = locks.take(str(way.host.data_dir / layout.FREE_LOCK), locks.holder_line("other", "somebody"))
    assert lock is not None
    try:
        view = ended(launch(agent, plan_of(agent, way, "vocab", "extract")))
    finally:
        lock.release()
    assert "being freed already, by attempt other" in view["why"] and view["receipt"]["stopped_at"] == "HOLDERS"


def test_bad_orders_and_requests_are_refused(way: Way, start: Start) -> None:
    agent = start()
    way.finish("generate")
    plan = plan_of(agent, way, "generate", "prepare")
    good = {"plan": plan, "phrase": plan["phrase"], "armed": False}

    def refused(run: str = RUN, **change: Any) -> str:
        request = {"run": run, "stage": transition.ACTION, "attempt": layout.new_attempt_id(), "by": "t"}
        return agent.refused("launch", **request, order={**good, **change})["message"]

    assert refused(phrase="next") == "the phrase is not the one to type, which is: next gpu-box-3 demo prepare"
    assert refused(armed=True) == "the phrase is not the one to type, which is: arm gpu-box-3 demo prepare"
    assert "does not fit its digest" in refused(plan={**plan, "from_attempt": "other"})
    assert "does not fit its digest" in refused(plan={**plan, "stages": [{**plan["stages"][0], "args": ["--limit", "1"]}]})
    assert "not whole" in refused(plan={}) or "run" in refused(plan={})
    assert refused(times={"poll_s": 1}).startswith("times:") and "reason" in refused(override="")
    assert refused("other") == "the plan is of run 'demo', the launch of run 'other'"
    served = plan_of(agent, way, "serve", "prepare")
    assert "never ends verified" in refused(plan=served, phrase=served["phrase_armed"], armed=True)

    def asked(**change: Any) -> str:
        return agent.refused("transition.plan", **{**way.request("generate", "extract"), **change})["message"]

    assert "no stage" in asked(**{"from": "x"}) and "each stage once" in asked(**{"from": "extract"})
    assert "only the last stage" in asked(stages=[way.stage("extract"), way.stage("prepare")])
    assert "catalogued" in asked(stages=[way.stage("train")]) and "expected_gpus" in asked(expected_gpus=0)
    assert "no such file" in asked(stages=[{**way.stage("extract"), "interpreter": "/no/python"}])
    assert asked(service="vllm.service") == "no service 'vllm.service' holds a GPU here; there is: none"
    shutil.rmtree(way.run_dir)
    assert agent.refused("transition.plan", **way.request("generate", "extract"))["kind"] == "missing"
