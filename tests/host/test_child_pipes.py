"""A child that floods its reader, and one that no signal ends: neither holds up whoever asked it."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_launches import RUN, wait_for

from pipeline.host import child_pipes, transition_preflight
from pipeline.host.preflight_request import PreflightRequest

FREEZER = Path("/sys/fs/cgroup/freezer")


class Deaf(subprocess.Popen[bytes]):
    """Stands in for a process in state D where there is no freezer: no signal of its reader's reaches it."""

    def send_signal(self, sig: int) -> None:
        pass


@pytest.fixture
def frozen() -> Iterator["subprocess.Popen[bytes]"]:
    """A process in state D, as one is that reads from a dead mount: SIGKILL waits until it is thawed."""
    group, pipe = FREEZER / f"ew-test-{os.getpid()}", subprocess.PIPE
    try:
        group.mkdir()
    except OSError:
        with Deaf(["sleep", "600"], stdout=pipe, stderr=pipe, bufsize=0) as deaf:
            yield deaf
            os.kill(deaf.pid, signal.SIGKILL)
        return
    process = subprocess.Popen(["sleep", "600"], stdout=pipe, stderr=pipe, bufsize=0)
    try:
        (group / "cgroup.procs").write_text(str(process.pid))
        (group / "freezer.state").write_text("FROZEN")
        wait_for(lambda: (group / "freezer.state").read_text().strip() == "FROZEN", "the freezer")
        yield process
    finally:
        (group / "freezer.state").write_text("THAWED")
        process.kill()
        process.wait(20)
        wait_for(lambda: not (group / "cgroup.procs").read_text(), "the empty group")
        group.rmdir()


def test_one_that_no_signal_ends_is_left(frozen: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transition_preflight, "_END_S", 0.2)
    _, _, why = transition_preflight._await(frozen, time.monotonic() + 0.2, 0.2, lambda: False)
    assert why == "no end of it after 0 s" and frozen.poll() is None


def test_a_flood_is_read_in_pieces(tmp_path: Path) -> None:
    process = subprocess.Popen(["yes", "x" * 100], stdout=subprocess.PIPE, bufsize=0)
    assert process.stdout
    try:
        os.set_blocking(process.stdout.fileno(), False)
        sizes = [len(child_pipes.drain(process.stdout)) for _ in range(20)]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert max(sizes) < child_pipes.MOST_BYTES + (1 << 16)


def test_a_preflight_that_floods_is_ended_and_told(run_dir: Path, data_dir: Path, code_dir: Path, tmp_path: Path) -> None:
    program = tmp_path / "flood"
    program.write_text("#!/bin/sh\nexec yes a line that is no check of anything whatever\n")
    program.chmod(0o755)
    one = PreflightRequest(str(data_dir), {"run": RUN, "stage": "extract", "interpreter": str(program)}, str(code_dir))
    reply = wait_for(one.poll, "the end of the flood")
    assert reply["verdict"] is None and [line["check"] for line in reply["lines"]] == ["all checks"]
