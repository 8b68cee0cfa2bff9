"""A launch that is cut off and asked for again, and one that is asked for twice at once: one job."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from host_jobs import sleeper
from host_launches import Host, wait_for

from pipeline.contract import layout, telemetry
from pipeline.host import launch, procs

DRIVER = """
import json, sys, time
code, data, request = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
sys.path.insert(0, code)
from pipeline.host import launch
print("ready", flush=True)
sys.stdin.readline()
one = launch.Launch(data, request, code)
while True:
    reply = one.poll()
    if reply is not None:
        break
    time.sleep(0.02)
print(json.dumps(reply), flush=True)
"""


class Driver:
    """A launching process of its own, as the agent is; it launches when told to."""

    def __init__(self, host: Host, request: dict[str, Any]):
        command = [sys.executable, "-s", "-S", "-c", DRIVER, str(host.code_dir), str(host.data_dir), json.dumps(request)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None and self.process.stdout.readline() == "ready\n"

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def reply(self) -> dict[str, Any]:
        out, _ = self.process.communicate(timeout=60)
        return json.loads(out)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def make_runs(host: Host, count: int) -> list[str]:
    names = [f"run{number}" for number in range(count)]
    for name in names:
        path = Path(layout.run_dir(str(host.data_dir), name))
        path.mkdir(parents=True)
        (path / "settings.json").write_text("{}")
    return names


def supervisors_of(directory: str) -> int:
    found = 0
    for pid in procs.scan():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        found += directory.encode() in command and b"supervise" in command
    return found


@pytest.mark.timeout(240)
def test_kill_the_launching_process_at_60_moments_and_retry(host: Host) -> None:
    """One job each, never none and never two."""
    generator = random.Random(20)
    moments = [(number + generator.random()) * 0.080 / 60 for number in range(60)]
    generator.shuffle(moments)
    names = make_runs(host, 60)
    existing = 0
    for first in range(0, 60, 15):  # in groups: 15 jobs with supervisor and shim at a time
        group = list(range(first, first + 15))
        requests = [host.request(sleeper(host, names[number]), run=names[number]) for number in group]
        for number, request in zip(group, requests, strict=True):
            driver = Driver(host, request)
            driver.go()
            time.sleep(moments[number])
            driver.kill()
        retries = [launch.Launch(str(host.data_dir), request, str(host.code_dir)) for request in requests]
        existing += sum(one.existing for one in retries)
        replies: dict[int, dict[str, Any]] = {}

        def all_answered(retries: list[launch.Launch] = retries, replies: dict[int, dict[str, Any]] = replies) -> bool:
            for at, one in enumerate(retries):
                reply = None if at in replies else one.poll()
                if reply is not None:
                    replies[at] = reply
            return len(replies) == len(retries)

        wait_for(all_answered, "15 replies")
        for at, number in enumerate(group):
            assert replies[at]["state"] == telemetry.RUNNING, replies[at]
            assert host.lines(names[number]) == [str(replies[at]["pid"])]
            assert supervisors_of(retries[at].directory) == 1
        for at in range(len(group)):
            os.kill(replies[at]["pid"], 15)
        for one in retries:
            assert host.wait_state(one.directory, telemetry.CRASHED)["exit"]["signal"] == 15
    assert 0 < existing < 60, "the moments missed the launch"


def test_the_same_launch_from_two_processes_at_once_is_one_job(host: Host) -> None:
    for name in make_runs(host, 6):
        request = host.request(sleeper(host, name), run=name)
        drivers = [Driver(host, request) for _ in range(2)]
        threads = [threading.Thread(target=driver.go) for driver in drivers]
        for thread in threads:
            thread.start()
        replies = [driver.reply() for driver in drivers]
        assert {reply["state"] for reply in replies} == {telemetry.RUNNING}
        assert sorted(reply["existing"] for reply in replies) == [False, True]
        assert host.lines(name) == [str(replies[0]["pid"])] == [str(replies[1]["pid"])]


def test_launching_leaves_no_zombie(host: Host) -> None:
    before = procs.descendants({os.getpid()})  # other tests of this worker may keep helpers
    host.launch(sleeper(host))
    assert procs.descendants({os.getpid()}) <= before


CUT = """
import importlib, os, sys
module, name, when = sys.argv.pop(1).split(":")
sys.path.insert(0, sys.argv[1])
target = importlib.import_module(module)
real = getattr(target, name)
def cut(*arguments, **more):
    if when == "after":
        real(*arguments, **more)
    os.kill(os.getpid(), 9)
setattr(target, name, cut)
"""


@pytest.mark.parametrize(
    "where",
    [
        "pipeline.host.reserved:reserve:after",  # prepared, not claimed
        "pipeline.host.claims:write_json:after",  # one step before the rename
        "pipeline.host.claims:sync_directory:before",  # claimed, perhaps not durable
        "pipeline.host.launch:start_supervisor:before",  # claimed, not started
        "pipeline.host.launch:start_supervisor:after",  # started, never asked again
    ],
)
def test_cut_off_at_every_step_and_retried(host: Host, where: str) -> None:
    request = host.request(sleeper(host))
    arguments = [where, str(host.code_dir), str(host.data_dir), json.dumps(request)]
    done = subprocess.run(
        [sys.executable, "-s", "-S", "-c", CUT + DRIVER, *arguments], input="go\n", text=True, capture_output=True, timeout=60
    )
    assert done.returncode == -9, done.stderr
    retry = launch.Launch(str(host.data_dir), request, str(host.code_dir))
    assert retry.existing == ("reserve" not in where and "write_json" not in where)
    reply = wait_for(retry.poll)
    assert reply["state"] == telemetry.RUNNING
    assert host.lines("pids") == [str(reply["pid"])]
