"""Faults that hold a stage up, on threads of this process that pass where a stage's own do; and what simulated GPUs show of it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.attempt import Attempt
from pipeline.contract import rehearsal
from pipeline.contract.telemetry import STEADY
from pipeline.host import probe, procs
from pipeline.rehearsal import hooks, sim_gpus
from pipeline.rehearsal.faults import StageFaults, arm
from pipeline.rehearsal.run_settings import MIN_FREE_BYTES
from pipeline.store import Store

PATIENCE_S = 30.0


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come to hold"
        time.sleep(0.01)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A home with simulated GPUs, in this process's environment; no fault outlives the test."""
    home = str(tmp_path)
    Path(rehearsal.data_dir(home)).mkdir(parents=True)
    sim_gpus.create(rehearsal.gpus_file(home), gpus=2)
    monkeypatch.setenv(rehearsal.ENV_HOME, home)
    monkeypatch.setattr(Attempt, "raise_if_stopped", Attempt.raise_if_stopped)  # what the faults wrap is put back
    monkeypatch.setattr(Store, "_save", Store._save)
    yield home
    arm(home, None)


class Stage:
    """A thread that leads the work of a stage that never ends, and one that writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.units = self.files = 0
        self.over = False
        self._attempt: Any = SimpleNamespace(stop=threading.Event())
        monkeypatch.setattr(Store, "_save", self._file)
        self.lead = threading.Thread(target=self._lead, daemon=True)
        self._writer = threading.Thread(target=self._write, daemon=True)
        self.lead.start()
        self._writer.start()

    def end(self) -> None:
        self.over = True
        self.lead.join(PATIENCE_S)
        self._writer.join(PATIENCE_S)
        assert not self.lead.is_alive() and not self._writer.is_alive()

    def cpu_s(self) -> float:
        """Of the leading thread."""
        return time.clock_gettime(time.pthread_getcpuclockid(self.lead.ident or 0))

    def stands(self, seconds: float = 0.3) -> bool:
        """Whether no unit is finished for so long."""
        units = self.units
        time.sleep(seconds)
        return self.units == units

    def _lead(self) -> None:
        while not self.over:
            Attempt.raise_if_stopped(self._attempt)
            time.sleep(0.005)
            self.units += 1

    def _write(self) -> None:
        while not self.over:
            Store._save(self)  # type: ignore[arg-type,call-arg]

    @staticmethod
    def _file(stage: Any) -> None:
        time.sleep(0.005)
        stage.files += 1


@pytest.fixture
def stage(home: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    stage = Stage(monkeypatch)
    yield stage
    stage.end()


def strike(home: str, text: str) -> StageFaults:
    arm(home, rehearsal.parse_fault(text))
    faults = StageFaults(home, "extract")
    faults.look(0.3)
    assert rehearsal.pending_fault(home) is not None, "its share is not reached"
    faults.look(0.5)
    return faults


def clear(home: str, faults: StageFaults, stage: Stage) -> None:
    arm(home, None)
    faults.look(0.5)
    units, files = stage.units, stage.files
    eventually(lambda: stage.units > units + 2 and stage.files > files + 2)


def test_a_deadlock_stops_every_working_thread_without_cpu_until_it_is_cleared(home: str, stage: Stage) -> None:
    faults = strike(home, "deadlock,at=0.4")
    eventually(stage.stands)
    files, cpu_s = stage.files, stage.cpu_s()
    assert stage.stands() and stage.files == files and stage.cpu_s() - cpu_s < 0.01
    faults.look(0.9)
    clear(home, faults, stage)


def test_a_busy_loop_uses_cpu_and_finishes_nothing(home: str, stage: Stage) -> None:
    faults = strike(home, "busy-loop,at=0.4")
    eventually(stage.stands)
    assert faults.spins
    units, cpu_s = stage.units, stage.cpu_s()
    eventually(lambda: stage.cpu_s() - cpu_s > 0.05)
    assert stage.units == units
    clear(home, faults, stage)
    assert not faults.spins


def test_slow_takes_longer_and_comes_and_is_over_after_its_seconds(home: str, stage: Stage) -> None:
    faults = strike(home, "slow,at=0.4,times=30,seconds=1.5")
    units, began_s = stage.units, time.monotonic()
    eventually(lambda: stage.units >= units + 3)  # the first two may have been under way
    assert time.monotonic() - began_s > 0.2
    time.sleep(max(0.0, began_s + 1.6 - time.monotonic()))
    faults.look(0.5)
    units = stage.units
    eventually(lambda: stage.units > units + 5)
    assert rehearsal.fired_fault(home) is None


def test_writers_that_are_gone_write_nothing_while_the_work_goes_on(home: str, stage: Stage) -> None:
    faults = strike(home, "writer-gone,at=0.4")
    time.sleep(0.1)  # the file that was being written
    files, units = stage.files, stage.units
    eventually(lambda: stage.units > units + 10)
    assert stage.files == files
    clear(home, faults, stage)


def test_another_fault_ends_the_one_before(home: str, stage: Stage) -> None:
    faults = strike(home, "deadlock,at=0.4")
    eventually(stage.stands)
    arm(home, rehearsal.parse_fault("log-silent,at=0.9"))
    faults.look(0.5)
    units = stage.units
    eventually(lambda: stage.units > units + 2)


def test_a_silent_log_is_silent_until_it_is_cleared(home: str) -> None:
    """In a process of its own, because its descriptors are replaced."""
    script = f"""
from pipeline.contract import rehearsal
from pipeline.rehearsal.faults import StageFaults, arm
faults = StageFaults({home!r}, "extract")
print("before", flush=True)
arm({home!r}, rehearsal.parse_fault("log-silent,at=0"))
faults.look(0.0)
print("during", flush=True)
arm({home!r}, None)
faults.look(0.0)
print("after", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["before", "after"]


def test_a_low_disk_is_what_the_host_reports_and_no_more(home: str) -> None:
    real = probe.disk(home)
    faults = StageFaults(home, "extract")
    arm(home, rehearsal.parse_fault("disk-low,at=0.4"))
    faults.look(0.5, 400 << 20)
    low = probe.disk(home)
    assert low["free_bytes"] == MIN_FREE_BYTES + (100 << 20) and low["total_bytes"] == real["total_bytes"]
    assert os.statvfs(home).f_bavail * os.statvfs(home).f_frsize > low["free_bytes"], "the disk itself is as it was"
    arm(home, None)
    assert probe.disk(home)["free_bytes"] > low["free_bytes"]
    arm(home, rehearsal.parse_fault("disk-low,at=0.4"))
    faults.look(0.5)
    assert probe.disk(home)["free_bytes"] == MIN_FREE_BYTES + (1 << 20), "where it is not known what is left"


@pytest.mark.parametrize("text", ["slow,times=-1", "slow,times=x", "deadlock,at=2"])
def test_a_mistyped_number_says_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match="times=K"):
        rehearsal.parse_fault(text)


def test_gpus_of_a_stopped_process_are_idle_with_its_memory_and_go_on_with_it(home: str) -> None:
    child = subprocess.Popen(["sleep", "300"])
    try:
        sim_gpus.hold(rehearsal.gpus_file(home), 1, 81_000, 97, 376, pid=child.pid)

        def gpu() -> sim_gpus.Gpu:
            return sim_gpus.read(rehearsal.gpus_file(home)).gpus()[1]

        assert (gpu().util_pct, gpu().power_w, gpu().used) == (97, 406, 81_000)
        os.kill(child.pid, signal.SIGSTOP)
        eventually(lambda: (stat := procs.read_stat(child.pid)) is not None and stat.state == "T")
        assert (gpu().util_pct, gpu().power_w, gpu().used) == (0, sim_gpus.IDLE_W + sim_gpus.HELD_W, 81_000)
        assert gpu().procs == [(child.pid, 81_000)]
        os.kill(child.pid, signal.SIGCONT)
        eventually(lambda: gpu().util_pct == 97)
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    ("kernels", "util_pct", "watts"),
    [(hooks.BUSY, (97, 98), (400, 420)), (hooks.SPIN, (100, 100), (120, 140)), (hooks.NONE, (0, 0), (80, 90))],
)
def test_power_follows_what_the_process_does(home: str, kernels: str, util_pct: "tuple[int, int]", watts: "tuple[int, int]") -> None:
    hooks.hold_all(rehearsal.gpus_file(home), STEADY, 1.0, 3, kernels)
    for gpu in sim_gpus.read(rehearsal.gpus_file(home)).gpus():
        assert util_pct[0] <= gpu.util_pct <= util_pct[1] and watts[0] <= gpu.power_w <= watts[1] and gpu.used > 82_000
    sim_gpus.hold(rehearsal.gpus_file(home), 0, 0)


def test_work_is_cpu_time_of_the_other_threads() -> None:
    def burn() -> None:
        began_s = time.thread_time()
        while time.thread_time() - began_s < 0.2:
            pass

    work = hooks.Work()
    assert work.moves(100.0), "nothing is known yet"
    burn()
    assert not work.moves(102.0), "the thread that asks does not count"
    other = threading.Thread(target=burn)
    other.start()
    other.join()
    assert work.moves(104.0)
    assert not work.moves(106.0)
