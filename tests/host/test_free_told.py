"""What freeing GPUs tells is what was done and seen: no signal that was not sent, no look that left rows out, no receipt nobody reads."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from freeing_runs import QUICK, Box

from pipeline.contract import layout
from pipeline.host import filecache, free_ending, free_signals, holders


def test_one_that_changed_and_got_no_signal_is_not_stuck(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    (pid,) = box.hold(gpus="0")
    order = box.confirm(box.plan())
    monkeypatch.setattr(free_signals, "user_id", lambda _: 4242)  # as after a setuid
    done = box.free(order, QUICK._replace(grace_s=0.2, kill_s=0.2, leaders_s=0.1))
    (process,) = done.receipt["processes"]
    assert [word for _, word in process["got"]] == ["changed", "changed"] and box.lives(pid)
    assert done.kinds[0] == "held" and "no signal ends it" not in done.details[0]


def test_rows_that_are_left_out_make_the_look_incomplete(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holders, "MAX_ROWS", 2)
    for gpu in "012":
        box.hold(gpus=gpu)
    plan = box.plan()
    assert len(plan["rows"]) == 2 and not plan["complete"]
    assert plan["failed"] == "1 processes more than 2 have a GPU open" and plan["failed"] in plan["notes"][-1]
    done = box.free(box.confirm(plan, []))
    assert done.code == 11 and done.receipt["incomplete"].startswith(plan["failed"])


def test_a_receipt_stays_small_enough_to_be_read(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [{"uuid": f"GPU-{at:036d}", "index": at, "mib": 80000} for at in range(8)]
    row: dict[str, Any] = {"pid": 1 << 22, "start_ticks": 1 << 40, "user": "u" * 32, "relation": "ours, another run", "gpus": gpus}
    row.update(title="t" * 9000, exe="/" * 4096, got=[["SIGTERM", "not permitted"], ["SIGKILL", "not permitted"]])
    assert len(json.dumps(free_ending._fate(row))) * free_ending._PROCESSES < filecache.MAX_BYTES // 2
    monkeypatch.setattr(free_ending, "_PROCESSES", 2)
    for _ in range(3):
        box.hold(gpus="4")
    done = box.free(box.confirm(box.plan()))
    assert (done.code, len(done.receipt["processes"]), done.receipt["processes_left_out"]) == (0, 2, 1)
    assert [one["gpus"] for one in done.receipt["processes"]] == [[4], [4]]


def test_a_lock_that_cannot_be_taken_is_an_error_in_its_events(box: Box) -> None:
    order = box.confirm(box.plan())
    run_directory = layout.run_dir(str(box.data_dir), layout.HOST_RUN)
    directory = Path(layout.attempt_dir(run_directory, "free-gpus", layout.new_attempt_id()))
    directory.mkdir(parents=True)
    (directory / layout.ORDER).write_text(json.dumps(order))
    (directory / layout.SPEC).write_text(json.dumps({"run_dir": run_directory, "by": "t"}))
    (box.data_dir / layout.FREE_LOCK).mkdir()
    command = [sys.executable, "-s", "-S", str(box.code_dir), "free-gpus"]
    done = subprocess.run(command, env={**os.environ, "EAGLEWATCH_ATTEMPT_DIR": str(directory)}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert "free-gpus.lock: cannot lock: Is a directory; nothing was done" in (directory / layout.EVENTS).read_text()


def test_a_new_handle_on_the_driver_gets_the_time_of_a_first_answer(box: Box) -> None:
    box.nvml.read()
    assert box.nvml._answered
    box.nvml.restart()
    assert not box.nvml._answered
