"""The serve stage under the real host program: a stop, a dead server, a killed stage; nothing of the server stays."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from host_jobs import ask_stop, kinds
from host_launches import Host, running, wait_for

from pipeline.contract import layout
from pipeline.contract.files import read_json
from tests.fakes.serve_runs import notes, write_model, write_run


@pytest.fixture
def served(host: Host, tmp_path: Path) -> "Served":
    return Served(host, write_model(tmp_path / "model"))


class Served:
    def __init__(self, host: Host, model: Path):
        self.host, self.model = host, model

    def up(self, **manners: Any) -> str:
        """Launch and wait until it is up; returns the attempt's directory."""
        write_run(self.host.run_dir, self.model, manners)
        directory, _ = self.host.launch(self.host.python, stage="serve")
        wait_for(lambda: (read_json(layout.progress_file(directory, 0)) or {}).get("up"), "up")
        return directory

    def pids(self) -> list[int]:
        return notes(self.host.run_dir, "pid") + notes(self.host.run_dir, "worker")


def test_a_stop_ends_the_server_with_one_sigterm(served: Served, host: Host) -> None:
    directory = served.up()
    ask_stop(host, directory)
    view = host.wait_state(directory, "STOPPED")
    assert view["why"] == "stopped by tester; exit code 0" and view["receipt"]["verified"] is True
    assert notes(host.run_dir, "term") == [0] and not any(map(running, served.pids()))
    assert "survivors" not in kinds(host, directory) and "kill_sent" not in kinds(host, directory)


def test_a_killed_server_fails_the_attempt_and_leaves_nothing(served: Served, host: Host) -> None:
    directory = served.up(workers=2)
    os.kill(notes(host.run_dir, "pid")[0], signal.SIGKILL)
    view = host.wait_state(directory, "FAILED")
    assert "the server ended while it was up (SIGKILL)" in view["why"] and view["progress"]["up"] is False
    assert not any(map(running, served.pids()))


def test_a_killed_stage_leaves_no_server(served: Served, host: Host) -> None:
    """Nothing of the stage is left to end it: the supervisor does."""
    directory = served.up()
    os.kill(host.read(directory, layout.IDENT)["pid"], signal.SIGKILL)
    host.wait_state(directory, "CRASHED")
    for pid in served.pids():
        host.wait_gone(pid)
    assert set(served.pids()) <= set(host.wait_event(directory, "survivors")["pids"])
    assert notes(host.run_dir, "term") == [0]
