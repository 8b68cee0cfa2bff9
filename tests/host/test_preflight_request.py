"""The preflight through the agent: the code as it is shipped, a stage's own command, SIMULATED GPUs."""

import io
import json
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nvml_fakes
import pytest
from agent_client import AgentClient, Start, agents
from host_launches import RUN

from console.remote.deploy import bundle
from pipeline.contract import layout
from pipeline.host import baseline
from pipeline.rehearsal import sim_gpus
from tests.fakes.serve_runs import write_model, write_run


@pytest.fixture
def shipped(data_dir: Path) -> Path:
    """The code as the bootstrap leaves it."""
    path = Path(layout.code_dir(str(data_dir), bundle().code))
    with zipfile.ZipFile(io.BytesIO(bundle().data)) as archive:
        archive.extractall(path)
    (path / ".complete").touch()
    return path


@pytest.fixture
def gpus(tmp_path: Path) -> Path:
    return nvml_fakes.create(tmp_path / "gpus.state", linger_ms=0)


@pytest.fixture
def run_of_serve(data_dir: Path, tmp_path: Path) -> Path:
    """A run whose server is the small one of the tests."""
    run = Path(layout.run_dir(str(data_dir), RUN))
    write_run(run, write_model(tmp_path / "model"))
    (run / "settings.json").write_text("{}")
    return run


@pytest.fixture
def start(shipped: Path, data_dir: Path, gpus: Path) -> Iterator[Start]:
    with agents(sys.executable, shipped, data_dir, nvml_fakes.in_python(gpus)) as one:
        yield one


def ask(agent: AgentClient, **fields: Any) -> tuple[dict[str, dict[str, Any]], bool | None]:
    """({check: line}, ok)."""
    request = {"run": RUN, "stage": "serve", "interpreter": sys.executable, "expected_gpus": 8, **fields}
    reply = agent.ask("preflight", **request)
    assert all(set(line) - {"baseline"} == {"check", "ok", "evidence", "what_to_do", "gpu"} for line in reply["lines"])
    return {line["check"]: line for line in reply["lines"]}, reply["verdict"]


def test_every_line_has_its_evidence_and_a_changed_file_is_found(start: Start, shipped: Path, run_of_serve: Path, gpus: Path) -> None:
    agent = start()
    (run_of_serve / "settings.json").write_text('{"model": {"path": "/m"}}')
    earlier = {"stage": "serve", "model": "/m", "load_s": 1471, "outcome": "STOPPED"}
    (run_of_serve.parent.parent / "history.jsonl").write_text(json.dumps(earlier) + "\n")
    lines, ok = ask(agent, part="no-gpu")
    assert lines["history"]["evidence"] == "1 earlier here, loaded in 24 min 31 s (median of 1); the newest ended STOPPED"
    assert not any(line["gpu"] for line in lines.values())
    assert lines["code"]["ok"] is True and lines["code"]["evidence"].startswith(bundle().code)
    assert "names, headers and sizes as the index says" in lines["model"]["evidence"]
    assert {name for name, line in lines.items() if line["ok"] is not True} == set() and ok is True, lines
    with (shipped / "pipeline" / "sizes.py").open("a") as file:
        file.write("# an edit in place\n")
    (run_of_serve.parent.parent.parent / "model" / "model.safetensors").write_bytes(b"short")
    holder = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        sim_gpus.hold(str(gpus), 0, 81024, pid=holder.pid)
        lines, ok = ask(agent)
    finally:
        holder.communicate()
    assert ok is False, lines
    assert lines["code"]["ok"] is False and "is not what was shipped" in lines["code"]["evidence"]
    assert lines["model"]["ok"] is False and "model.safetensors" in lines["model"]["evidence"]
    assert lines["length"]["ok"] is None and lines["length"]["evidence"].startswith("not looked at")
    assert lines["GPUs expected"]["ok"] is True and lines["GPUs free"]["ok"] is False
    assert f"81024 MiB; held by {holder.pid}" in lines["GPUs free"]["evidence"] and lines["GPUs free"]["gpu"] is True
    assert "free-gpus" in lines["GPUs free"]["what_to_do"]


def test_an_idle_baseline_is_shown_and_counts_once_it_is_accepted(start: Start, data_dir: Path, run_of_serve: Path, gpus: Path) -> None:
    agent = start()
    text = gpus.read_text()
    gpus.write_text(text.replace("gpu 6 GPU-SIMULATED-0006 97253 600 0\n", "gpu 6 GPU-SIMULATED-0006 97253 600 3\n"))
    lines, ok = ask(agent, part="gpu-only")
    assert all(line["gpu"] for line in lines.values()) and ok is False
    assert lines["idle baseline"]["ok"] is False and "no baseline was recorded since this boot" in lines["idle baseline"]["evidence"]
    driver = agent.ask("free.plan", label="h", run=RUN, expected_gpus=8)["plan"]["driver"]
    known = {f"GPU-SIMULATED-000{index}": (3 << 20 if index == 6 else 0) for index in range(8)}
    baseline.record(str(data_dir), [{"uuid": uuid, "used_bytes": [size]} for uuid, size in known.items()], driver, "a", {}, True)
    lines, ok = ask(agent, part="gpu-only")
    assert ok is False and lines["idle baseline"]["baseline"] == {"needed": True, "recorded": known, "accepted": {}, "unprovable": ""}
    assert "0,0,0,0,0,0,3,0 MiB" in lines["idle baseline"]["evidence"] and "--accept-baseline" in lines["idle baseline"]["what_to_do"]
    agent.ask("baseline.accept", run=RUN, by="t", gpus=known)
    lines, _ = ask(agent, part="gpu-only")
    assert lines["GPUs free"]["ok"] is True and "baseline accepted: 0,0,0,0,0,0,3,0 MiB, no holder" in lines["GPUs free"]["evidence"]
    assert lines["idle baseline"]["ok"] is True


def test_what_cannot_be_asked_and_what_takes_too_long(
    python: str, shipped: Path, data_dir: Path, run_of_serve: Path, tmp_path: Path
) -> None:
    with agents(python, shipped, data_dir, {}) as start:
        _cannot_be_asked(start(), run_of_serve, tmp_path)


def _cannot_be_asked(agent: AgentClient, run_of_serve: Path, tmp_path: Path) -> None:
    good = {"run": RUN, "stage": "serve", "interpreter": sys.executable, "expected_gpus": 8}
    assert "no stage 'train' here" in agent.refused("preflight", **{**good, "stage": "train"})["message"]
    assert agent.refused("preflight", **{**good, "run": "other"})["kind"] == "missing"
    assert agent.refused("preflight", **{**good, "interpreter": "/nowhere"})["kind"] == "usage"
    assert agent.refused("preflight", **good, part="some")["kind"] == "usage"
    assert agent.refused("preflight", **good, timeout_s=0)["kind"] == "usage"
    slow = tmp_path / "slow"
    slow.write_text('#!/bin/sh\necho \'{"check": "first", "ok": true, "evidence": "e", "what_to_do": "", "gpu": false}\'\nexec sleep 600\n')
    slow.chmod(0o755)
    began = time.monotonic()
    reply = agent.ask("preflight", **{**good, "interpreter": str(slow)}, timeout_s=1)
    assert reply["verdict"] is None and [line["check"] for line in reply["lines"]] == ["first", "all checks"]
    assert "not done after 1 s; the last check it told was 'first'" in reply["lines"][1]["evidence"] and time.monotonic() - began < 60
    slow.write_text(slow.read_text().replace("exec sleep 600", "echo KeyError >&2; exit $CODE"))
    for code in (0, 1, 3):  # a crash after the first line, or an end that some library makes
        slow.write_text(slow.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\nCODE={code}\n"))
        reply = agent.ask("preflight", **{**good, "interpreter": str(slow)})
        assert reply["verdict"] is None and [line["check"] for line in reply["lines"]] == ["first", "all checks"]
        assert f"it ended early (exit code {code}); the last check it told was 'first'" in reply["lines"][1]["evidence"]
        slow.write_text(slow.read_text().replace(f"CODE={code}\n", ""))
    assert agent.refused("preflight", **{**good, "part": []})["kind"] == "usage"
    (run_of_serve / "settings.toml").write_text("[model]\npath = 3\n")
    assert "settings.toml: model.path" in agent.refused("preflight", **good)["message"]
    assert json.loads((run_of_serve / "settings.json").read_text()) == {}
