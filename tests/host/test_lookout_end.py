"""What a lookout tells once its attempt has ended: a transition that stopped, and nothing of one that somebody called off."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from host_launches import RUN, Host

from pipeline.contract import layout, transition
from pipeline.host import alerts, history, procs
from pipeline.host.lookout_end import End
from pipeline.host.lookout_stalled import Stalled

SEEN = {"alarms": {}, "gaps": None, "grew": True, "free_bytes": None, "memory_share": 0.5, "stalled_s": None, "stalled_steady_s": None}


def ended(host: Host, stage: str, receipt: dict[str, Any] | None, code: int, **fields: Any) -> str:
    directory = layout.attempt_dir(str(host.run_dir), stage, "20260101-000000-00000000000a")
    os.makedirs(os.path.join(directory, "progress"))
    base = {"stage": stage, "attempt": os.path.basename(directory), "by": "me", "boot_id": procs.this_boot(), "boot_s": 1.0, "wall_s": 1.0}
    files = {layout.SPEC: base, layout.IDENT: {**procs.identity(1), **base}, layout.EXIT: {**base, "code": code, "signal": None, **fields}}
    if receipt is not None:
        files[layout.RECEIPT] = {**receipt, "attempt": base["attempt"]}
    for name, value in files.items():
        Path(directory, name).write_text(json.dumps(value))
    return directory


def told(host: Host, directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """(what, line) of the alerts that a command got."""
    out = tmp_path / "told"
    command = host.program(f"import sys\nopen({str(out)!r}, 'a').write(sys.stdin.read() + chr(10))", "tell")
    (host.run_dir / "settings.json").write_text(json.dumps({"model": {"path": "/m"}, "alerts": {"command": [command]}}))
    spec = json.loads(Path(directory, layout.SPEC).read_text())
    monkeypatch.setattr("pipeline.host.spawn.code_root", lambda: str(host.code_dir))
    mine = alerts.Alerts(directory, RUN, spec["stage"], str(host.code_dir))
    End(directory, RUN, spec, {}, mine, {**SEEN, "loaded_gpu_mib": None}).finish()
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    return [(one["what"], one["line"]) for one in lines]


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("stopped", [("transition", "FAILED: stopped at FREE: held")]),
        ("broken", [("transition", "FAILED: stopped at FREE: held")]),
        ("disarmed", []),
        ("cancelled", []),
    ],
)
def test_a_transition_that_stopped(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: str, expected: list[tuple[str, str]]
) -> None:
    directory = ended(host, transition.ACTION, {"outcome": outcome, "line": "stopped at FREE: held", "verified": False}, 1)
    assert told(host, directory, tmp_path, monkeypatch) == expected
    assert history.newest(str(host.data_dir)) == [], "the history is of stages"


def test_an_end_with_its_numbers_and_what_was_only_wrongly_asked_for(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = ended(host, "prepare", {"verified": True, "bad": 0}, 0)
    Path(layout.progress_file(done, 0)).write_text('{"done": 10000, "unit": "sample"}')
    assert told(host, done, tmp_path, monkeypatch) == [("finish", "DONE: 10,000 samples, 0 bad")]
    (tmp_path / "told").unlink()
    usage = ended(host, "vocab", None, 2)
    assert told(host, usage, tmp_path, monkeypatch) == []
    assert [one["stage"] for one in history.newest(str(host.data_dir))] == ["prepare"]


def recorded(host: Host, progress: dict[str, Any], looks: list[tuple[float, bool, int, float]], **receipt: Any) -> dict[str, Any]:
    """The line of an attempt that was steady from 100 s on and ended at 500 s; ``looks``: (when, red, done, last_boot_s)."""
    directory = ended(host, "extract", receipt or None, 1)
    Path(layout.progress_file(directory, 0)).write_text(json.dumps(progress))
    Path(directory, layout.EVENTS).write_text(json.dumps({"kind": "phase", "before": "loading", "phase": "steady", "boot_s": 100.0}) + "\n")
    stalled = Stalled(None)
    for now, red, done, last_s in looks:
        stalled.look(now, red, {"phase": "steady", "done": done, "last_boot_s": last_s})
        stalled = Stalled(json.loads(json.dumps(stalled.state))) if now == 110.0 else stalled  # another lookout goes on
    spec = json.loads(Path(directory, layout.SPEC).read_text())
    seen = {**SEEN, **stalled.end(looks[-1][0] + 5 if looks else 500.0, progress)}
    End(directory, RUN, spec, {}, alerts.Alerts(directory, RUN, "extract", str(host.code_dir)), seen).finish()
    (line,) = history.newest(str(host.data_dir))
    return line


def test_the_rate_of_an_attempt_that_hung_at_its_end_is_of_the_seconds_beside_it(host: Host) -> None:
    progress = {"phase": "steady", "phase_boot_s": 100.0, "done": 101, "tokens": 63_690, "bytes": 98_400_000, "first_boot_s": 101.0}
    progress.update(first_done=1, first_tokens=600, last_boot_s=130.0, resumed_done=0, resumed_tokens=0, resumed_bytes=0)
    looks = [(110.0, False, 40, 109.0), *((now, now >= 150.0, 101, 130.0) for now in range(140, 330, 5))]
    line = recorded(host, progress, looks)
    assert (line["steady_s"], line["tokens_per_s_steady"], line["stalled_s"]) == (30.0, 2123.0, 180)
    assert line["tokens_per_s_working"] == 2123.0, "it stood still after its last unit"
    assert (line["samples"], line["tokens"], line["bytes"]) == (101, 63_690, 98_400_000)


def test_a_resumed_attempt_is_told_without_what_was_there_and_its_standstill_apart(host: Host) -> None:
    progress = {"phase": "finishing", "done": 240, "tokens": 134_092, "bytes": 207_000_000, "first_boot_s": 101.0, "last_boot_s": 260.0}
    progress.update(first_done=102, first_tokens=64_000, resumed_done=101, resumed_tokens=63_690, resumed_bytes=98_400_000)
    looks = [(110.0, False, 150, 109.0), *((float(now), True, 150, 109.0) for now in range(115, 250, 5)), (251.0, False, 160, 250.0)]
    line = recorded(host, progress, looks)
    assert (line["samples"], line["tokens"], line["bytes"], line["stalled_s"]) == (139, 70_402, 108_600_000, 135)
    assert (line["steady_s"], line["tokens_per_s_steady"]) == (160.0, 440.01), "pauses and standstills in"
    assert line["tokens_per_s_working"] == 2816.08, "what the next one is expected by"
    Path(host.data_dir, layout.HISTORY).write_text(json.dumps({**line, "model": "/m", "load_s": 9.0}) + "\n")
    prior = history.load_prior(str(host.data_dir), "extract", "/m")
    assert prior is not None and prior["tokens_per_s"] == 2816.08


def test_a_receipts_rate_has_the_receipts_span_and_what_nobody_knows_is_null(host: Host) -> None:
    progress = {"phase": "finishing", "done": 50, "tokens": 5000, "bytes": 7, "first_boot_s": 101.0, "last_boot_s": 150.5}
    progress.update(first_done=11, first_tokens=1100, resumed_done=10, resumed_tokens=1000)
    line = recorded(host, progress, [], verified=True, bad=0, tokens_per_s_steady=80.0)
    assert (line["steady_s"], line["tokens_per_s_steady"], line["tokens"]) == (50.0, 80.0, 4000)
    assert (line["bytes"], line["stalled_s"], line["tokens_per_s_working"]) == (None, None, None), "not told; not watched"
