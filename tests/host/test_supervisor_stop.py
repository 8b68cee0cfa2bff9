"""A stop reaches everything that a job started, whoever is left to carry it out, and nothing else."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from host_jobs import ask_stop, exits_on_request, kill, kinds, last_supervisor, launch_family, shim_pid, supervisor_pid
from host_launches import RUN, Host, running, start_by_hand, wait_for

from pipeline.contract import layout, telemetry
from pipeline.contract.files import write_json
from pipeline.host import launch, procs, services, state, stop


def test_a_stop_ends_every_kind_of_child(host: Host, python: str) -> None:
    host.python = python
    directory, pids = launch_family(host)
    ask_stop(host, directory)
    view = host.wait_state(directory, telemetry.STOPPED)
    assert (view["exit"]["signal"], view["why"]) == (signal.SIGTERM, "stopped by tester; SIGTERM")
    for pid in pids.values():
        host.wait_gone(pid)
    survivors = host.wait_event(directory, "survivors")["pids"]
    assert set(pids.values()) - {pids["main"]} <= set(survivors)


def test_a_stop_of_a_family_that_ignores_sigterm_kills_it_after_the_grace(host: Host, python: str) -> None:
    host.python = python
    directory, pids = launch_family(host, "ignore")
    asked = ask_stop(host, directory, grace_s=1.0)
    assert (asked["state"], asked["asked"]) == (telemetry.STOPPING, True)
    view = host.wait_state(directory, telemetry.STOPPED)
    assert view["exit"]["signal"] == signal.SIGKILL
    for pid in pids.values():
        host.wait_gone(pid)
    events = {one["kind"]: one for one in host.events(directory)}
    assert events["kill_sent"]["boot_s"] - events["term_sent"]["boot_s"] >= 1.0
    assert kinds(host, directory).count("term_sent") == 1
    assert set(pids.values()) <= {pid for one in host.events(directory) if one["kind"] == "kill_sent" for pid in one["pids"]}


def test_a_stop_by_an_adopting_supervisor_finds_the_family_too(host: Host, python: str) -> None:
    host.python = python
    directory, pids = launch_family(host, "ignore")
    kill(supervisor_pid(host, directory), shim_pid(host, directory))
    ask_stop(host, directory, grace_s=0.5)  # starts one that is no ancestor of the job
    for kind, pid in pids.items():
        if kind != "empty-daemon":  # fell to pid 1 with nothing that names it: only a subreaper has it
            host.wait_gone(pid)
    view = host.wait_state(directory, telemetry.STOPPED)
    assert view["why"] == "stopped by tester; exit code unknown"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start another user's process")
def test_another_users_process_with_the_cookie_is_left_alone_and_told_and_a_child_that_changed_its_user_is_not(host: Host) -> None:
    child = "os.setgid(65534); os.setuid(65534); time.sleep(600)"
    body = f"import os, time\npid = os.fork()\nif pid == 0:\n    {child}\nprint('child', pid, flush=True)\ntime.sleep(600)"
    directory, _ = host.launch(host.program(body))
    ours = int(wait_for(lambda: "child" in launch.log_tail(directory) and launch.log_tail(directory), "the child").split()[1])
    cookie = {procs.COOKIE: Path(directory).name}
    theirs = subprocess.Popen(["sleep", "600"], user=65534, start_new_session=True, env=cookie)
    same = subprocess.Popen(["sleep", "600"], start_new_session=True, env=cookie)
    try:
        done = services.stop_manager(
            {"how": "attempt", "name": "x", "run": RUN, "stage": "extract", "attempt": Path(directory).name},
            5.0,
            str(host.data_dir),
            "tester",
            lambda: False,
        )
        assert done.ok and done.said.endswith(f"; left alone, of another user though with its cookie: {theirs.pid}"), done.said
        assert host.wait_event(directory, "left_alone")["pids"] == [theirs.pid]
        assert theirs.poll() is None and same.wait(20) == -signal.SIGTERM and not running(ours)
    finally:
        for process in (theirs, same):
            process.kill()
            process.wait(20)


def test_a_job_that_ends_by_itself_leaves_nobody(host: Host) -> None:
    directory, pids = launch_family(host, then="time.sleep(2.5)")
    view = host.wait_state(directory, telemetry.UNVERIFIED)
    assert view["exit"]["code"] == 0
    for pid in pids.values():
        host.wait_gone(pid)
    survivors = host.wait_event(directory, "survivors")["pids"]
    assert set(survivors) == set(pids.values()) - {pids["main"]}


def test_a_frozen_job_can_still_stop_cleanly(host: Host) -> None:
    body = (
        "import signal, sys, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (open({str(host.scratch / 'clean')!r}, 'w').close(), sys.exit(0)))\n"
        "time.sleep(600)"
    )
    directory, reply = host.launch(host.program(body))
    os.kill(reply["pid"], signal.SIGSTOP)
    ask_stop(host, directory, grace_s=30)
    view = host.wait_state(directory, telemetry.STOPPED)
    assert (view["exit"]["code"], (host.scratch / "clean").exists()) == (0, True)


def test_a_second_stop_keeps_who_asked_and_shortens_the_grace(host: Host) -> None:
    body = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
    directory, _ = host.launch(host.program(body))
    ask_stop(host, directory, grace_s=600, by="first")
    wait_for(lambda: stop.stop_taken(directory))
    ask_stop(host, directory, grace_s=900, by="second")
    assert host.read(directory, layout.STOP)["grace_s"] == 600
    ask_stop(host, directory, grace_s=0, by="third")
    view = host.wait_state(directory, telemetry.STOPPED)
    assert view["why"] == "stopped by first; SIGKILL"
    assert kinds(host, directory).count("term_sent") == 1


def test_a_stop_after_the_end_changes_nothing(host: Host) -> None:
    directory, _ = host.launch(host.program("raise SystemExit(3)"))
    assert ask_stop(host, directory) == {"attempt": os.path.basename(directory), "state": telemetry.FAILED, "asked": False}
    assert not os.path.exists(os.path.join(directory, layout.STOP))


def test_a_stop_before_the_start_means_that_it_never_starts(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "start_supervisor", lambda *_, **__: None)
    begun = host.begin(host.program(f"open({str(host.scratch / 'ran')!r}, 'w')"))
    begun.poll()
    ask_stop(host, begun.directory)
    assert state.view(begun.directory)["state"] == telemetry.STOPPING
    monkeypatch.undo()
    host.adopt(begun.directory)
    view = host.wait_state(begun.directory, telemetry.STOPPED)
    assert (view["why"], view["pid"]) == ("stopped by tester; not started", None)
    assert not (host.scratch / "ran").exists()


def test_a_stop_survives_who_asked_and_the_supervisor(host: Host) -> None:
    """The supervisor is killed between SIGTERM and the end of the grace; the next one does not send a second SIGTERM."""
    noted = host.scratch / "terms"
    body = (
        f"import signal, time\nsignal.signal(signal.SIGTERM, lambda *_: open({str(noted)!r}, 'a').write('x'))\nwhile True: time.sleep(600)"
    )
    directory, reply = host.launch(host.program(body))
    ask_stop(host, directory, grace_s=4)
    host.wait_event(directory, "term_sent")
    kill(supervisor_pid(host, directory))
    host.adopt(directory)
    view = host.wait_state(directory, telemetry.STOPPED)
    assert (view["exit"]["signal"], noted.read_text()) == (signal.SIGKILL, "x")
    assert not running(reply["pid"])


def test_a_stop_of_a_run_started_by_hand_spares_the_shell_it_was_started_from(host: Host) -> None:
    process = start_by_hand(host, "while True:\n    attempt.raise_if_stopped()\n    time.sleep(0.05)")
    bystander = subprocess.Popen(["sleep", "600"])  # same session, same parent
    try:
        assert process.stdout is not None
        attempt = process.stdout.readline().split()[1]
        directory = layout.attempt_dir(str(host.run_dir), "extract", attempt)
        ask_stop(host, directory)
        assert process.wait(60) == 1
        view = host.wait_state(directory, telemetry.STOPPED)
        assert view["why"] == "stopped by tester; exit code 1"
        host.wait_gone(last_supervisor(host, directory))
        assert bystander.poll() is None
    finally:
        for one in (process, bystander):
            one.kill()
            one.communicate()


def test_a_reused_pid_is_never_signalled(host: Host) -> None:
    """An ident whose pid now is another process: the state says ended, and a supervisor with a stop leaves it alone."""
    innocent = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        begun = host.begin(exits_on_request(host))
        identity = procs.identity(innocent.pid)
        forged = dict(identity, start_ticks=identity["start_ticks"] - 1, own_session=True, attempt=os.path.basename(begun.directory))
        write_json(os.path.join(begun.directory, layout.IDENT), dict(forged, boot_s=1.0, wall_s=1.0))
        write_json(os.path.join(begun.directory, layout.STOP), {"by": "x", "grace_s": 0, "boot_s": 1.0})
        assert not procs.signal_process(forged, signal.SIGKILL)
        host.adopt(begun.directory)
        host.wait_event(begun.directory, "ended")
        host.wait_gone(last_supervisor(host, begun.directory))
        assert innocent.poll() is None
        assert not {"term_sent", "kill_sent", "survivors"} & set(kinds(host, begun.directory))
        assert procs.signal_process(identity, signal.SIGKILL)
        assert innocent.wait(30) == -signal.SIGKILL
    finally:
        innocent.kill()
        innocent.wait()


def test_an_attempt_of_another_pid_namespace_is_left_alone(host: Host) -> None:
    """From outside a container its main process cannot be told alive, but its children show, cookie and all."""
    begun = host.begin(exits_on_request(host))
    attempt = os.path.basename(begun.directory)
    child = subprocess.Popen(["sleep", "600"], env={procs.COOKIE: attempt}, start_new_session=True)
    try:
        ident = dict(procs.identity(child.pid), pid_ns=1, own_session=True, attempt=attempt, boot_s=1.0, wall_s=1.0)
        write_json(os.path.join(begun.directory, layout.IDENT), ident)
        write_json(os.path.join(begun.directory, layout.STOP), {"by": "x", "grace_s": 0, "boot_s": 1.0})
        host.adopt(begun.directory)
        host.wait_gone(last_supervisor(host, begun.directory))
        assert child.poll() is None
        assert kinds(host, begun.directory) == ["adopted"]
        assert "another pid namespace" in Path(begun.directory, layout.HOST_LOG).read_text()
    finally:
        child.kill()
        child.wait()
