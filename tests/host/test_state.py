"""State is a function of files and /proc: every verdict, torn files, other boots, and which attempt stands for a stage."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_attempts import BOOT, NOW, Made

from pipeline.contract import layout, telemetry
from pipeline.host import locks, procs, state


@pytest.fixture
def made(run_dir: Path) -> Made:
    return Made(run_dir)


@pytest.fixture
def dead_pid() -> Iterator[int]:
    """A process that has ended and is not yet waited for: a zombie."""
    process = subprocess.Popen(["true"])
    while (stat := procs.read_stat(process.pid)) is not None and stat.state != "Z":
        pass
    yield process.pid
    process.wait()


VERIFIED = {"verified": True, "attempt": "a1"}


def test_live(made: Made) -> None:
    assert made.verdict() == (telemetry.LAUNCHING, "no process yet")
    made.ident()
    assert made.view(NOW - 39)["state"] == telemetry.LAUNCHING
    assert made.verdict() == (telemetry.RUNNING, "")
    made.stop()
    assert made.verdict() == (telemetry.STOPPING, "stop asked by you")


def test_done_needs_both_code_and_receipt_of_this_attempt(made: Made) -> None:
    made.ended_ident().exit(0)
    assert made.verdict() == (telemetry.UNVERIFIED, "exit code 0, but no receipt")
    for receipt in ({"verified": "yes"}, {"verified": 1}, {"verified": False}, {}, {"verified": True, "attempt": "another"}):
        made.put(layout.RECEIPT, **{"attempt": "a1", **receipt})
        assert made.verdict() == (telemetry.UNVERIFIED, "exit code 0, but its receipt does not say verified")
    made.put(layout.RECEIPT, **VERIFIED)
    assert made.verdict() == (telemetry.DONE, "")
    made.exit(1)
    assert made.view()["state"] == telemetry.FAILED


@pytest.mark.parametrize(
    ("ended", "verdict", "why"),
    [
        ({"code": 2}, telemetry.FAILED, "exit code 2; it gave no reason, see its log"),
        ({"signal": 11}, telemetry.CRASHED, "SIGSEGV"),
        ({"signal": 64}, telemetry.CRASHED, "SIGRTMAX"),
        ({"signal": 9}, telemetry.CRASHED, "SIGKILL, cause unknown"),
        ({"signal": 9, "oom_kills": 0}, telemetry.CRASHED, "SIGKILL, cause unknown"),
        ({"signal": 9, "oom_kills": 1}, telemetry.CRASHED, "SIGKILL; out of memory: cgroup oom_kill +1"),
        ({"signal": 15, "oom_kills": 1}, telemetry.CRASHED, "SIGTERM"),
        ({"exec_error": "cannot start x"}, telemetry.LAUNCH_FAILED, "cannot start x"),
    ],
)
def test_ended_without_being_asked(made: Made, ended: dict[str, Any], verdict: str, why: str) -> None:
    made.ended_ident().exit(**ended)
    assert made.verdict() == (verdict, why)
    made.stop(NOW - 5)  # asked after it had ended: no excuse
    assert made.verdict() == (verdict, why)


@pytest.mark.parametrize(
    ("ended", "why"),
    [
        ({"code": 1}, "stopped by you; exit code 1"),
        ({"code": 0}, "stopped by you; exit code 0"),
        ({"signal": 9, "oom_kills": 1}, "stopped by you; SIGKILL"),
        ({"not_started": "it was stopped before it began"}, "stopped by you; not started"),
    ],
)
def test_stopped_says_by_whom(made: Made, ended: dict[str, Any], why: str) -> None:
    made.ended_ident().stop().exit(**ended)
    assert made.verdict() == (telemetry.STOPPED, why)


def test_done_in_spite_of_a_stop_is_done(made: Made) -> None:
    made.ended_ident().stop().exit(0).put(layout.RECEIPT, **VERIFIED)
    assert made.verdict() == (telemetry.DONE, "")


def test_failed_says_the_last_error(made: Made) -> None:
    made.ended_ident().event("error", message="first").event("error", message="shard 3 is truncated", exit_code=2).exit(2)
    made.event("survivors", by="supervisor", pids=[5])
    assert made.verdict() == (telemetry.FAILED, "shard 3 is truncated")


def test_refused_says_by_whom(made: Made) -> None:
    holder = {**procs.identity(), "attempt": "a0", "by": "x", "since_wall_s": 0}
    made.exit(refused=True, holder=holder)
    view = made.view()
    assert (view["state"], view["holder"]["attempt"]) == (telemetry.REFUSED, "a0")
    assert view["why"] == f"the stage is held by attempt a0 (pid {os.getpid()}, started by x, since 1970-01-01 00:00:00 UTC)"


def test_gone_without_an_exit_code_is_never_told_as_failed(made: Made, dead_pid: int) -> None:
    made.ended_ident()
    assert made.verdict() == (telemetry.ENDED_UNKNOWN, "ended, code unknown: nothing was left to see its exit code")
    made.ident(dead_pid)  # a zombie has ended, too
    assert made.view()["state"] == telemetry.ENDED_UNKNOWN
    made.stop()
    assert made.verdict() == (telemetry.STOPPED, "stopped by you; exit code unknown")


def test_gone_but_the_shim_still_writes(made: Made) -> None:
    made.ended_ident()
    lock = locks.take(str(made.path / layout.LOCK), locks.holder_line("a1", "me"))
    assert lock is not None
    assert made.verdict() == (telemetry.RUNNING, "its process has ended; its exit code is not written yet")
    lock.release()
    assert made.view()["state"] == telemetry.ENDED_UNKNOWN


def test_another_pid_namespace_is_judged_by_the_lock(made: Made) -> None:
    made.ident(pid_ns=1)
    assert made.view()["state"] == telemetry.ENDED_UNKNOWN
    lock = locks.take(str(made.path / layout.LOCK), locks.holder_line("a1", "me"))
    assert lock is not None
    assert made.verdict() == (telemetry.RUNNING, "it runs in another pid namespace; seen here by its lock only")
    lock.release()


def test_no_process_after_a_minute(made: Made) -> None:
    (made.path / layout.HOST_LOG).write_text("something\ncannot start python: gone\n")
    view = made.view(NOW + 11)
    assert (view["state"], view["why"]) == (telemetry.LAUNCH_FAILED, "no process 60 s after the launch: cannot start python: gone")


def test_another_boot_is_lost_and_its_times_are_moved_to_this_clock(made: Made) -> None:
    wall_now, boot_now = procs.clock.wall_to_boot_s, procs.clock.boot_s()
    began_wall = 1_800_000_010.0
    made.ident(boot_id="another", boot_s=777_000.0)
    made.put("progress/0.json", done=5, last_boot_s=777_100.0, phase="steady")
    made.put(layout.STATUS, boot_id="another", boot_s=777_200.0, tree={"procs": 3})
    view = made.view(boot_now)
    assert (view["state"], view["why"]) == (telemetry.LOST_REBOOT, "the host was restarted while it ran")
    assert view["started_boot_s"] == pytest.approx(wall_now(began_wall), abs=5)
    assert view["progress"]["last_boot_s"] - view["started_boot_s"] == pytest.approx(100.0, abs=0.01)
    assert view["progress"]["done"] == 5
    assert (view["tree"], view["heartbeat_boot_s"]) == (None, None)
    made.exit(0, boot_id="another", boot_s=777_300.0).put(layout.RECEIPT, **VERIFIED)
    view = made.view(boot_now)
    assert view["state"] == telemetry.DONE
    assert view["ended_boot_s"] - view["started_boot_s"] == pytest.approx(300.0, abs=0.01)


@pytest.mark.parametrize("torn", ["", "{", '{"code": 0', "[1]", "null", "\x00\x00", '"x"'])
def test_torn_files_are_missing_files(made: Made, torn: str) -> None:
    made.ident()
    for name in (layout.EXIT, layout.STOP, layout.STATUS, layout.RECEIPT, layout.SUPERVISOR_LOCK, "progress/0.json"):
        (made.path / name).write_text(torn)
    (made.path / layout.EVENTS).write_text(torn + '\n{"kind": "alive", "by": "supervisor"}\n{"kind": "err')
    view = made.view()
    assert (view["state"], view["progress"], view["supervised"]) == (telemetry.RUNNING, None, False)
    assert [one["kind"] for one in view["events"]] == ["alive"]
    (made.path / layout.IDENT).write_text(torn)
    assert made.view()["state"] == telemetry.LAUNCHING
    (made.path / layout.SPEC).write_text(torn)
    assert made.verdict() == (telemetry.LAUNCH_FAILED, "spec.json is missing or unreadable")


def test_fields(made: Made) -> None:
    made.ident().put("progress/0.json", done=3).put("progress/1.json", done=4).put("progress/notes.json")
    made.put(layout.STATUS, boot_id=BOOT, boot_s=NOW - 1, tree={"procs": 2, "boot_s": NOW - 3})
    made.put(layout.SUPERVISOR_LOCK, **procs.identity())
    (made.path / layout.LOG).write_text("hello")
    view = made.view()
    left_to_the_agent = {"ledger", "directory", "outdated"}
    assert set(telemetry.ATTEMPT) - set(view) == left_to_the_agent and set(view) <= set(telemetry.ATTEMPT)
    assert (view["ranks"], view["progress"], view["tree"]["procs"], view["heartbeat_boot_s"]) == (2, {"done": 3}, 2, NOW - 1)
    assert (view["log"]["bytes"], view["supervised"], view["by"], view["code"]) == (5, True, "me", "abc")
    assert view["log"]["last_boot_s"] == pytest.approx(procs.clock.boot_s(), abs=60)
    assert (view["started_boot_s"], view["ended_boot_s"], view["pid"]) == (NOW - 40, None, os.getpid())


def test_only_the_last_20_events_are_shown_and_all_are_known(made: Made) -> None:
    made.ended_ident().event("error", message="early").exit(2)
    for number in range(30):
        made.event("phase", n=number)
        if number == 10:
            assert made.view()["state"] == telemetry.FAILED
    view = made.view()
    assert [one["n"] for one in view["events"]] == list(range(10, 30))
    assert view["why"] == "early"


def test_files_are_read_again_only_when_they_change(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made.ident().put("progress/0.json", done=1)
    made.view()
    opened: list[str] = []
    real = state.filecache.files.read_json
    monkeypatch.setattr(state.filecache.files, "read_json", lambda path: opened.append(path) or real(path))
    made.view()
    assert opened == []
    made.put("progress/0.new", done=2)
    os.rename(made.path / "progress/0.new", made.path / "progress/0.json")
    assert made.view()["progress"] == {"done": 2}
    assert [os.path.basename(path) for path in opened] == ["0.json"]
