"""What watches a job may be killed at any moment: the job goes on, once, and its end is told as far as anybody saw it."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from host_jobs import exits_on_request, kill, kinds, last_supervisor, let_go, shim_pid, supervisor_pid
from host_launches import Host, running, wait_for

from pipeline.contract import layout, telemetry
from pipeline.host import locks, procs, state


def test_the_supervisor_dies_the_job_goes_on_and_another_adopts_it(host: Host, python: str) -> None:
    host.python = python
    directory, reply = host.launch(exits_on_request(host))
    kill(supervisor_pid(host, directory))
    view = state.view(directory)
    assert (view["state"], view["supervised"], running(reply["pid"])) == (telemetry.RUNNING, False, True)
    host.adopt(directory)
    supervisor_pid(host, directory)
    host.wait_event(directory, "adopted")
    before = host.read(directory, layout.STATUS)["boot_s"]
    wait_for(lambda: host.read(directory, layout.STATUS)["boot_s"] > before, "a heartbeat")
    assert state.view(directory)["supervised"]
    let_go(host)
    view = host.wait_state(directory, telemetry.FAILED)
    assert view["exit"]["code"] == 7  # by the first supervisor's shim, which is still its parent


def test_the_shim_dies_and_the_supervisor_learns_the_exit_code(host: Host, python: str) -> None:
    host.python = python
    directory, reply = host.launch(exits_on_request(host))
    kill(shim_pid(host, directory))
    view = state.view(directory)
    assert (view["state"], running(reply["pid"])) == (telemetry.RUNNING, True)
    assert locks.is_held(os.path.join(os.path.dirname(directory), layout.LOCK))
    _, other = host.launch(exits_on_request(host))
    assert (other["state"], other["holder"]["pid"]) == (telemetry.REFUSED, reply["pid"])
    let_go(host)
    view = host.wait_state(directory, telemetry.FAILED)
    assert (view["exit"]["code"], host.read(directory, layout.EXIT)["by"]) == (7, "supervisor")
    host.wait_gone(last_supervisor(host, directory))
    assert kinds(host, directory).count("ended") == 1


def test_both_die_and_nobody_guesses_the_exit_code(host: Host) -> None:
    directory, reply = host.launch(exits_on_request(host, code=0))
    kill(supervisor_pid(host, directory), shim_pid(host, directory))
    assert state.view(directory)["state"] == telemetry.RUNNING
    _, other = host.launch(exits_on_request(host))
    assert (other["state"], other["holder"]["attempt"]) == (telemetry.REFUSED, os.path.basename(directory))
    let_go(host)
    host.wait_gone(reply["pid"])
    view = host.wait_state(directory, telemetry.ENDED_UNKNOWN)
    assert view["why"].startswith("ended, code unknown")
    assert view["exit"] is None
    assert not locks.is_held(os.path.join(os.path.dirname(directory), layout.LOCK))


def test_both_die_and_an_adopting_supervisor_sees_the_end(host: Host, python: str) -> None:
    host.python = python
    directory, _ = host.launch(exits_on_request(host, code=0))
    kill(supervisor_pid(host, directory), shim_pid(host, directory))
    host.adopt(directory)
    supervisor = supervisor_pid(host, directory)
    let_go(host)
    host.wait_gone(supervisor)
    ended = host.wait_event(directory, "ended")
    assert (ended["code"], ended["signal"], ended["by"]) == (None, None, "supervisor")
    assert state.view(directory)["state"] == telemetry.ENDED_UNKNOWN
    assert not os.path.exists(os.path.join(directory, layout.EXIT))


def test_supervisor_and_shim_killed_at_30_early_moments_never_give_two_jobs_or_a_silent_none(host: Host) -> None:
    """With the launching process alive, so that its next poll is the retry."""
    job = host.program(f"echo $$ >> {host.scratch}/$EAGLEWATCH_ATTEMPT\nexec sleep 600", "noter", shebang="/bin/sh")
    generator = random.Random(5)
    retries = []
    for number in range(30):
        name = f"run{number}"
        path = Path(layout.run_dir(str(host.data_dir), name))
        path.mkdir(parents=True)
        (path / "settings.json").write_text("{}")
        one = host.begin(job, run=name)
        one.poll()
        time.sleep((number + generator.random()) * 0.250 / 30)
        for lock in (layout.SUPERVISOR_LOCK, layout.LOCK):
            holder = locks.read_holder(os.path.join(one.directory, lock))
            if procs.alive(holder):
                os.kill(holder["pid"], signal.SIGKILL)
        retries.append(host.begin(job, os.path.basename(one.directory), run=name))
    replies: dict[str, dict[str, Any]] = {}

    def all_answered() -> bool:
        for one in retries:
            reply = None if one.directory in replies else one.poll()
            if reply is not None:
                replies[one.directory] = reply
        return len(replies) == len(retries)

    wait_for(all_answered, "30 replies")
    for directory, reply in replies.items():
        pids = host.lines(os.path.basename(directory))
        if reply["state"] == telemetry.RUNNING:
            assert pids == [str(reply["pid"])]
        else:  # killed between ident.json and exec: known by name, and never started again
            assert reply["state"] in (telemetry.LAUNCH_FAILED, telemetry.ENDED_UNKNOWN), reply
            assert pids == []
            assert reply["why"]
    assert sum(reply["state"] == telemetry.RUNNING for reply in replies.values()) >= 15, replies


DYING_SHIM = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pipeline.host import shim
real = shim.write_json
def write_and_die(path, value):
    if sys.argv[3] == "after":
        real(path, value)
    os.kill(os.getpid(), 9)
shim.write_json = write_and_die
shim.main([sys.argv[2]])
"""


def run_dying_shim(host: Host, directory: str, when: str) -> None:
    """A shim that is killed ``before`` or ``after`` ident.json is on disk, with the job waiting at the gate."""
    done = subprocess.run([sys.executable, "-c", DYING_SHIM, str(host.code_dir), directory, when], timeout=30)
    assert done.returncode == -signal.SIGKILL


def test_a_shim_killed_before_its_ident_leaves_the_attempt_to_a_retry(host: Host) -> None:
    begun = host.begin(exits_on_request(host))
    run_dying_shim(host, begun.directory, "before")
    reply = wait_for(begun.poll)
    assert (reply["state"], state.view(begun.directory)["supervised"]) == (telemetry.RUNNING, True)


def test_a_shim_killed_after_its_ident_never_started_the_job_and_that_is_known(host: Host) -> None:
    begun = host.begin(host.program(f"open({str(host.scratch / 'ran')!r}, 'w')"))
    run_dying_shim(host, begun.directory, "after")
    reply = wait_for(begun.poll)
    assert (reply["state"], reply["why"]) == (telemetry.LAUNCH_FAILED, "the shim died before the job was started")
    assert not (host.scratch / "ran").exists()


def test_no_later_shim_starts_an_attempt_a_second_time_or_speaks_for_it(host: Host) -> None:
    directory, reply = host.launch(exits_on_request(host, code=0))
    kill(supervisor_pid(host, directory), shim_pid(host, directory))
    shim = [sys.executable, "-s", "-S", str(host.code_dir), "shim", directory]
    assert subprocess.run(shim, timeout=60).returncode == 0
    view = state.view(directory)
    assert (view["state"], view["pid"], view["exit"]) == (telemetry.RUNNING, reply["pid"], None)
    let_go(host)
    host.wait_state(directory, telemetry.ENDED_UNKNOWN)
    assert subprocess.run(shim, timeout=60).returncode == 0
    assert state.view(directory)["state"] == telemetry.ENDED_UNKNOWN
    assert kinds(host, directory).count("launched") == 1
