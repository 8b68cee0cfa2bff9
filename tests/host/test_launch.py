"""Launching: exactly one job for one attempt id, whatever dies, and an answer that says what became of it."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from host_jobs import sleeper
from host_launches import Host, running, wait_for

from pipeline.contract import layout, telemetry
from pipeline.host import launch, procs, state
from pipeline.host.errors import MISSING, USAGE, RequestError


def test_answers_once_the_job_has_lived_two_seconds(host: Host, python: str) -> None:
    host.python = python
    begun = time.monotonic()
    directory, reply = host.launch(sleeper(host))
    assert time.monotonic() - begun >= 2.0
    assert (reply["state"], reply["existing"], reply["exit"]) == (telemetry.RUNNING, False, None)
    assert [str(reply["pid"])] == host.lines("pids")
    assert running(reply["pid"])
    ident = host.read(directory, layout.IDENT)
    assert ident["start_ticks"] == procs.identity(reply["pid"])["start_ticks"]
    assert os.getsid(reply["pid"]) == reply["pid"]


def test_an_early_end_is_answered_at_once_with_code_and_log(host: Host, python: str) -> None:
    host.python = python
    job = host.program("print('first line')\nprint('no such model')\nraise SystemExit(2)")
    directory, reply = host.launch(job)
    assert (reply["state"], reply["exit"]["code"], reply["exit"]["signal"]) == (telemetry.FAILED, 2, None)
    assert reply["log_tail"] == "first line\nno such model\n"
    assert "exit code 2" in reply["why"]
    assert [one["kind"] for one in host.events(directory)][:2] == ["launched", "ended"]


def test_what_the_job_gets(host: Host) -> None:
    body = (
        "import json, os, signal, sys\n"
        "ignored = [int(s) for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT) if signal.getsignal(s) == signal.SIG_IGN]\n"
        "fd = int(os.environ['EAGLEWATCH_STAGE_LOCK_FD'])\n"
        "lock = os.readlink(f'/proc/self/fd/{fd}')\n"
        "json.dump(dict(argv=sys.argv[1:], env=dict(os.environ), cwd=os.getcwd(), ignored=ignored, lock=lock,\n"
        "    fds=os.listdir('/proc/self/fd'), stdin=os.readlink('/proc/self/fd/0'), oom=int(open('/proc/self/oom_score_adj').read())),\n"
        f"    open({str(host.scratch / 'got.json')!r}, 'w'))"
    )
    own_oom = int(Path("/proc/self/oom_score_adj").read_text())
    directory, reply = host.launch(host.program(body), args=["--limit", "3 4"], env={"MY_FLAG": "ü"})
    got = json.loads((host.scratch / "got.json").read_text())
    assert reply["exit"]["code"] == 0
    assert got["argv"] == ["-u", "-m", "pipeline", "extract", "--run", str(host.run_dir), "--limit", "3 4"]
    assert got["cwd"] == directory
    assert got["stdin"] == os.devnull
    assert got["ignored"] == []
    assert got["lock"] == str(host.run_dir / "stages" / "extract" / "lock")
    assert len(got["fds"]) == 5  # 0, 1, 2, the stage lock, and the listing itself
    assert got["oom"] == min(1000, own_oom + 300)
    wanted = {
        "MY_FLAG": "ü",
        "PYTHONPATH": str(host.code_dir),
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        "EAGLEWATCH_ATTEMPT_DIR": directory,
        "EAGLEWATCH_ATTEMPT": os.path.basename(directory),
    }
    assert {name: got["env"].get(name) for name in wanted} == wanted


def test_the_host_programs_own_processes_carry_no_cookie(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(procs.COOKIE, "some-other-attempt")  # an agent that was started from within a job
    directory, reply = host.launch(sleeper(host))
    shim, supervisor = host.holder(directory, layout.LOCK)["pid"], host.holder(directory, layout.SUPERVISOR_LOCK)["pid"]
    assert procs.by_cookie("some-other-attempt", [shim, supervisor, reply["pid"]]) == set()
    assert procs.by_cookie(os.path.basename(directory), [shim, supervisor, reply["pid"]]) == {reply["pid"]}


def test_a_retry_of_a_launch_is_the_same_launch(host: Host) -> None:
    directory, first = host.launch(sleeper(host))
    again, second = host.launch(sleeper(host), os.path.basename(directory))
    assert again == directory
    assert (second["existing"], second["pid"], second["state"]) == (True, first["pid"], telemetry.RUNNING)
    assert host.lines("pids") == [str(first["pid"])]


def test_the_same_id_with_other_contents_is_refused(host: Host) -> None:
    directory, _ = host.launch(sleeper(host))
    with pytest.raises(RequestError, match="exists with other args") as caught:
        host.begin(sleeper(host), os.path.basename(directory), args=["--limit", "1"])
    assert caught.value.kind == USAGE


def test_two_attempts_at_once_are_one_job_and_the_other_is_told(host: Host) -> None:
    job = sleeper(host)
    begun = [host.begin(job) for _ in range(2)]
    replies = [wait_for(one.poll) for one in begun]
    by_state = {reply["state"]: reply for reply in replies}
    assert set(by_state) == {telemetry.RUNNING, telemetry.REFUSED}
    refused, holder = by_state[telemetry.REFUSED], by_state[telemetry.REFUSED]["holder"]
    assert holder["attempt"] == by_state[telemetry.RUNNING]["attempt"]
    assert str(holder["pid"]) in refused["why"] and "started by tester" in refused["why"]
    assert host.lines("pids") == [str(by_state[telemetry.RUNNING]["pid"])]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("/nonexistent/python", "no such file"),
        ("no-such-python-anywhere", "not found on the host's PATH"),
        ("bin/python", "a relative path"),
        (os.devnull, "not an executable file"),
        ("/", "not an executable file"),
        ("", "name the Python"),
        (None, "name the Python"),
    ],
)
def test_an_interpreter_that_cannot_be_is_refused_before_the_claim(host: Host, asked: Any, says: str) -> None:
    with pytest.raises(RequestError, match=says) as caught:
        host.begin(asked)
    assert caught.value.kind == USAGE
    assert layout.attempts(str(host.run_dir), "extract") == []


def test_an_interpreter_by_name_and_from_home(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sleeper(host)
    monkeypatch.setenv("HOME", str(host.scratch))
    monkeypatch.setenv("PATH", str(host.scratch), prepend=os.pathsep)
    assert launch.find_interpreter("~/" + os.path.basename(path)) == path
    assert launch.find_interpreter(os.path.basename(path)) == path


@pytest.mark.parametrize(
    ("fields", "kind", "says"),
    [
        ({"run": "other"}, MISSING, "no run 'other'"),
        ({"run": "../demo"}, USAGE, "run name '../demo'"),
        ({"run": None}, USAGE, "run name None"),
        ({"stage": "extrakt"}, USAGE, "no stage 'extrakt'; the stages are serve"),
        ({"stage": "train"}, USAGE, "cannot run it yet"),
        ({"attempt": "a/b"}, USAGE, "attempt id 'a/b'"),
        ({"attempt": "lock"}, USAGE, "reserved"),
        ({"args": "--limit 3"}, USAGE, "args must be a list"),
        ({"args": ["a\0b"]}, USAGE, "without NUL"),
        ({"env": ["A=1"]}, USAGE, "env must be an object"),
        ({"env": {"A B": "1"}}, USAGE, "env 'A B'"),
        ({"env": {"A": 1}}, USAGE, "env 'A'"),
        ({"env": {"PYTHONPATH": "/x"}}, USAGE, "set by the launch itself"),
    ],
)
def test_bad_requests(host: Host, fields: dict[str, Any], kind: str, says: str) -> None:
    with pytest.raises(RequestError, match=says) as caught:
        host.begin(sleeper(host), **fields)
    assert caught.value.kind == kind
    assert layout.attempts(str(host.run_dir), "extract") == []


def test_a_run_without_settings_is_refused(host: Host) -> None:
    (host.run_dir / "settings.json").write_text('{"torn": ')
    with pytest.raises(RequestError, match=r"no readable settings\.json"):
        host.begin(sleeper(host))


def test_an_exec_that_fails_is_told_with_its_reason(host: Host, python: str) -> None:
    host.python = python
    _, reply = host.launch(host.program("", shebang="/nonexistent/bin/python3"))
    assert reply["state"] == telemetry.LAUNCH_FAILED
    assert "cannot start" in reply["why"] and "the interpreter named in its first line is missing" in reply["why"]
    _, reply = host.launch(host.program("", "not-a-program", shebang="") and _garbage(host))
    assert (reply["state"], reply["pid"] is not None) == (telemetry.LAUNCH_FAILED, True)
    assert "Exec format error" in reply["why"]


def _garbage(host: Host) -> str:
    path = host.scratch / "garbage"
    path.write_bytes(b"\x00\x01\x02 no program")
    path.chmod(0o755)
    return str(path)


def test_a_supervisor_that_dies_before_the_job_is_started_again_by_the_next_poll(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def stillborn(directory: str, code_dir: str, python: str, adopt: bool = False) -> None:
        started.append(directory)
        if len(started) > 1:
            real(directory, code_dir, python, adopt)

    real = launch.start_supervisor
    monkeypatch.setattr(launch, "start_supervisor", stillborn)
    monkeypatch.setattr(launch, "_RETRY_S", 2.0)  # a loaded machine takes its time to start one
    _, reply = host.launch(sleeper(host))
    assert len(started) == 2
    assert reply["state"] == telemetry.RUNNING


def test_a_launch_that_nobody_carries_out_is_answered_by_the_deadline(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "start_supervisor", lambda *_: None)
    monkeypatch.setattr(launch, "DEADLINE_S", 0.3)
    directory, reply = host.launch(sleeper(host))
    assert (reply["state"], reply["pid"], reply["why"]) == (telemetry.LAUNCHING, None, "no process yet")
    later = state.view(directory, procs.clock.boot_s() + 61)
    assert later["state"] == telemetry.LAUNCH_FAILED
    monkeypatch.undo()
    _, reply = host.launch(sleeper(host), os.path.basename(directory))  # a retry, however late, still starts it
    assert (reply["state"], reply["existing"]) == (telemetry.RUNNING, True)


def test_what_dead_launches_prepared_is_cleared_away(host: Host) -> None:
    stage = host.run_dir / "stages" / "extract"
    old, young = stage / ".new-1-old", stage / ".new-1-young"
    for path in (old, young):
        (path / "progress").mkdir(parents=True)
        (path / "spec.json").write_text("{")
    os.utime(old, (1, 1))
    host.begin(sleeper(host))
    assert (old.exists(), young.exists()) == (False, True)
