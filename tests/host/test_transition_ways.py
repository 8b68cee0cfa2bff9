"""Transitions: other ways than the usual one, cancels, and what stops them before anything is touched."""

import json
import os
from pathlib import Path
from typing import Any

import nvml_fakes
import pytest
from host_launches import running, wait_for
from stand_ins import into, stand_in
from transition_runs import CHAIN, Way

from pipeline.contract import layout
from pipeline.host import gpu_gate, procs


def test_a_next_stage_that_runs_already_is_neither_freed_nor_launched_again(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    way.start("extract")
    gone = way.go(way.plan("vocab", "extract"))
    assert gone.code == 0, gone.line
    assert len(way.notes("extract ")) == 1 and way.notes("preflight") == [] and way.live("extract") == "RUNNING"
    assert [one["line"].split(":")[0] for one in gone.receipt["steps"][1:-1]] == ["not needed"] * 5


def test_a_first_file_that_is_torn_is_no_proof(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    way.steer("extract.torn")
    output = way.run_dir / "data" / "extract"  # of an earlier attempt, from a time when the clock was ahead
    output.mkdir()
    head = json.dumps({name: {"data_offsets": [0, 0]} for name in ("hidden_states", "token_ids")}).encode()
    (output / "hs_99.safetensors").write_bytes(len(head).to_bytes(8, "little") + head)
    (output / "ledger-0.jsonl").write_text(json.dumps({"i": 99, "bytes": 8 + len(head), "boot_s": 1.0}) + "\n")
    os.utime(output / "hs_99.safetensors", (4e9, 4e9))
    gone = way.go(way.plan("vocab", "extract"))
    assert (gone.code, gone.where, way.live("extract")) == (1, "FIRST_UNIT", "RUNNING")
    assert "hs_0.safetensors has " in gone.line and "bytes, its header says" in gone.line


def test_a_stage_that_needs_no_gpu_leaves_them_alone(way: Way) -> None:
    way.finish("generate")
    way.serve()
    plan = way.plan("generate", "prepare")
    assert plan["phrase"] == "next gpu-box-3 demo prepare" and plan["service"] is None and plan["free"] is None
    gone = way.go(plan)
    assert gone.code == 0, gone.line
    assert [step for step, _, _ in gone.told] == ["OUTPUT", "PREFLIGHT", "LAUNCH", "FIRST_UNIT"]
    assert way.live("serve") == "RUNNING" and way.live("prepare") == "DONE"


def test_to_the_server_and_from_the_server(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    up = way.go(way.plan("vocab", "serve"))
    assert up.code == 0, up.line
    assert up.line == "serve: serve answers" and way.live("serve") == "RUNNING"
    way.steer("generate.fail")
    way.host.wait_state(way.start("generate"), "FAILED")
    way.unsteer("generate.fail")
    again = way.go(way.plan("serve", "generate"))
    assert again.code == 0, again.line
    assert [step for step, _, _ in again.told] == ["OUTPUT", "PREFLIGHT", "LAUNCH", "FIRST_UNIT"]
    assert len(way.notes("generate ")) == 3 and again.line == "generate: generate is done and verified"


@pytest.mark.parametrize("step", ["STAGE", "FREE", "FIRST_UNIT"])
def test_a_cancel_ends_in_a_named_safe_state(way: Way, step: str) -> None:
    way.finish("generate")
    way.serve()
    way.steer({"STAGE": "prepare.wait", "FREE": "nothing", "FIRST_UNIT": "extract.wait"}[step])
    if step == "FREE":
        way.box.order("linger_ms 600000")
    wished: list[bool] = []
    gone = way.go(way.plan("generate", *CHAIN), cancelled=lambda: bool(wished), during={step: lambda: wished.append(True)})
    assert (gone.code, gone.receipt["outcome"], gone.where, gone.receipt["verified"]) == (1, "cancelled", step, False)
    assert way.live("serve") == ("RUNNING" if step == "STAGE" else "STOPPED")
    goes_on = {"STAGE": "prepare", "FREE": "", "FIRST_UNIT": "extract"}[step]
    assert not goes_on or (f"{goes_on} was launched, and it goes on" in gone.line and way.live(goes_on) == "RUNNING")
    assert not way.locked() and gone.events[-1]["kind"] == "interrupted"


def test_other_settings_than_those_confirmed_stop_it(way: Way) -> None:
    way.finish("generate")
    way.serve()
    plan = way.plan("generate", *CHAIN)
    (way.run_dir / "settings.toml").write_text("# another\n")
    gone = way.go(plan)
    assert gone.code == 1 and "settings are others" in gone.line and way.live("serve") == "RUNNING" and way.live("prepare") == ""


def test_settings_that_are_edited_while_the_gpus_are_verified_are_not_launched(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    way.finish("generate", "prepare", "vocab")
    plan, real = way.plan("vocab", "extract"), gpu_gate.verify

    def edited(*args: Any) -> Any:
        path = way.run_dir / "settings.toml"
        path.write_text(path.read_text() + "# edited\n")
        return real(*args)

    monkeypatch.setattr(gpu_gate, "verify", edited)
    gone = way.go(plan)
    assert (gone.code, gone.where, way.live("extract")) == (1, "LAUNCH", "") and "settings are others" in gone.line


def test_seven_gpus_instead_of_eight_keep_the_server(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    way.serve()
    nvml_fakes.without(way.box.state, "gpu 7")
    gone = way.go(way.plan("vocab", "extract"))
    assert (gone.code, gone.where, way.live("serve")) == (3, "HOLDERS", "RUNNING") and "7 GPUs instead of 8" in gone.line


def test_what_cannot_be_recorded_is_not_done(way: Way) -> None:
    way.finish("generate", "prepare", "vocab")
    way.serve()
    plan = way.plan("vocab", "extract")
    (way.host.data_dir / layout.AUDIT).unlink(missing_ok=True)
    (way.host.data_dir / layout.AUDIT).mkdir()
    gone = way.go(plan)
    assert (gone.code, gone.receipt["outcome"], way.live("serve")) == (1, "broken", "RUNNING") and "audit.jsonl" in gone.line


def test_an_attempt_of_another_run_is_another_holder_even_where_it_has_ended(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    way.finish("generate", "prepare", "vocab")
    way.serve()
    (way.run_dir.parent / "other" / "stages" / "extract" / "a1").mkdir(parents=True)
    monkeypatch.setenv(procs.COOKIE, "a1")
    (theirs,) = way.box.hold(gpus="0")
    monkeypatch.delenv(procs.COOKIE)
    gone = way.go(way.plan("vocab", "extract"))
    assert (gone.code, gone.where, way.live("serve")) == (11, "HOLDERS", "RUNNING")
    assert str(theirs) in gone.receipt["alert"] and way.box.lives(theirs)


@pytest.mark.parametrize("group", ["ew-test-way.service"], indirect=True)
def test_a_named_unit_is_stopped_and_one_that_was_not_named_is_left_alone(way: Way, group: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemctl is a STAND-IN: a script on PATH. The process is in a real cgroup named as systemd names it."""
    way.finish("generate", "prepare", "vocab")
    (pid,) = way.box.hold(gpus="0,1")
    into(group, pid)
    (way.box.root / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{way.box.root / 'bin'}:{os.environ['PATH']}")
    stand_in(way.box, "systemctl", f"kill -TERM $(cat {group}/cgroup.procs); echo Stopped.")
    assert way.go(way.plan("vocab", "extract")).where == "HOLDERS" and way.box.lives(pid)
    plan = way.plan("vocab", "extract", service=group.name)
    assert plan["phrase"] == f"next gpu-box-3 demo extract {group.name}"
    gone = way.go(plan)
    assert gone.code == 0, gone.line
    assert (way.box.root / "calls").read_text() == f"systemctl --no-ask-password stop {group.name}\n"
    assert gone.receipt["free"]["processes"] == [] and not way.box.lives(pid)


@pytest.mark.parametrize("group", ["ew-test-between.service"], indirect=True)
def test_a_named_unit_that_is_on_no_gpu_now_is_stopped_unless_its_manager_calls_it_inactive(
    way: Way, group: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemctl is a STAND-IN. Between two restarts, or while it loads, a unit is on no GPU and takes them a moment later."""
    way.finish("generate", "prepare", "vocab")
    (pid,) = way.box.hold(gpus="0,1")
    into(group, pid)
    (way.box.root / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{way.box.root / 'bin'}:{os.environ['PATH']}")
    plan = way.plan("vocab", "extract", service=group.name)
    os.kill(pid, 9)
    wait_for(lambda: not running(pid), "the end of the holder")
    stand_in(way.box, "systemctl", 'case "$*" in *show*) echo ActiveState=activating;; *) echo Access denied; exit 4;; esac')
    gone = way.go(plan)
    assert (gone.code, gone.where, way.live("extract")) == (1, "STOP_SERVER", "") and "Access denied" in gone.line
    assert (way.box.root / "calls").read_text().splitlines()[-1] == f"systemctl --no-ask-password stop {group.name}"
    stand_in(way.box, "systemctl", "echo ActiveState=inactive")
    (way.box.root / "calls").unlink()
    gone = way.go(plan)
    assert gone.code == 0, gone.line
    assert (way.box.root / "calls").read_text() == f"systemctl --no-ask-password show --property=ActiveState {group.name}\n"
