"""The history of attempts: a line each, once; what comes of damage; and what earlier loads are good for."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from agent_client import AgentClient
from host_launches import RUN, Host, wait_for

from pipeline.contract import layout
from pipeline.host import history

JOB = """
import json, os, time
attempt = os.environ["EAGLEWATCH_ATTEMPT_DIR"]
name = os.path.basename(attempt)
now = time.clock_gettime(7)
value = {"phase": "steady", "unit": "sample", "done": 50, "resumed_done": 10, "tokens": 5000, "resumed_tokens": 1000, "bytes": 7}
value["resumed_bytes"] = 3
value.update(first_tokens=1100, first_boot_s=now - 10, last_boot_s=now)
for path, text in (("progress/0.json", value), ("receipt.json", {"verified": True, "bad": 0, "failed": 3, "attempt": name})):
    with open(os.path.join(attempt, path), "w") as file:
        json.dump(text, file)
for before, phase, seconds in ((None, "loading", 0), ("loading", "steady", 61.5), ("steady", "finishing", 20)):
    with open(os.path.join(attempt, "events.jsonl"), "a") as file:
        file.write(json.dumps({"kind": "phase", "before": before, "phase": phase, "seconds": seconds, "by": "stage"}) + chr(10))
print("Killed", flush=True)
time.sleep(2.2)
"""


def test_an_ended_attempt_is_one_line(host: Host) -> None:
    (host.run_dir / "settings.json").write_text(json.dumps({"model": {"path": "/m"}, "prepare": {"output": "out"}}))
    directory, _ = host.launch(host.program(JOB), stage="prepare")
    (one,) = wait_for(lambda: history.newest(str(host.data_dir)), "the line")
    expected = {
        "run": RUN, "stage": "prepare", "attempt": Path(directory).name, "by": "tester", "outcome": "DONE", "model": "/m",
        "model_fingerprint": None, "load_s": 61.5, "steady_s": 10, "samples": 40, "tokens": 4000, "bytes": 4, "tokens_per_s_steady": 390.0,
        "bad": 0, "failed": 3, "alarms": {"memory": 1}, "retried": False,
    }  # fmt: skip
    assert {name: one[name] for name in expected} == expected and one["took_s"] > 2
    assert not history.append(str(host.data_dir), one) and len(history.newest(str(host.data_dir))) == 1


def write(data_dir: Path, *lines: Any) -> None:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    (data_dir / layout.HISTORY).write_text(text)


def prior(data_dir: Path) -> tuple[float, int]:
    found = history.load_prior(str(data_dir), "extract", "/m")
    assert found is not None
    return found["median_s"], found["count"]


def test_earlier_loads_of_the_same_stage_and_model(data_dir: Path) -> None:
    loads = [{"stage": "extract", "model": "/m", "load_s": seconds} for seconds in (100, 300, 200)]
    others = [
        {"stage": "serve", "model": "/m", "load_s": 9},
        {"stage": "extract", "model": "/n", "load_s": 9},
        {"stage": "extract", "model": "/m"},
    ]
    assert history.load_prior(str(data_dir), "extract", "/m") is None
    write(
        data_dir,
        *loads,
        *others,
        "torn {",
        "[1]",
        {"stage": "extract", "model": "/m", "load_s": "long"},
        '{"stage": "extract", "load_s": NaN}',
    )
    assert prior(data_dir) == (200, 3)
    assert history.load_prior(str(data_dir), "extract", None) is None
    assert history.evidence(str(data_dir), "extract", "/m").startswith(
        "5 earlier here, loaded in 3 min 20 s (median of 3); the newest ended"
    )
    assert history.evidence(str(data_dir), "extract", "/other") == ""
    write(data_dir, *loads[:2])
    assert prior(data_dir) == (200, 2), "read again when it changed"


def test_over_the_wire_newest_first(agent: AgentClient, data_dir: Path, run_dir: Path) -> None:
    assert agent.ask("history", run=None, stage=None, limit=5)["lines"] == []
    write(data_dir, *({"run": "demo" if number % 2 else "other", "stage": "extract", "attempt": str(number)} for number in range(9)), "{")
    assert [one["attempt"] for one in agent.ask("history", run=None, stage="extract", limit=3)["lines"]] == ["8", "7", "6"]
    assert [one["attempt"] for one in agent.ask("history", run="demo", stage=None, limit=50)["lines"]] == ["7", "5", "3", "1"]
    for wrong in ({"limit": 0}, {"limit": True}, {"stage": "none"}, {"stage": []}, {"run": "../x"}):
        assert agent.refused("history", **{"run": None, "stage": None, "limit": 5, **wrong})["kind"] == "usage"


@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_a_history_that_is_no_file_is_none(data_dir: Path, kind: str) -> None:
    path = data_dir / layout.HISTORY
    path.mkdir() if kind == "directory" else os.mkfifo(path)
    assert history.newest(str(data_dir)) == []
