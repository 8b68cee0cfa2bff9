"""The lookout of an attempt: what it tells with nobody connected, what it outlives, and what it is no part of."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from agent_client import AgentClient
from host_jobs import ask_stop, kill, kinds, last_supervisor
from host_launches import RUN, Host, running, wait_for

from pipeline.contract import layout, telemetry
from pipeline.host import locks, lookout_gpus, lookout_view, procs, state

WORKER = """
import json, os, sys, time
def tell(done, phase="steady", **more):
    path = os.path.join(os.environ["EAGLEWATCH_ATTEMPT_DIR"], "progress", "0.json")
    now = time.clock_gettime(7)
    value = {"phase": phase, "unit": "sample", "done": done, "total": 10000, "tokens": done * 10, "resumed_done": 0, "phase_boot_s": 1.0}
    value.update(first_boot_s=now - 1, first_tokens=0, last_boot_s=now, beat_boot_s=now, boot_s=now, **more)
    with open(path + ".new", "w") as file:
        json.dump(value, file)
    os.replace(path + ".new", path)
"""


def settings(host: Host, scale: float = 0.02, **sections: Any) -> None:
    value = {"model": {"path": "/nonexistent"}, "extract": {"output": "data/hidden_states"}, "watch": {"stall_scale": scale}, **sections}
    (host.run_dir / "settings.json").write_text(json.dumps(value))


def lookout(host: Host, directory: str) -> dict[str, Any]:
    """What it has published."""
    return host.read(directory, layout.LOOKOUT)


def lookout_pid(host: Host, directory: str) -> int:
    path = os.path.join(directory, layout.LOOKOUT_LOCK)
    return wait_for(lambda: procs.alive(locks.read_holder(path)) and locks.read_holder(path)["pid"], "a lookout")


def test_a_stall_is_an_event_and_in_the_view_and_progress_clears_it(host: Host) -> None:
    settings(host)
    go = host.scratch / "go"
    body = "for done in range(1, 60):\n    tell(done)\n    time.sleep(0.05)\n"
    body += f"while not os.path.exists({str(go)!r}):\n    time.sleep(0.05)\n"
    body += "while True:\n    done += 1\n    tell(done)\n    time.sleep(0.05)"
    directory, _ = host.launch(host.program(WORKER + body), stage="prepare")
    stall = wait_for(lambda: next((one for one in host.events(directory) if one["kind"] == "stall" and one["severity"] == "red"), None))
    assert stall["level"] == "STALLED" and stall["by"] == "lookout" and stall["before"] and stall["line"]
    wait_for(lambda: lookout(host, directory)["severity"] == "red")
    view = state.view(directory)
    assert view["lookout"]["since_boot_s"] <= 0.01 + view["lookout"]["boot_s"]
    assert "boot_id" not in view["lookout"]
    assert view["tree"]["write_bytes"] is not None and view["rank_progress"][0]["rank"] == 0
    go.touch()
    wait_for(lambda: lookout(host, directory)["severity"] == "ok", "the end of the stall")
    wait_for(lambda: lookout(host, directory)["gaps"].get("steady", {}).get("count", 0) > 5, "what is usual")
    points = host.read(directory, layout.CURVE)["points"]
    assert len(points) > 2 and all(len(one) == 5 for one in points) and points[-1][1] >= 59


def test_an_alarm_is_there_within_a_second_and_in_no_flood_of_events(host: Host) -> None:
    line = "(Worker_TP3 pid=12) ERROR RuntimeError: CUDA error: an illegal memory access was encountered"
    told = f"    print({line!r}, flush=True)\n    print(time.clock_gettime(7), flush=True)\n"
    directory, _ = host.launch(host.program("import time\nfor _ in range(100):\n" + told + "time.sleep(600)"))
    alarm = host.wait_event(directory, "alarm")
    assert (alarm["alarm"], alarm["worker"]) == ("cuda", "Worker_TP3") and "illegal memory access" in alarm["line"]
    written_s = float(Path(directory, layout.LOG).read_text().splitlines()[-1])
    assert alarm["boot_s"] - written_s < 30, "a loaded machine; benchmarks measure it"
    seen = wait_for(lambda: (lookout(host, directory).get("alarms") or [{}])[0].get("count") == 100 and lookout(host, directory))
    assert seen["workers"] == ["Worker_TP3"] and seen["ranks_seen"] == 1
    assert 1 <= kinds(host, directory).count("alarm") <= 7, "as their number doubles"


def test_it_is_no_part_of_the_attempt_and_outlives_its_supervisor(host: Host) -> None:
    directory, _ = host.launch(host.program("import time\ntime.sleep(600)"))
    pid = lookout_pid(host, directory)
    assert os.getsid(pid) != os.getsid(last_supervisor(host, directory))
    assert not procs.by_cookie(os.path.basename(directory), [pid])
    wait_for(lambda: (host.read(directory, layout.STATUS).get("tree") or {}).get("procs") == 1, "a tree of one process")
    kill(last_supervisor(host, directory))
    assert running(pid)
    host.adopt(directory)
    host.wait_event(directory, "adopted")
    assert lookout_pid(host, directory) == pid, "one an attempt"
    ask_stop(host, directory, 1.0)
    view = host.wait_state(directory, telemetry.STOPPED)
    assert "survivors" not in [one["kind"] for one in view["events"]]
    host.wait_gone(pid)
    assert lookout(host, directory)["level"] == ""


def test_a_killed_one_is_started_again_and_goes_on(host: Host) -> None:
    program = host.program("import time\nprint('Killed', flush=True)\nprint('[rank1]: hello', flush=True)\ntime.sleep(600)")
    directory, _ = host.launch(program)
    wait_for(lambda: lookout(host, directory)["alarms"], "the alarm")
    kill(lookout_pid(host, directory))
    kill(last_supervisor(host, directory))
    host.adopt(directory)
    lookout_pid(host, directory)
    before = lookout(host, directory)["boot_s"]
    after = wait_for(lambda: lookout(host, directory)["boot_s"] > before and lookout(host, directory))
    assert after["workers"] == ["rank1"] and after["alarms"][0]["count"] == 1, "nothing is counted twice"


@pytest.mark.parametrize(
    "damage",
    [
        "[1",
        '{"alarms": 7, "log": [1], "told": [2]}',
        '{"gaps": {"steady": 7}, "alarms": [3], "log": [], "workers": 9, "power_w": {"a": "b"}}',
    ],
)
def test_damaged_files_do_not_end_it(host: Host, damage: str) -> None:
    said = "Traceback (most recent call last):\n  File x\nValueError: no"
    program = host.program(f"import time\ntime.sleep(2)\nprint({said!r}, flush=True)\ntime.sleep(600)")
    begun = host.begin(program)
    known = damage if damage.startswith("[") else json.dumps({**json.loads(damage), "boot_id": procs.this_boot()})
    Path(begun.directory, layout.LOOKOUT).write_text(known)
    Path(begun.directory, layout.CURVE).write_text(known)
    Path(begun.directory, "progress", "0.json").write_text('{"done": "many", "facts": 5, "phase": [], "total": -1}')
    wait_for(begun.poll)
    alarm = host.wait_event(begun.directory, "alarm")
    assert alarm["alarm"] == "traceback" and alarm["line"].endswith("ValueError: no")
    os.kill(lookout_pid(host, begun.directory), signal.SIGHUP)
    assert wait_for(lambda: lookout(host, begun.directory).get("alarms"))


def test_a_new_kind_of_alarm_does_not_wait_for_the_next_frame(agent: AgentClient, host: Host) -> None:
    waits = f"import os, time\nwhile not os.path.exists({str(host.scratch / 'go')!r}):\n    time.sleep(0.02)\n"
    directory, _ = host.launch(host.program(waits + "print('Killed')\ntime.sleep(600)"))
    wait_for(lambda: lookout(host, directory)["boot_s"])
    agent.ask("watch", run=RUN, interval_s=60)
    assert agent.next_frame()["stages"]["extract"]["lookout"]["alarms"] == []
    (host.scratch / "go").touch()
    agent.frame_where(lambda frame: frame["stages"]["extract"]["lookout"]["alarms"], timeout_s=30)  # the next one was due in a minute


@pytest.mark.parametrize(
    ("serve", "expected"),
    [
        ({"tensor_parallel": 8}, 8),
        ({"tensor_parallel": 4, "extra_args": ["--pipeline-parallel-size", "2", "-dp=2"]}, 16),
        ({"tensor_parallel": 4, "extra_args": ["--pipeline_parallel_size=two"]}, None),
        ({"tensor_parallel": 4, "extra_args": ["-pp"]}, None),
        ({"tensor_parallel": "8"}, None),
        ({"tensor_parallel": 8, "program": ["python", "other.py"]}, None),
        ([], None),
    ],
)
def test_how_many_ranks_the_settings_ask_for(serve: Any, expected: int | None) -> None:
    assert lookout_view.ranks_expected({"serve": serve}, "serve") == expected
    assert lookout_view.ranks_expected({"serve": serve}, "prepare") is None


def test_which_gpus_a_job_works_on() -> None:
    cards = [{"uuid": "GPU-1"}, {"uuid": "GPU-2"}, 7]
    assert lookout_gpus.wanted("extract", {"gpus": {"wanted": ["GPU-2"], "cards": cards}}, {}) == {"GPU-2"}
    assert lookout_gpus.wanted("extract", {"gpus": {"wanted": [], "cards": cards}}, {}) == {"GPU-1", "GPU-2"}
    assert lookout_gpus.wanted("extract", {"gpus": {"expected_gpus": 0, "cards": []}}, {}) == set(), "on the CPU"
    assert lookout_gpus.wanted("extract", {}, {}) is None, "nobody verified any: whichever there are"
    assert lookout_gpus.wanted("prepare", {}, {}) == lookout_gpus.wanted("extract", {"args": ["--verify"]}, {}) == set()
    assert lookout_gpus.wanted("generate", {}, {}) is None
    assert lookout_gpus.wanted("generate", {}, {"generate": {"endpoint": "https://elsewhere/v1"}}) == set()
