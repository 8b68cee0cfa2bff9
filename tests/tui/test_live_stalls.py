"""Faults on a real extraction on the rehearsal host, and the word that the console paints for each: real processes, smaller floors."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import app_of, painted
from textual.pilot import Pilot

from console.rehearsal import start
from console.tui.app import ConsoleApp
from console.tui.options import Options
from pipeline.contract import events, rehearsal, signals
from pipeline.rehearsal.faults import arm

PATIENCE_S = 120.0
"""Importing torch on a busy machine takes most of it."""
RUN = "stalls"
SCALE = 0.03
"""Of the floors: a job that does nothing for 5.4 s is called stalled."""
SETTINGS = (f"watch.stall_scale={SCALE}", "extract.threads=1", "extract.batch_samples=1", "extract.max_length_tokens=64")
ALARMING = ("STALLED", "STOPPED BY SIGNAL", "NO PROGRESS", "BLOCKED-IO", "RANK DEAD", "IDLE")
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("live stalls")]


@pytest.fixture
def home(state_home: Path, built_home: Path) -> Iterator[str]:
    """A rehearsal whose run is under way; whatever runs on it is ended afterwards."""
    path = state_home / "rehearsal"
    shutil.copytree(built_home, path)
    host = start.ensure_running(str(path))
    command = [sys.executable, "-m", "console", "run", "extract", "--host", "rehearsal", "--run", RUN, "--detach"]
    command += ["--settings", rehearsal.extract_only_settings_file(host.home)]
    for one in SETTINGS:
        command += ["--set", one]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stdout + done.stderr
        yield host.home
    finally:
        arm(host.home, None)
        start.stop_all(str(path))


class Operator:
    """Looks at the screen, and keeps every alarming line that stood there."""

    def __init__(self, pilot: Pilot[Any], home: str):
        self._pilot, self._home = pilot, home
        self.alarms: list[str] = []

    @property
    def text(self) -> str:
        return "\n".join(painted(app_of(self._pilot)))

    @property
    def done(self) -> int:
        attempt = app_of(self._pilot).state.attempt
        return (attempt.progress.done or 0) if attempt is not None and attempt.progress is not None else 0

    def knows_usual_power(self) -> bool:
        """Whether the host has learned what the GPUs draw while this job works."""
        attempt = app_of(self._pilot).state.attempt
        return attempt is not None and attempt.lookout is not None and bool(attempt.lookout.power_w)

    async def sees(self, *words: str) -> None:
        """Waits until all the words are painted."""
        await self.until(lambda: all(one in self.text for one in words))

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            self.alarms += [line for line in self.text.splitlines() if any(word in line for word in ALARMING)]
            assert time.monotonic() < deadline, self.text
            await asyncio.sleep(0.1)
            await self._pilot.pause()

    async def strike(self, fault: str) -> None:
        """Set a fault, in place of the one before, and wait until it has struck. Where the stage works on, it works slowly, for its
        samples are few.
        """
        arm(self._home, rehearsal.parse_fault(f"{fault},at=0,times=4"))
        await self.until(lambda: rehearsal.pending_fault(self._home) is None)

    async def units(self, count: int) -> None:
        """So many more are finished, and nothing alarming stands there any more."""
        done = self.done
        await self.until(lambda: self.done >= done + count and not any(word in self.text for word in ALARMING))


def told_by_the_host(home: str) -> list[dict[str, Any]]:
    """The changes of level that its own lookout put on record, with no console's help."""
    (path,) = Path(rehearsal.data_dir(home)).glob("runs/*/stages/extract/*/events.jsonl")
    return [one for one in map(json.loads, path.read_text().splitlines()) if one["kind"] == events.STALL]


async def test_each_fault_gets_its_word_and_a_healthy_job_none(home: str) -> None:
    app = ConsoleApp(Options("rehearsal"))
    async with app.run_test(size=(100, 30)) as pilot:
        see = Operator(pilot, home)

        # Healthy, whatever it looks like: a silent log, slowness, too little room on the disk.
        await see.strike("log-silent")
        await see.sees("EXTRACT STEADY")
        see.alarms.clear()  # to import torch beside other tests takes longer than floors as small as these
        steady_boot_s = app.state.view.boot_s  # type: ignore[union-attr]
        await see.until(lambda: (quiet := re.search(r"log quiet (\d+) s", see.text)) and int(quiet[1]) >= 8)
        await see.until(see.knows_usual_power)
        await see.strike("slow")
        await see.units(3)
        await see.strike("disk-low")
        await see.sees("EXTRACT STEADY", "MB SHORT, full about")
        assert see.alarms == []
        told = [one["severity"] for one in told_by_the_host(home) if one["boot_s"] > steady_boot_s]
        assert set(told) <= {signals.OK, signals.GREY}

        await see.strike("freeze,seconds=7")
        await see.sees("EXTRACT STOPPED BY SIGNAL", "SIGCONT lets them go on")
        await see.units(2)  # it goes on by itself

        await see.strike("busy-loop")
        await see.sees("EXTRACT STALLED-SPIN", "GPUs in use at low power")
        await see.strike("slow")
        await see.units(2)

        await see.strike("deadlock")
        await see.sees("EXTRACT STALLED", "nothing happens: no new unit", "ETA paused")
        await pilot.press("e")
        await see.sees("Evidence, now", "EXTRACT STALLED", "GPUs idle, no I/O")
        await pilot.press("escape")
        await see.strike("slow")
        await see.units(2)

        await see.strike("writer-gone")  # the rest is computed, and nobody writes it
        await see.sees("EXTRACT STALLED", "nothing happens: no new unit")
        before = see.done
        assert before < app.state.attempt.progress.total and app.state.attempt.live  # type: ignore[union-attr,operator]
        await see.strike("log-silent")
        await see.units(2)
    red = {one["level"] for one in told_by_the_host(home) if one["severity"] == signals.RED and one["boot_s"] > steady_boot_s}
    assert red == {signals.STOPPED_BY_SIGNAL, signals.STALLED_SPIN, signals.STALLED_IDLE}
