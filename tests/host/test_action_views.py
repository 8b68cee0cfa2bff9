"""How actions stand in frames, and the host's audit log as it is read: files as actions leave them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from host_launches import RUN

from pipeline.contract import free, layout
from pipeline.contract.events import append_event
from pipeline.contract.files import write_json
from pipeline.host import action_views, audit, baseline, procs


def attempt(data_dir: Path, run: str, name: str, wall_s: float, ended: dict[str, Any] | None, **receipt: Any) -> None:
    """An attempt of freeing GPUs that began then; without ``ended`` its process is this one."""
    directory = Path(layout.attempt_dir(layout.run_dir(str(data_dir), run), free.ACTION, name))
    (directory / layout.PROGRESS).mkdir(parents=True)
    boot = {"boot_id": procs.this_boot(), "boot_s": 1.0}
    write_json(str(directory / layout.SPEC), {**boot, "stage": free.ACTION, "by": "tester", "wall_s": wall_s})
    write_json(str(directory / layout.IDENT), {**boot, **procs.identity(procs.os.getpid()), "wall_s": wall_s})
    write_json(layout.progress_file(str(directory), 0), {"step": "VERIFY", "curve": [[1.0, [3]]], "boot_s": 2.0})
    append_event(str(directory), "stage", "step", step="TERM", begins=True, processes=[[1, 2, "root", "title"]])
    if ended is not None:
        write_json(str(directory / layout.EXIT), {**boot, **ended, "wall_s": wall_s + 1})
        write_json(str(directory / layout.RECEIPT), {"attempt": name, "gpus": [1], "seconds": {"SURVEY": 1.0}, "line": "a line", **receipt})


def newest(data_dir: Path, run: str | None) -> dict[str, Any] | None:
    return action_views.newest(str(data_dir), run).get(free.ACTION)


def test_the_newest_of_the_watched_run_or_the_host_and_a_live_one_of_any_run(data_dir: Path, run_dir: Path) -> None:
    assert newest(data_dir, RUN) is None and newest(data_dir, None) is None
    attempt(data_dir, RUN, "20260101-000000-aaaaaaaaaaaa", 100.0, {"code": 0}, verified=True, bad=0, exit_code=0)
    mine = newest(data_dir, RUN)
    assert mine is not None and (mine["run"], mine["state"]) == (RUN, "DONE")
    assert mine["receipt"] == {
        "attempt": "20260101-000000-aaaaaaaaaaaa", "line": "a line", "verified": True, "bad": 0, "exit_code": 0,
    }, "plain values only"  # fmt: skip
    assert [one.get("step") for one in mine["events"]] == ["TERM"] and "processes" not in mine["events"][0]
    assert "curve" not in mine["progress"] and mine["progress"]["step"] == "VERIFY"
    assert newest(data_dir, "other") is None, "of a run that nobody watches, and over"
    assert newest(data_dir, None) == mine, "without a watched run the newest of all runs"
    attempt(data_dir, layout.HOST_RUN, "20260101-000001-bbbbbbbbbbbb", 200.0, {"code": 11}, exit_code=11)
    for run in (RUN, None, "other"):
        one = newest(data_dir, run)
        assert one is not None and one["run"] is None and one["receipt"]["exit_code"] == 11
    attempt(data_dir, RUN, "20260101-000002-cccccccccccc", 300.0, {"refused": True, "holder": {"attempt": "x"}})
    assert (newest(data_dir, RUN) or {})["attempt"].endswith("b" * 12), "what was refused has done nothing"
    attempt(data_dir, "third", "20260101-000003-dddddddddddd", 50.0, None)
    for run in (RUN, None, "third"):
        one = newest(data_dir, run)
        assert one is not None and (one["run"], one["state"]) == ("third", "RUNNING") and one["progress"]["curve"] == [[1.0, [3]]]
    attempt(data_dir, RUN, "20260101-000004-eeeeeeeeeeee", 40.0, None)
    told = {run: (newest(data_dir, run) or {})["run"] for run in (RUN, None, "third")}
    assert told == {RUN: RUN, None: "third", "third": "third"}, "of two that live, the watched run's own, though it began first"


def test_an_accepted_baseline_of_the_watched_run(data_dir: Path, run_dir: Path) -> None:
    gpu = {"uuid": "GPU-1", "used_bytes": [3 << 20] * 5}
    baseline.record(str(data_dir), [gpu], "590", "a", {}, True)
    assert action_views.accepted(str(data_dir), RUN) == {} and action_views.recorded(str(data_dir)) == {"GPU-1": 3 << 20}
    baseline.accept(str(data_dir), {"run": RUN, "gpus": {"GPU-1": 3 << 20}, "by": "t"})
    assert action_views.accepted(str(data_dir), RUN) == {"GPU-1": 3 << 20} and action_views.accepted(str(data_dir), None) == {}


def test_the_audit_log_is_read_from_its_end_without_what_is_no_line(data_dir: Path) -> None:
    assert audit.newest(str(data_dir), 10) == {"lines": [], "unreadable": 0, "older": False}
    for number in range(5):
        audit.append(str(data_dir), {"what": f"w{number}"})
    with open(data_dir / layout.AUDIT, "ab") as file:
        file.write(b"[1]\n\xff{\n" + json.dumps({"what": "last"}).encode() + b'\n{"what": "torn')
    assert [one["what"] for one in audit.newest(str(data_dir), 5)["lines"]] == ["w4", "last"]
    assert audit.newest(str(data_dir), 5)["unreadable"] == 3 and audit.newest(str(data_dir), 5)["older"] is True
    assert audit.newest(str(data_dir), 50)["older"] is False
    with open(data_dir / layout.AUDIT, "ab") as file:
        file.write(b"x" * (2 << 20) + b"\n" + json.dumps({"what": "after"}).encode() + b"\n")
    assert audit.newest(str(data_dir), 100)["older"] is True
    assert [one["what"] for one in audit.newest(str(data_dir), 100)["lines"]] == ["after"]


def test_an_audit_file_that_is_no_file_holds_nobody_up(data_dir: Path) -> None:
    os.mkfifo(data_dir / layout.AUDIT)
    for what in (lambda: audit.newest(str(data_dir), 5), lambda: audit.append(str(data_dir), {"what": "test"})):
        with pytest.raises(OSError, match="no regular file"):
            what()
