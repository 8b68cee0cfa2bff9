"""The gate: a stage that needs GPUs is launched only once they are verified free, or with a reason that is recorded. SIMULATED GPUs."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nvml_fakes
import pytest
from agent_client import AgentClient, Start, agents
from host_jobs import sleeper
from host_launches import RUN, Host, wait_for

from pipeline.contract import layout
from pipeline.host import gpu_claim, gpu_gate
from pipeline.host.nvml_session import Session
from pipeline.rehearsal import sim_gpus

EIGHT = {"expected_gpus": 8}


@pytest.fixture
def gpus(tmp_path: Path) -> Path:
    return nvml_fakes.create(tmp_path / "gpus.state", linger_ms=0)


@pytest.fixture
def start(code_dir: Path, data_dir: Path, gpus: Path) -> Iterator[Start]:
    with agents(sys.executable, code_dir, data_dir, nvml_fakes.in_python(gpus)) as one:
        yield one


@pytest.fixture
def holder(gpus: Path) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(["sleep", "600"])
    sim_gpus.hold(str(gpus), 5, 4000, pid=process.pid)
    yield process
    process.kill()
    process.wait()


def request(host: Host, **fields: Any) -> dict[str, Any]:
    return host.request(sleeper(host), **{"gpus": EIGHT, **fields})


def spec(host: Host, attempt: str, stage: str = "extract") -> dict[str, Any]:
    return json.loads((host.run_dir / "stages" / stage / attempt / layout.SPEC).read_text())


def claimed(host: Host, stage: str = "extract") -> list[str]:
    return layout.attempts(str(host.run_dir), stage)


def audit(host: Host) -> list[dict[str, Any]]:
    path = host.data_dir / layout.AUDIT
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_free_gpus_are_evidence_in_the_spec_and_the_same_launch_again_is_the_same(start: Start, host: Host) -> None:
    agent = start()
    asked = request(host)
    reply = agent.ask("launch", **asked)
    assert (reply["state"], reply["existing"]) == ("RUNNING", False)
    told = spec(host, asked["attempt"])["gpus"]
    assert (told["free"], told["line"], told["simulated"], told["override"]) == (True, "FREE: 0 MiB on 8/8", True, None)
    again = agent.ask("launch", **asked)
    assert (again["pid"], again["existing"]) == (reply["pid"], True)
    assert len(host.lines("pids")) == 1


def test_the_same_launch_sent_twice_at_once_is_one(start: Start, host: Host) -> None:
    clients, asked = [start(), start()], request(host)
    numbers = [client.send("launch", **asked) for client in clients]
    replies = [client.reply(number) for client, number in zip(clients, numbers, strict=True)]
    assert [reply["state"] for reply in replies] == ["RUNNING"] * 2 and replies[0]["pid"] == replies[1]["pid"]
    assert len(host.lines("pids")) == 1 and claimed(host) == [asked["attempt"]]


def test_what_is_claimed_is_started_though_the_agent_ends_at_that_moment(start: Start, host: Host) -> None:
    agent, asked = start(), request(host)
    agent.send("launch", **asked)
    wait_for(lambda: claimed(host), "the claim")
    agent.close()  # the link is cut: its input ends, and it asks nobody for anything any more
    host.wait_state(str(host.run_dir / "stages" / "extract" / asked["attempt"]), "RUNNING")


def test_two_of_one_stage_at_once_are_one_and_the_other_names_it(start: Start, host: Host) -> None:
    clients, asked = [start(), start()], [request(host), request(host)]
    numbers = [client.send("launch", **one) for client, one in zip(clients, asked, strict=True)]
    replies = [client.reply(number) for client, number in zip(clients, numbers, strict=True)]
    assert sorted(reply["state"] for reply in replies) == ["REFUSED", "RUNNING"]
    (refused,) = [reply for reply in replies if reply["state"] == "REFUSED"]
    assert claimed(host) == [refused["holder"]["attempt"]]


def test_a_holder_is_named_and_nothing_is_claimed(start: Start, host: Host, holder: "subprocess.Popen[bytes]") -> None:
    error = start().refused("launch", **request(host))
    assert error["kind"] == "gpus" and f"held by {holder.pid} sleep 600" in error["message"] and "GPU 5 NOT FREE" in error["message"]
    assert claimed(host) == [] and audit(host) == [] and host.lines("pids") == []


def test_reading_files_again_needs_no_gpu_and_keeps_none(start: Start, host: Host, holder: "subprocess.Popen[bytes]") -> None:
    agent, verify = start(), request(host, args=["--verify"])
    assert agent.ask("launch", **verify)["state"] == "RUNNING" and "gpus" not in spec(host, verify["attempt"])
    what = {"wanted": [], "override": None}
    assert list(gpu_claim.takers(str(host.data_dir), what)) == [], "nor does it stand in the way of one that needs them"
    assert [one["what"] for one in audit(host)] == ["launch"]


def test_an_override_needs_a_reason_and_is_in_the_log_and_the_spec(start: Start, host: Host, holder: "subprocess.Popen[bytes]") -> None:
    agent = start()
    assert "the reason" in agent.refused("launch", **request(host, override=" "))["message"]
    asked = request(host, override="the sleeper is mine")
    assert agent.ask("launch", **asked)["state"] == "RUNNING"
    told = spec(host, asked["attempt"])["gpus"]
    assert (told["free"], told["override"]) == (False, "the sleeper is mine") and str(holder.pid) in told["line"]
    line, launch = audit(host)
    assert (launch["what"], launch["by"], launch["run"], launch["attempt"]) == ("launch", "tester", "demo", asked["attempt"])
    assert (line["what"], line["reason"], line["attempt"]) == ("override", "the sleeper is mine", asked["attempt"])
    assert str(holder.pid) in line["line"]


def test_an_override_that_cannot_be_recorded_is_not_done(start: Start, host: Host, holder: "subprocess.Popen[bytes]") -> None:
    (host.data_dir / layout.AUDIT).mkdir()
    error = start().refused("launch", **request(host, override="because"))
    assert error["kind"] == "failed" and "it is not done" in error["message"] and claimed(host) == []


def test_a_stage_that_starts_has_the_gpus_before_it_has_memory_on_them(start: Start, host: Host) -> None:
    agent = start()
    serve = request(host, stage="serve")
    assert agent.ask("launch", **serve)["state"] == "RUNNING"  # it holds nothing: the GPUs read 0 MiB
    error = agent.refused("launch", **request(host))
    assert error["kind"] == "gpus" and f"serve of run demo is RUNNING (attempt {serve['attempt']}" in error["message"]
    same = agent.ask("launch", **request(host, stage="serve"))
    assert same["state"] == "REFUSED" and same["holder"]["attempt"] == serve["attempt"] and "held by attempt " in same["why"]
    assert claimed(host, "serve") == [serve["attempt"]]
    assert agent.ask("launch", **request(host, stage="generate"))["state"] == "RUNNING"  # through the server


@pytest.mark.parametrize("runs", [(RUN, RUN), (RUN, "other")], ids=["of one run", "of two runs"])
def test_of_two_at_once_only_one_gets_them(runs: tuple[str, str], start: Start, host: Host) -> None:
    if runs[1] != RUN:
        shutil.copytree(host.run_dir, host.run_dir.with_name(runs[1]))
    clients = [start(), start()]
    asked = [request(host, run=run, stage=stage) for run, stage in zip(runs, ("serve", "extract"), strict=True)]
    numbers = [client.send("launch", **one) for client, one in zip(clients, asked, strict=True)]
    replies = [client.reply(number) for client, number in zip(clients, numbers, strict=True)]
    assert sorted(reply["ok"] for reply in replies) == [False, True]
    (refused,) = [reply["error"] for reply in replies if not reply["ok"]]
    assert refused["kind"] == "gpus" and "needs its GPUs for itself" in refused["message"]
    claims = [
        layout.attempts(layout.run_dir(str(host.data_dir), run), stage) for run, stage in zip(runs, ("serve", "extract"), strict=True)
    ]
    assert sorted(map(len, claims)) == [0, 1]


def test_which_gpus_must_be_said_and_none_at_all_is_said_too(start: Start, host: Host) -> None:
    agent = start()
    asked = request(host)
    del asked["gpus"]
    assert "say which" in agent.refused("launch", **asked)["message"]
    for gpus in ({"expected_gpus": -1}, {"expected_gpus": False}, {"expected_gpus": 8, "wanted": ["0"]}, "all"):
        assert agent.refused("launch", **{**asked, "gpus": gpus})["kind"] == "usage"
    refused = agent.refused("launch", **{**asked, "gpus": {"expected_gpus": 0}})
    assert refused["kind"] == "gpus" and "this host has 8 GPUs, and none are expected" in refused["message"] and not claimed(host)
    assert agent.ask("launch", **{**asked, "gpus": {"expected_gpus": 0}, "override": "so be it"})["state"] == "RUNNING"
    assert spec(host, asked["attempt"])["gpus"]["override"] == audit(host)[-2]["reason"] == "so be it"
    other = agent.refused("launch", **{**asked, "gpus": EIGHT, "stage": "serve", "attempt": layout.new_attempt_id()})
    assert "extract of run demo is RUNNING" in other["message"], "it may have the GPUs all the same"


def test_a_host_without_gpus_is_recorded_as_unverified(code_dir: Path, data_dir: Path, host: Host) -> None:
    with agents(sys.executable, code_dir, data_dir, {}) as start:
        asked = request(host, gpus={"expected_gpus": 0})
        assert start().ask("launch", **asked)["state"] == "RUNNING"
    told = spec(host, asked["attempt"])["gpus"]
    assert (told["free"], told["line"]) == (None, "no GPUs are expected on this host: nothing was verified")
    assert [(one["what"], one["stage"], one["by"]) for one in audit(host)] == [
        ("no GPUs expected", "extract", "tester"), ("launch", "extract", "tester"),
    ]  # fmt: skip


def test_a_stage_that_is_given_some_gpus_sees_those_and_no_others(start: Start, host: Host) -> None:
    agent, some = start(), ["GPU-SIMULATED-0002", "GPU-SIMULATED-0005"]
    asked = request(host, gpus={**EIGHT, "wanted": some}, env={"CUDA_VISIBLE_DEVICES": "0"})
    assert "other GPUs are wanted" in agent.refused("launch", **asked)["message"] and not claimed(host)
    asked = {**asked, "env": {"A": "b"}}
    assert agent.ask("launch", **asked)["state"] == "RUNNING"
    told = spec(host, asked["attempt"])
    assert told["env"] == {"A": "b", "CUDA_VISIBLE_DEVICES": ",".join(some)} and told["gpus"]["line"] == "FREE: 0 MiB on 2/2"
    assert agent.ask("launch", **asked)["existing"] is True


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"expected_gpus": 9}, "CANNOT TELL: 8 GPUs instead of 9"),
        (
            {"gpu_uuids": [f"GPU-SIMULATED-{index:04d}" for index in range(1, 9)]},
            "CANNOT TELL: not the expected GPUs; missing: GPU-SIMULATED-0008",
        ),
        ({"wanted": ["GPU-else"]}, "CANNOT TELL: no GPU GPU-else here"),
    ],
)
def test_other_gpus_than_the_expected_are_told_at_the_first_reading(
    asked: dict[str, Any], says: str, host: Host, code_dir: Path, gpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in nvml_fakes.in_python(gpus).items():
        monkeypatch.setenv(name, value)
    nvml = Session(str(host.data_dir), code_dir=str(code_dir))
    what = {"run": RUN, "expected_gpus": 8, "gpu_uuids": [], "wanted": [], "override": None, **asked}
    try:
        evidence = gpu_gate.verify(nvml, str(host.data_dir), what, interval_s=60.0)
    finally:
        nvml.close()
    assert (evidence["free"], evidence["line"], evidence["verdict"]) == (False, says, "CANNOT TELL")
    assert evidence["took_s"] < 60.0, "no second reading"


def test_memory_that_is_being_released_is_waited_for(host: Host, code_dir: Path, gpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in nvml_fakes.in_python(gpus).items():
        monkeypatch.setenv(name, value)
    sim_gpus.set_linger(str(gpus), 1500)
    nvml = Session(str(host.data_dir), code_dir=str(code_dir))
    process = subprocess.Popen(["sleep", "600"])
    try:
        sim_gpus.hold(str(gpus), 5, 4000, pid=process.pid)
        assert nvml.read()[0], "the driver's first answer takes time"
        process.kill()
        process.wait()
        wait_for(lambda: not (nvml.read()[0] or {})["gpus"][5]["procs"], "the driver to forget it")
        what = {"run": RUN, "expected_gpus": 8, "gpu_uuids": [], "wanted": [], "override": None}
        evidence = gpu_gate.verify(nvml, str(host.data_dir), what, interval_s=0.5)
    finally:
        process.kill()
        process.wait()
        nvml.close()
    assert (evidence["free"], evidence["line"]) == (True, "FREE: 0 MiB on 8/8")


def test_the_agent_answers_others_meanwhile(start: Start, host: Host) -> None:
    agent: AgentClient = start()
    number = agent.send("launch", **request(host))
    assert agent.ask("ping")["boot_s"] and claimed(host) == []
    assert agent.reply(number)["ok"] is True
    assert wait_for(lambda: agent.ask("runs")["runs"][0]["name"]) == RUN
