"""What freeing GPUs tells is what was done and seen: no signal that was not sent, no look that left rows out, no receipt nobody reads."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from freeing_runs import QUICK, Box
from host_launches import RUN, wait_for

from pipeline.contract import free, layout
from pipeline.host import audit, filecache, free_ending, free_order, free_signals, free_verify, holders, no_gpus, ours, procs
from pipeline.host.errors import RequestError
from pipeline.host.expected_gpus import Expected


def test_one_that_changed_and_got_no_signal_is_not_stuck(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    (pid,) = box.hold(gpus="0")
    order = box.confirm(box.plan())
    monkeypatch.setattr(free_signals, "user_id", lambda _: 4242)  # as after a setuid
    done = box.free(order, QUICK._replace(grace_s=0.2, kill_s=0.2, leaders_s=0.1))
    (process,) = done.receipt["processes"]
    assert process["got"] == [["SIGTERM", "changed"]] and box.lives(pid)
    assert done.kinds[0] == "held" and "no signal ends it" not in done.details[0]


def test_who_was_not_asked_to_go_is_not_killed_when_it_is_the_confirmed_one_again(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    (pid,) = box.hold(gpus="0")
    order = box.confirm(box.plan())
    first, real = iter([4242]), free_signals.user_id
    monkeypatch.setattr(free_signals, "user_id", lambda one: next(first, real(one)))
    done = box.free(order, QUICK._replace(grace_s=0.2, kill_s=0.2, leaders_s=0.1))
    assert done.receipt["processes"][0]["got"] == [["SIGTERM", "changed"]] and box.lives(pid)


def test_a_cancel_counts_signals_that_were_sent(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.hold(gpus="0")
    order = box.confirm(box.plan())
    monkeypatch.setattr(free_signals, "user_id", lambda _: 4242)
    wished: list[bool] = []
    done = box.free(order, cancelled=lambda: bool(wished), during={"GRACE": lambda: wished.append(True)})
    assert done.receipt["line"].endswith("; nothing had been stopped or signalled")


def test_what_runs_is_of_the_run_that_it_was_started_in_and_not_of_a_copy(
    box: Box, run_dir: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = run_dir / "stages" / "extract" / "a1"
    attempt.mkdir(parents=True)
    (attempt / layout.SPEC).write_text(json.dumps({"run_dir": str(run_dir), "stage": "extract"}))
    shutil.copytree(run_dir, run_dir.parent / "a-copy")
    monkeypatch.setenv(procs.COOKIE, "a1")
    (pid,) = box.hold(gpus="0")
    assert ours.attempt_of(pid, str(data_dir)) == {"run": RUN, "stage": "extract", "attempt": "a1"}


def test_five_readings_are_a_row_only_without_a_gap(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when this program is frozen between the fourth and the fifth."""
    rows: list[int] = []
    ahead = [0.0]

    def told(number: int) -> None:
        rows.append(number)
        ahead[0] += 8.0 if rows == [1, 2, 3, 4] else 0.0

    real = free_verify.boot_s
    monkeypatch.setattr(free_verify, "boot_s", lambda: real() + ahead[0])
    look = holders.look(None, str(box.data_dir))
    free_verify.verify_free(box.nvml, Expected(8), lambda _: look, 0.02, told=told)
    assert rows == [1, 2, 3, 4, 1, 2, 3, 4, 5]


def test_who_belongs_to_an_attempt_that_cannot_be_read_is_not_proposed(box: Box, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = run_dir / "stages" / "extract" / "a1"
    attempt.mkdir(parents=True)
    monkeypatch.setenv(procs.COOKIE, "a1")
    box.hold(gpus="0")
    (row,) = box.plan(run=RUN)["rows"]
    assert row["chosen"], "of an attempt that never began"
    (attempt / layout.SPEC).write_text('{"stage": "ext')  # torn: it may well be alive
    (row,) = box.plan(run=RUN)["rows"]
    assert (row["chosen"], row["killable"]) == (False, False) and "cannot be read" in row["why_not"]


@pytest.mark.parametrize("manager", ["x", [1], {"name": 5}, {"name": "a"}, {"name": None}])
def test_an_order_whose_managers_are_none_is_refused_in_words(manager: Any, box: Box) -> None:
    box.hold(gpus="0")
    plan = box.plan()
    plan["rows"][0]["manager"] = manager
    plan["digest"] = free_order.digest(plan)
    with pytest.raises(RequestError, match="the plan in the order is not whole"):
        free_order.check_order({"plan": plan, "selection": [free.key(plan["rows"][0])], "phrase": "free x 1"})


@pytest.mark.parametrize("when", ["before the action", "after its survey"])
def test_another_script_of_the_same_interpreter_is_another_program(when: str, box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """It still has the GPU open, and the same pid, start, user and program file; what it runs was never confirmed."""
    then = f"import time; open({str(box.root / 'other')!r}, 'w').close(); time.sleep(600)"
    body = f"import os, signal, sys, time\nfds = [os.open({str(box.dev)!r} + name, os.O_RDWR) for name in ('/nvidia-uvm', '/nvidia0')]\n"
    body += f"signal.signal(signal.SIGUSR1, lambda *_: os.execv(sys.executable, [sys.executable, '-I', '-S', '-c', {then!r}]))\n"
    body += "[os.set_inheritable(fd, True) for fd in fds]\nos.write(1, b'%d\\n' % os.getpid())\ntime.sleep(600)"
    box.processes.append(subprocess.Popen([sys.executable, "-I", "-S", "-c", body], stdout=subprocess.PIPE, cwd=str(box.root)))
    (pid,) = box.told(box.processes[-1])
    order = box.confirm(box.plan())
    real = audit.append

    def change(*_: Any) -> None:
        if not (box.root / "other").exists():  # once: the outcome is written to the audit too, and the other script has no handler
            os.kill(pid, signal.SIGUSR1)
            wait_for((box.root / "other").exists, "the other script")

    if when == "before the action":
        change()
        done = box.free(order)
        assert (done.code, done.receipt["difference"]) == (1, [f"process {pid} changed: image"])
    else:
        monkeypatch.setattr(audit, "append", lambda *told: (real(*told), change()))
        done = box.free(order, QUICK._replace(grace_s=0.2, kill_s=0.2))
        assert done.receipt["processes"][0]["got"] == [["SIGTERM", "changed"]]
    assert box.lives(pid)


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


@pytest.mark.parametrize(("code", "free_now"), [(9, None), (4, False), (18, False), (999, False)])
def test_no_gpus_are_there_only_where_there_is_no_driver(code: int, free_now: "bool | None", box: Box) -> None:
    box.order(f"fail nvmlInitWithFlags {code}")
    found = no_gpus.evidence(box.nvml, {"expected_gpus": 0})
    assert found["free"] is free_now, found["line"]
