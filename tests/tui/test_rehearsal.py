"""The console on a real rehearsal host: a real link, a real host program, a real extraction; nothing is scripted."""

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import app_of, painted, redraw, until
from textual.pilot import Pilot

from console.rehearsal import home as homes
from console.rehearsal import start
from console.tui.app import ConsoleApp
from console.tui.options import EXTRACT_ONLY, Options
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.done import EndedScreen
from pipeline.contract import layout

PATIENCE_S = 400.0
"""Importing torch on a busy machine takes most of it."""
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def home(state_home: Path, built_home: Path) -> Iterator[Path]:
    """A rehearsal that is built and does not run; whatever runs on it is ended afterwards."""
    path = state_home / "rehearsal"
    shutil.copytree(built_home, path)
    yield path
    start.stop_all(str(path))


def console(**options: Any) -> ConsoleApp:
    return ConsoleApp(Options("rehearsal", EXTRACT_ONLY, **options))


def text(pilot: Pilot[Any]) -> str:
    return "\n".join(painted(app_of(pilot)))


async def under_control(pilot: Pilot[Any]) -> None:
    await until(pilot, lambda: app_of(pilot).state.in_control and app_of(pilot).state.hello is not None, PATIENCE_S)


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_from_a_key_to_the_card_of_a_verified_extraction(home: Path, state_home: Path) -> None:
    app = console()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await under_control(pilot)
        await until(pilot, lambda: "nothing has run in extract-only yet" in text(pilot), PATIENCE_S)
        assert "SIMULATED" in painted(app)[0]
        await pilot.press("greater_than_sign")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        assert "SIMULATED GPUs" in await redraw(pilot)
        await pilot.press("tab", "enter")
        await until(pilot, lambda: app.state.attempt is not None and app.state.attempt.live, PATIENCE_S)
        await until(pilot, lambda: isinstance(app.screen, EndedScreen), PATIENCE_S)
        shown = await redraw(pilot)
        assert "extract of extract-only on rehearsal: done" in shown and "240/240" in shown and "240 of 240 samples re-read whole" in shown
        await pilot.press("escape")
        shown = await redraw(pilot)
        assert "EXTRACT ✓" in shown and "every check passed" in shown
        assert app.state.log_source is not None and app.state.ring.end > 0
        launches = [one for one in records(state_home / "audit.jsonl") if one["what"] == "launch"]
        assert len(launches) == 2 and launches[0]["attempt"] == app.state.attempt.id  # type: ignore[union-attr]


async def test_rehearse_starts_it_a_second_console_looks_takes_over_and_stops_it(home: Path) -> None:
    first = console(start="extract")
    async with first.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: first.state.attempt is not None and first.state.attempt.live, PATIENCE_S)
        attempt = first.state.attempt
        assert attempt is not None
        second = console()
        async with second.run_test(size=(100, 24), notifications=True) as other:
            await until(other, lambda: all(words in text(other) for words in ("LIVE", "READ-ONLY", "1 other console")), PATIENCE_S)
            assert "this console only looks" in await redraw(other)
            await other.press("X")
            assert len(second.screen_stack) == 1
            await other.press("T")
            await until(other, lambda: isinstance(second.screen, ConfirmScreen))
            await other.press("tab", "enter")
            await until(other, lambda: second.state.in_control)
            await until(pilot, lambda: bool(first.state.lost_control_to), PATIENCE_S)
            assert "READ-ONLY" in await redraw(pilot)
            assert records(home / "home" / "eaglewatch" / layout.AUDIT)[-1]["what"] == "take-over"
            await other.press("X")
            await until(other, lambda: isinstance(second.screen, ConfirmScreen))
            await other.press("tab", "enter")
            await until(other, lambda: isinstance(second.screen, EndedScreen), PATIENCE_S)
            shown = await redraw(other)
            assert "stopped" in shown and attempt.id == second.state.attempt.id  # type: ignore[union-attr]
        await until(pilot, lambda: isinstance(first.screen, EndedScreen), PATIENCE_S)


async def test_a_console_that_goes_leaves_the_job_and_the_next_one_shows_it(home: Path) -> None:
    first = console(start="extract")
    async with first.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: first.state.attempt is not None and first.state.attempt.live, PATIENCE_S)
        attempt = first.state.attempt
        assert attempt is not None
        first.leave()
    assert first.return_value is not None and first.return_value.line.startswith(
        "1 job goes on: extract on rehearsal; eaglewatch attach rehearsal --run extract-only"
    )
    again = ConsoleApp(Options("rehearsal"))
    async with again.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: again.state.attempt is not None, PATIENCE_S)
        assert again.state.run == EXTRACT_ONLY, "the only run that is live opens by itself"
        assert again.state.attempt.id == attempt.id and again.state.attempt.live  # type: ignore[union-attr]


async def test_a_server_that_dies_makes_old_numbers_marked_ones_and_its_return_brings_the_truth(home: Path) -> None:
    app = console(start="extract", limit=80)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "EXTRACT LOADING" in text(pilot) or "EXTRACT STEADY" in text(pilot), PATIENCE_S)
        server = homes.running_server(str(home))
        assert server is not None
        os.kill(server["pid"], signal.SIGKILL)
        await until(pilot, lambda: "RECONNECTING" in painted(app)[0] and "all numbers below are" in text(pilot), PATIENCE_S)
        shown = await redraw(pilot)
        assert any(line.startswith("!EXTRACT") for line in shown.splitlines()) and "left" not in shown
        await pilot.press("X")
        assert len(app.screen_stack) == 1, "nothing acts on what is not known"
        await asyncio.to_thread(start.ensure_running, str(home))
        app.perform("reconnect")
        await until(pilot, lambda: "LIVE" in painted(app)[0] and app.state.in_control, PATIENCE_S)
        assert "all numbers below" not in await redraw(pilot)
        await until(pilot, lambda: isinstance(app.screen, EndedScreen), PATIENCE_S)
        assert "80 of 80 samples re-read whole" in await redraw(pilot), "the job knew nothing of it"
