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

SEEN = {"alarms": {}, "gaps": None, "grew": True, "free_bytes": None, "memory_share": 0.5, "bytes": None}


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
