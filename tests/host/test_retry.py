"""``retry = 1``: one restart of a stage that crashed after it had made something, and none where that would only end it again."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from host_jobs import ask_stop
from host_launches import Host, wait_for

from pipeline.contract import layout, telemetry
from pipeline.host import history, retry, state

JOB = """
import json, os, signal, sys, time
attempt = os.environ["EAGLEWATCH_ATTEMPT_DIR"]
now = time.clock_gettime(7)
progress = {"phase": "steady", "unit": "sample", "done": %d, "total": 9, "resumed_done": 3, "boot_s": now, "last_boot_s": now}
with open(os.path.join(attempt, "progress", "0.json"), "w") as file:
    json.dump(progress, file)
with open(os.path.join(attempt, "nice.txt"), "w") as file:
    file.write(str(os.nice(0)))
%s
time.sleep(2.2)
os.kill(os.getpid(), signal.%s)
"""


def crash(host: Host, done: int = 5, more: str = "", how: str = "SIGSEGV", retries: int = 1, **fields: Any) -> str:
    value = {"model": {"path": "/m"}, "extract": {"output": "out", "min_free_bytes": 0}, "retry": retries}
    (host.run_dir / "settings.json").write_text(json.dumps(value))
    return host.launch(host.program(JOB % (done, more, how)), **fields)[0]


def retries(host: Host, directory: str) -> list[dict[str, Any]]:
    """The events about it, once the lookout has ended."""
    wait_for(lambda: host.read(directory, layout.LOOKOUT)["level"] == "" and not _held(directory), "the end of the lookout")
    return [one for one in host.events(directory) if one["kind"] == "retry"]


def _held(directory: str) -> bool:
    from pipeline.host import locks

    return locks.is_held(os.path.join(directory, layout.LOOKOUT_LOCK))


def test_it_is_started_again_as_it_was_and_only_once(host: Host) -> None:
    directory = crash(host, stage="prepare", args=["--verify"], env={"MARK": "1"})
    told = host.wait_event(directory, "retry")
    again = layout.attempt_dir(str(host.run_dir), "prepare", told["attempt"])
    first, second = (host.read(one, layout.SPEC) for one in (directory, again))
    name = os.path.basename(directory)
    assert (second["retry_of"], second["by"], second["interpreter"]) == (name, f"retry of {name}", first["interpreter"])
    assert second["args"] == ["--verify"] and second["env"]["MARK"] == "1"
    assert told["line"] == f"started again as attempt {told['attempt']}; it goes on at 5"
    host.wait_state(again, telemetry.CRASHED)
    assert [Path(one, "nice.txt").read_text() for one in (directory, again)] == [str(os.nice(0))] * 2, "no slower than the first"
    assert [one["why_not"] for one in retries(host, again)] == [f"it was a retry itself, of attempt {name}"]
    subprocess.run([sys.executable, "-s", "-S", str(host.code_dir), "lookout", directory], check=True)
    assert len(retries(host, directory)) == 1, "a lookout that comes later decides nothing anew"
    lines = history.newest(str(host.data_dir))
    assert [(one["attempt"], one["retried"], one["outcome"], one["samples"]) for one in lines] == [
        (name, True, "CRASHED", 2), (told["attempt"], False, "CRASHED", 2),
    ]  # fmt: skip


def test_not_after_nothing_was_made_nor_when_the_log_tells_of_the_disk(host: Host) -> None:
    nothing = crash(host, done=3, stage="prepare")
    full = crash(host, stage="vocab", more="print('OSError: [Errno 28] No space left on device', flush=True)")
    assert [one["why_not"] for one in retries(host, nothing)] == ["it had made nothing since its start"]
    assert [one["why_not"] for one in retries(host, full)] == ["its log tells: disk error"]
    assert len(layout.attempts(str(host.run_dir), "prepare")) == 1


def test_not_when_it_was_stopped_nor_without_the_setting(host: Host) -> None:
    stopped = crash(host, stage="prepare", more="time.sleep(600)")
    ask_stop(host, stopped, 0.0)
    plain = crash(host, stage="vocab", retries=0)
    assert retries(host, stopped) == retries(host, plain) == []
    assert state.view(stopped)["state"] == telemetry.STOPPED and state.view(plain)["state"] == telemetry.CRASHED


SEEN = {
    "grew": True, "alarms": {}, "free_bytes": 1e12, "min_free_bytes": 2e10, "memory_share": 0.6, "exit": {"signal": int(signal.SIGSEGV)},
    "newest": "a1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ({}, ""),
        ({"alarms": {"traceback": 1, "cuda": 2}}, ""),
        ({"grew": False}, "it had made nothing since its start"),
        ({"alarms": {"memory": 1}}, "its log tells: out of memory"),
        ({"free_bytes": 1e10}, "its disk has only 10.0 GB left"),
        ({"free_bytes": 1e8, "min_free_bytes": None}, "its disk has only 0.1 GB left"),
        ({"free_bytes": None}, ""),
        ({"exit": {"signal": 9, "oom_kills": 1}}, "out of memory: cgroup oom_kill +1"),
        ({"exit": {"signal": 9}, "memory_share": 0.01}, "SIGKILL, and the host's available memory was down to 1 %"),
        ({"exit": {"signal": 9}, "memory_share": None}, "SIGKILL, and the host's available memory could not be read"),
        ({"exit": {"signal": 9, "oom_kills": 0}}, ""),
        ({"exit": {"signal": 15}}, "somebody ended it by SIGTERM"),
        ({"newest": "a2"}, "the stage was started again since: attempt a2"),
    ],
)
def test_what_speaks_against_it(seen: dict[str, Any], why: str) -> None:
    view = {"state": telemetry.CRASHED, "stage": "extract", "attempt": "a1", "exit": {"code": None, "signal": 11}}
    assert retry.why_not(view, {}, {"retry": 1}, {**SEEN, **seen}) == why
    assert retry.why_not(view, {}, {"retry": 0}, {**SEEN, **seen}) is None
    assert retry.why_not({**view, "state": telemetry.STOPPED}, {}, {"retry": 1}, SEEN) is None
    assert retry.why_not({**view, "state": telemetry.FAILED, "exit": {"code": 2}}, {}, {"retry": 1}, SEEN) is None
    assert retry.why_not({**view, "state": telemetry.FAILED, "exit": {"code": 1}}, {}, {"retry": 1}, SEEN) == ""


def test_the_gpus_of_the_new_attempt_are_asked_for_as_those_of_the_old() -> None:
    gpus = {"expected_gpus": 8, "gpu_uuids": [], "wanted": ["GPU-1"], "label": "k25", "override": "I know", "free": True, "cards": []}
    spec = {"run": "demo", "stage": "extract", "attempt": "a1", "asked": {"interpreter": "/p", "args": [], "env": {}}, "gpus": gpus}
    asked = retry.request_of(spec, "a2")
    assert asked["gpus"] == {"expected_gpus": 8, "gpu_uuids": [], "wanted": ["GPU-1"], "label": "k25"} and "override" not in asked
