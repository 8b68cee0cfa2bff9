"""Files of an attempt that hold anything at all: a verdict or UNREADABLE, never an error, and never better than their evidence."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from agent_client import agents
from made_attempts import BOOT, NOW, Made
from nvml_fakes import in_python

from console.core import attempt as attempts
from console.headless import outcome
from pipeline.contract import events, files, layout, telemetry
from pipeline.host import locks, procs, state, verdict

HUGE = "1" + "0" * 400
ODD = ["null", "true", "false", "0", "-1", HUGE, "9" * 5000, "-1e30", "NaN", "Infinity", "-Infinity", "1e308", "1e999", '"x"',
       '"\\u001b]0;x\\u0007"', '"\\ud800"', "[]", "{}", "[1]", '{"a":1}', "0.0", "[" * 200 + "]" * 200]  # fmt: skip
HOLDER = {"by": "x", "attempt": "y", "pid": 1, "boot_id": "z", "start_ticks": 3, "since_wall_s": 1e9}
TIMES = {"boot_id": BOOT, "boot_s": NOW - 50, "wall_s": 1_800_000_000.0}
WHOLE: dict[str, dict[str, Any]] = {
    layout.SPEC: {"stage": "extract", "attempt": "a1", "by": "me", "code": "abc", "simulated": False, **TIMES},
    layout.IDENT: {**procs.identity(), "start_ticks": 1, **TIMES},
    layout.EXIT: {"code": 0, "signal": None, "by": "shim", **TIMES},
    layout.STATUS: {"tree": {"procs": 1, "cpu_s": 1.0, "rss_bytes": 1, "states": {"R": 1}}, **TIMES},
    layout.STOP: {"by": "you", "grace_s": 30, **TIMES},
    layout.RECEIPT: {"verified": True, "attempt": "a1", "bad": 0, "samples": 3, "layer_ids": [1], "tokens": 9},
    layout.SUPERVISOR_LOCK: {**procs.identity(), "attempt": "a1"},
    "progress/0.json": {"phase": "steady", "unit": "sample", "done": 3, "total": 3, **TIMES},
}
KINDS = {"launched": "shim", "phase": "stage", "error": "stage", "refused": "stage", "interrupted": "stage"}
EVENTS = [{"kind": kind, "by": by, "message": "m", "signal": "SIGTERM", "holder": HOLDER, **TIMES} for kind, by in KINDS.items()]


def mutate(dice: random.Random, value: Any) -> str:
    """JSON text of the value with one thing in it replaced by something odd."""
    if isinstance(value, dict) and value and dice.random() < 0.8:
        key = dice.choice(sorted(value))
        rows = [f"{json.dumps(name)}: {mutate(dice, one) if name == key else json.dumps(one)}" for name, one in value.items()]
        return "{" + ", ".join(rows) + "}"
    return dice.choice(ODD)


def make(dice: random.Random, directory: Path) -> None:
    (directory / "progress").mkdir(parents=True, exist_ok=True)
    for name, whole in WHOLE.items():
        (directory / name).unlink(missing_ok=True)
        if dice.random() < (0.5 if name in (layout.EXIT, layout.STOP) else 0.1):
            continue
        value = {"refused": True, "holder": HOLDER, **TIMES} if name == layout.EXIT and dice.random() < 0.3 else whole
        (directory / name).write_text(mutate(dice, value) if dice.random() < 0.5 else json.dumps(value))
    lines = [mutate(dice, one) if dice.random() < 0.4 else json.dumps(one) for one in dice.sample(EVENTS, dice.randrange(len(EVENTS) + 1))]
    (directory / layout.EVENTS).write_text("".join(line + "\n" for line in lines))


@pytest.mark.parametrize("seed", range(6))
def test_no_file_of_an_attempt_breaks_its_view_or_a_reader_of_it(run_dir: Path, seed: int) -> None:
    dice = random.Random(seed)
    for at in range(100):
        directory = run_dir / "stages" / "extract" / f"a{seed}-{at}"
        make(dice, directory)
        view = state._view(str(directory), NOW)  # without its guard: each known oddity has its own answer
        line = json.dumps(view, allow_nan=True)
        one = attempts.parse(json.loads(line), "extract")
        assert one is not None
        json.dumps(outcome.row(one, NOW), allow_nan=False)
        assert outcome.words(one) and outcome.exit_code(one) in (0, 1, 2, 3)
        if one.done:
            assert files.read_json(str(directory / layout.EXIT))["code"] == 0  # type: ignore[index]
            assert files.read_json(str(directory / layout.RECEIPT))["verified"] is True  # type: ignore[index]


def test_a_holder_that_is_no_holder_and_times_beyond_all_clocks(run_dir: Path) -> None:
    made = Made(run_dir).put(layout.EXIT, refused=True, holder="x")
    assert made.verdict() == (telemetry.REFUSED, "the stage is held by an unknown process (the lock file does not name it)")
    (made.path / layout.EXIT).write_text(f'{{"code": 1, "signal": null, "boot_id": "{BOOT}", "boot_s": {HUGE}}}')
    view = made.view()
    assert view["state"] == telemetry.FAILED and view["exit"]["boot_s"] is None
    for since in (10**400, 1e308, float("nan"), "x", None):
        assert "since unknown" in locks.describe_holder({"attempt": "a", "since_wall_s": since})
    made.put(layout.EXIT, code=False).put(layout.RECEIPT, verified=True, attempt="a1")
    assert made.verdict()[0] != telemetry.DONE, "false is not exit code 0"


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), 2**63 + 2049, 1e300, float("inf"), float("nan"), True, "1", None, [1]], ids=list(range(10))
)
def test_what_is_no_number_of_a_frame(value: Any) -> None:
    assert telemetry.number(value) is None


def test_files_and_lines_that_no_frame_could_carry_are_none(run_dir: Path) -> None:
    made = Made(run_dir)
    made.put(layout.RECEIPT, verified=True, attempt="a1", rubbish="x" * (1 << 20))
    made.put(layout.PROGRESS + "/0.json", done=1)
    (made.path / layout.EVENTS).write_text('{"kind": "error", "message": "' + "x" * (1 << 20) + '"}\n{"kind": "phase"}\n')
    view = made.view()
    assert (view["receipt"], view["progress"], [one["kind"] for one in view["events"]]) == (None, {"done": 1}, ["phase"])
    with pytest.raises(ValueError, match="nested"):
        files.loads("[" * 200 + "]" * 200)
    assert files.loads(f'{{"a": [{"9" * 5000}, NaN, 7]}}') == {"a": [None, None, 7]}


def test_what_cannot_be_judged_is_unreadable_and_alone_so(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is known that does this: the fault is put in."""
    Made(run_dir, "a1", 1_800_000_000.0).ended_ident().exit(1).event(events.ERROR, message="real")
    Made(run_dir, "a2", 1_800_000_100.0)
    judge = verdict.judge

    def faulty(read: verdict.Files, now: float) -> tuple[str, str]:
        if read.directory.endswith("a2"):
            raise KeyError("pid")
        return judge(read, now)

    monkeypatch.setattr(state, "judge", faulty)
    odd = state.newest(str(run_dir), NOW)["extract"]
    assert (odd["attempt"], odd["state"], odd["why"]) == ("a2", telemetry.UNREADABLE, "its files cannot be understood: KeyError: 'pid'")
    assert set(telemetry.ATTEMPT) - {"ledger", "directory"} <= set(odd)
    one = attempts.parse(odd, "extract")
    assert one is not None and not one.live and not one.ended and outcome.exit_code(one) == 3
    monkeypatch.setattr(state, "judge", judge)
    Made(run_dir, "a3", 1_700_000_000.0).ident()
    monkeypatch.setattr(state, "judge", faulty)
    assert state.newest(str(run_dir), NOW)["extract"]["attempt"] == "a3", "the live one is found behind it"


def test_a_bad_attempt_leaves_frames_and_other_runs_alone(
    python: str, code_dir: Path, data_dir: Path, run_dir: Path, tmp_path: Path
) -> None:
    bad = Made(run_dir)
    (bad.path / layout.EXIT).write_text(f'{{"refused": true, "holder": "x", "boot_s": {HUGE}}}')
    Made(run_dir.parent / "other", "b1").ended_ident().exit(3)
    with agents(python, code_dir, data_dir, in_python(tmp_path / "gpus.state")) as start:
        agent = start()
        listed = {one["name"]: one["stages"] for one in agent.ask("runs")["runs"]}
        assert listed[run_dir.name]["extract"]["state"] == telemetry.REFUSED
        assert listed["other"]["extract"]["state"] == telemetry.FAILED
        agent.ask("watch", run=run_dir.name, interval_s=0.2)
        frame = agent.next_frame()
        assert "broken" not in frame and frame["stages"]["extract"]["state"] == telemetry.REFUSED
