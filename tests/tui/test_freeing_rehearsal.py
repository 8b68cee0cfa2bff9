"""Freeing SIMULATED GPUs of a real rehearsal host from a real console, which goes in the middle, as the server of its link does then."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import redraw, until

from console.rehearsal import home as homes
from console.rehearsal import start
from console.tui.app import ConsoleApp
from console.tui.options import EXTRACT_ONLY, Options
from console.tui.screens.free_confirm import PhraseScreen
from console.tui.screens.free_gpus import FreeGpusScreen
from console.tui.screens.free_live import FreeLiveScreen
from console.tui.screens.free_receipt import FreeReceiptScreen
from pipeline.contract import free
from pipeline.rehearsal import sim_gpus

PATIENCE_S = 120.0
pytestmark = pytest.mark.timeout(400)
HOLDER = """
import os, pathlib, signal, sys, time
def leave(*_):
    pathlib.Path(sys.argv[1]).touch()
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.05)
    os._exit(0)
signal.signal(signal.SIGTERM, leave)
print(flush=True)
while True:
    time.sleep(60)
"""


@pytest.fixture
def home(state_home: Path, built_home: Path) -> Iterator[Path]:
    path = state_home / "rehearsal"
    shutil.copytree(built_home, path)
    yield path
    start.stop_all(str(path))


@pytest.fixture
def holder(home: Path, tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Holds GPU 2 and 3 and is none of ours. After SIGTERM it says so in ``asked``, and ends once ``may-end`` is there."""
    words = [sys.executable, "-S", "-c", HOLDER, str(tmp_path / "asked"), str(tmp_path / "may-end")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    for gpu in (2, 3):
        sim_gpus.hold(str(home / "gpus.state"), gpu, 81_024, pid=process.pid)
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def console() -> ConsoleApp:
    return ConsoleApp(Options("rehearsal", EXTRACT_ONLY))


def in_step(app: ConsoleApp, step: str) -> bool:
    one = app.state.view.actions.get(free.ACTION) if app.state.view else None
    return one is not None and one.live_now and one.step == step


async def test_neither_the_console_nor_the_link_cuts_it_in_half(home: Path, holder: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    first = console()
    async with first.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: first.state.in_control and first.state.view is not None, PATIENCE_S)
        await pilot.press("F")
        await until(pilot, lambda: isinstance(first.screen, FreeGpusScreen) and first.screen.plan is not None, PATIENCE_S)
        text = await redraw(pilot)
        assert "SIMULATED  Free GPUs of " in text and "@rehearsal: nothing" in text
        assert f"[ ] {holder.pid}" in text and "162,048" in text
        await pilot.press("a", "tab", "tab", "enter")
        await until(pilot, lambda: isinstance(first.screen, PhraseScreen))
        await pilot.press("tab", *("space" if one == " " else one for one in "free rehearsal 1"), "enter")
        await until(pilot, lambda: in_step(first, "GRACE"), PATIENCE_S)
        first.leave()
    assert holder.poll() is None and (tmp_path / "asked").exists()
    second = console()
    async with second.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: in_step(second, "GRACE"), PATIENCE_S)
        await pilot.press("F")
        await until(pilot, lambda: isinstance(second.screen, FreeLiveScreen))
        await until(pilot, lambda: "▶ GRACE" in "\n".join(step.plain for step in second.screen.body()), PATIENCE_S)  # type: ignore[attr-defined]
        assert "1 of 1 processes live" in await redraw(pilot)
        server = homes.running_server(str(home))
        assert server is not None
        os.kill(server["pid"], signal.SIGKILL)
        await until(pilot, lambda: not second.state.current, PATIENCE_S)
        assert "the host goes on" in await redraw(pilot)
        (tmp_path / "may-end").touch()
        assert await asyncio.to_thread(holder.wait, 60) == 0
        await asyncio.to_thread(start.ensure_running, str(home))
        second.controller.retry()
        await until(pilot, lambda: isinstance(second.screen, FreeReceiptScreen), PATIENCE_S)
        text = await redraw(pilot)
        assert "SIMULATED  Freeing GPUs of " in text and "@rehearsal: FREE" in text and "FREE: 0 MiB on 8/8" in text
        assert "2   81,024 -> 0 x5  FREE  0 MiB" in text
        await pilot.press("pagedown")
        assert "ended by SIGTERM (SIGTERM sent)" in " ".join((await redraw(pilot)).replace("│", " ").split())
