"""What a supervisor tells, and that a full disk hinders neither an exit code nor a stop."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from host_jobs import ask_stop, exits_on_request, kinds, let_go, supervisor_pid
from host_launches import Host, wait_for

from pipeline.contract import layout, telemetry
from pipeline.host import launch, procs, state


def test_heartbeat_tree_and_events_of_a_young_job(host: Host) -> None:
    body = (
        "import json, os, time\n"
        "def tell(done, **more):\n"
        "    path = os.path.join(os.environ['EAGLEWATCH_ATTEMPT_DIR'], 'progress', '0.json')\n"
        "    with open(path + '.new', 'w') as file: json.dump(dict(done=done, resumed_done=5, unit='sample', **more), file)\n"
        "    os.rename(path + '.new', path)\n"
        "tell(5)\n"
        "if os.fork() == 0: time.sleep(600)\n"
        f"while not os.path.exists({str(host.scratch / 'go')!r}): time.sleep(0.05)\n"
        "tell(6, first_boot_s=time.clock_gettime(time.CLOCK_BOOTTIME))\n"
        "time.sleep(600)"
    )
    directory, reply = host.launch(host.program(body))
    host.wait_event(directory, "alive")
    tree = wait_for(lambda: (state.view(directory)["tree"] or {}).get("procs") == 2 and state.view(directory)["tree"])
    assert tree["rss_bytes"] > 1 << 20 and tree["boot_s"] > 0 and sum(tree["states"].values()) == 2
    assert "first_unit" not in kinds(host, directory)
    let_go(host)
    first = host.wait_event(directory, "first_unit")
    assert (first["unit"], first["by"]) == ("sample", "supervisor") and first["seconds"] >= 2
    view = state.view(directory)
    assert view["supervised"] and view["heartbeat_boot_s"] <= procs.clock.boot_s()
    os.kill(reply["pid"], signal.SIGKILL)
    view = host.wait_state(directory, telemetry.CRASHED)
    assert view["why"] == "SIGKILL, cause unknown"
    assert view["tree"] is None


def test_two_supervisors_of_one_attempt_are_one(host: Host) -> None:
    directory, _ = host.launch(exits_on_request(host))
    first = supervisor_pid(host, directory)
    second = subprocess.Popen([sys.executable, "-s", "-S", str(host.code_dir), "supervise", directory, "--adopt"])
    assert second.wait(30) == 0
    assert supervisor_pid(host, directory) == first


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A file system of 2 MiB in place of the data directory."""
    path = tmp_path / "data"
    path.mkdir(mode=0o700, exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(path)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"needs the right to mount a tmpfs: {done.stderr.strip()}")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def fill(path: Path) -> None:
    """Take every block that is left."""
    with open(path / "filler", "wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return


def test_a_full_disk_loses_no_exit_code_and_hinders_no_stop(small_disk: Path, host: Host, python: str) -> None:
    host.python = python
    directory, _ = host.launch(exits_on_request(host))
    fill(small_disk)
    let_go(host)
    assert host.wait_state(directory, telemetry.FAILED)["exit"]["code"] == 7
    (small_disk / "filler").unlink()
    body = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
    directory, _ = host.launch(host.program(body))
    fill(small_disk)
    ask_stop(host, directory, grace_s=0.5)
    view = host.wait_state(directory, telemetry.STOPPED)
    assert (view["why"], view["exit"]["signal"]) == ("stopped by tester; SIGKILL", signal.SIGKILL)


def test_a_launch_onto_a_full_disk_is_refused_and_claims_nothing(small_disk: Path, host: Host) -> None:
    fill(small_disk)
    with pytest.raises(launch.RequestError, match="No space left on device") as caught:
        host.begin(exits_on_request(host))
    assert caught.value.kind == "failed"
    assert layout.attempts(str(host.run_dir), "extract") == []
