"""Entering a stage: one process a stage and an output directory, by hand or launched, and the others are told."""

import os
import signal
from pathlib import Path

import pytest
from host_launches import UNTIL_GO, Host, entered, finish, stage_program, start_by_hand, wait_for

from pipeline.attempt import enter
from pipeline.contract import layout, telemetry
from pipeline.contract.files import read_json
from pipeline.errors import BusyError, UserError
from pipeline.host import locks, procs, state

pytestmark = pytest.mark.usefixtures("outside_of_attempts")


def output(run_dir: Path) -> str:
    return str(run_dir / "data" / "hidden_states")


def test_by_hand_makes_an_attempt_like_any_other(run_dir: Path) -> None:
    with enter(str(run_dir), "extract", [output(run_dir)]) as attempt:
        assert attempt.by_hand and not attempt.stop.is_set()
        assert os.environ["EAGLEWATCH_ATTEMPT"] == attempt.id
        view = state.view(attempt.directory, procs.clock.boot_s() + 3)
        assert (view["state"], view["pid"], view["stage"]) == (telemetry.RUNNING, os.getpid(), "extract")
        assert view["by"].startswith("hand: ") and os.uname().nodename in view["by"]
        attempt.progress.phase(telemetry.STEADY)
        attempt.event("verified", files=3, bad=0)
        attempt.receipt({"verified": True, "files": 3})
        assert os.stat(output(run_dir)).st_mode & 0o777 == 0o700
    view = state.view(attempt.directory)
    assert (view["state"], view["exit"]["code"], view["receipt"]["files"], view["ranks"]) == (telemetry.DONE, 0, 3, 1)
    assert [one["kind"] for one in view["events"]] == ["phase", "verified"]
    for path in (os.path.join(output(run_dir), ".eaglewatch.lock"), str(run_dir / "stages" / "extract" / "lock")):
        assert not locks.is_held(path)
    with enter(str(run_dir), "extract", [output(run_dir)]) as again:
        assert again.id != attempt.id


def test_done_without_a_receipt_is_not_done(run_dir: Path) -> None:
    with enter(str(run_dir), "extract", []) as first:
        pass
    with enter(str(run_dir), "extract", []) as second:
        second.receipt({"verified": False})
    assert [state.view(one.directory)["state"] for one in (first, second)] == [telemetry.UNVERIFIED] * 2


def test_a_second_one_by_hand_is_told_who_is_there_and_leaves_nothing(host: Host) -> None:
    first = start_by_hand(host, UNTIL_GO)
    attempt = entered(first)
    code, out = finish(start_by_hand(host, UNTIL_GO))
    assert code == 2
    assert out.startswith("REFUSED stage extract of ") and f"attempt {attempt} (pid {first.pid}, started by hand: " in out
    assert out.count("\n") == 1
    assert layout.attempts(str(host.run_dir), "extract") == [attempt]
    (host.scratch / "go").touch()
    assert finish(first)[0] == 0


def test_by_hand_and_launched_exclude_each_other(host: Host) -> None:
    by_hand = start_by_hand(host, UNTIL_GO)
    attempt = entered(by_hand)
    _, reply = host.launch(host.program("raise SystemExit('ran')"))
    assert (reply["state"], reply["holder"]["attempt"], reply["holder"]["pid"]) == (telemetry.REFUSED, attempt, by_hand.pid)
    (host.scratch / "go").touch()
    assert finish(by_hand)[0] == 0
    (host.scratch / "go").unlink()
    directory, reply = host.launch(stage_program(host))
    assert reply["state"] == telemetry.RUNNING
    code, out = finish(start_by_hand(host, UNTIL_GO))
    assert code == 2 and f"attempt {os.path.basename(directory)} (pid {reply['pid']}, started by tester" in out
    (host.scratch / "go").touch()
    assert host.wait_state(directory, telemetry.DONE)["receipt"]["verified"] is True


def test_a_launched_stage_uses_its_attempt_and_the_lock_it_was_given(host: Host) -> None:
    directory, reply = host.launch(stage_program(host))
    assert reply["log_tail"] == f"{os.path.basename(directory)} False tester ['EAGLEWATCH_ATTEMPT']\n"
    (host.scratch / "go").touch()
    view = host.wait_state(directory, telemetry.DONE)
    assert view["exit"]["code"] == 0
    assert layout.attempts(str(host.run_dir), "extract") == [os.path.basename(directory)]
    wait_for(lambda: not locks.is_held(str(host.run_dir / "stages" / "extract" / "lock")))


def test_the_stage_alone_holds_the_lock_when_all_that_watched_it_is_dead(host: Host) -> None:
    directory, _ = host.launch(stage_program(host))
    for name in (layout.SUPERVISOR_LOCK, layout.LOCK):
        os.kill(host.holder(directory, name)["pid"], signal.SIGKILL)
    code, out = finish(start_by_hand(host, UNTIL_GO))
    assert code == 2 and os.path.basename(directory) in out


def test_an_output_belongs_to_one_writer_whichever_run_it_is_of(host: Host) -> None:
    other = host.run_dir.parent / "other"
    other.mkdir()
    with enter(str(other), "extract", [str(host.scratch / "out")]) as holder:
        directory, _ = host.launch(stage_program(host))
        view = host.wait_state(directory, telemetry.REFUSED)
        assert view["holder"]["attempt"] == holder.id
        assert f"output directory {host.scratch / 'out'} is held by attempt {holder.id}" in view["why"]
        with pytest.raises(BusyError) as caught, enter(str(host.run_dir), "extract", [str(host.scratch / "out")]):
            pass
    assert caught.value.holder["attempt"] == holder.id
    assert not locks.is_held(str(host.run_dir / "stages" / "extract" / "lock"))


def test_a_wrapper_that_keeps_the_descriptor_to_itself_is_no_obstacle(host: Host) -> None:
    stage = stage_program(host)
    wrapper = host.program(f"import subprocess, sys\nraise SystemExit(subprocess.run([{stage!r}], close_fds=True).returncode)", "wrapper")
    directory, reply = host.launch(wrapper)
    assert reply["log_tail"].startswith(os.path.basename(directory) + " False"), reply
    (host.scratch / "go").touch()
    host.wait_state(directory, telemetry.DONE)


def test_an_environment_left_over_from_another_attempt_is_refused(host: Host, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, _ = host.launch(stage_program(host))
    (run_dir.parent / "other").mkdir()
    monkeypatch.setenv("EAGLEWATCH_ATTEMPT_DIR", directory)
    with pytest.raises(UserError, match=r"is no attempt of stage extract in .*other"), enter(str(run_dir.parent / "other"), "extract", []):
        pass
    with open(run_dir / "stages" / "extract" / "lock") as unlocked:
        for descriptor in (str(unlocked.fileno()), "0", "99999", "x"):
            monkeypatch.setenv("EAGLEWATCH_ATTEMPT_DIR", directory)
            monkeypatch.setenv("EAGLEWATCH_STAGE_LOCK_FD", descriptor)
            with pytest.raises(UserError, match="was not given the lock of stage extract"), enter(str(run_dir), "extract", []):
                pass
    assert state.view(directory)["state"] == telemetry.RUNNING
    assert read_json(os.path.join(directory, layout.RECEIPT)) is None


def test_no_such_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such run directory"), enter(str(tmp_path / "nowhere"), "extract", []):
        pass


def test_an_output_that_cannot_be_made(run_dir: Path) -> None:
    (run_dir / "file").touch()
    with (
        pytest.raises(UserError, match="cannot make the output directory"),
        enter(str(run_dir), "extract", [str(run_dir / "file" / "out")]),
    ):
        pass
    assert layout.attempts(str(run_dir), "extract") == []
