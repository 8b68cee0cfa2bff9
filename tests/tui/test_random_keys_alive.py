"""5,000 random keys while two processes that hold GPUs live, with the dialogs that end processes and start stages open over and over.

Only a question's own button is left alone: pressing that is what an operator does who means it. A typed phrase has no such key.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import free_scenes
import pytest
import scenes
import transition_scenes as way
from fakes import FakeLink, Fixture, app_of, showing, until
from test_random_keys import KEYS
from textual import events
from textual.pilot import Pilot
from textual.widgets import Button

from console.tui.screens.confirm import ConfirmScreen, ReasonScreen
from console.tui.screens.free_confirm import PhraseScreen
from console.tui.screens.free_gpus import FreeGpusScreen
from console.tui.screens.transition_confirm import TransitionConfirmScreen
from console.tui.screens.transition_plan import TransitionPlanScreen
from pipeline.contract import layout
from pipeline.host import procs

COUNT, A_VISIT, TYPED_AHEAD = 5000, 250, 10
ACTING = ("launch", "stop", "baseline.accept", "put-settings")
PHRASES = "free gpu-host 2 next k25-10k prepare vocab extract k25-10k/serve"
LETTERS = ["space" if one == " " else {"-": "minus", "/": "slash"}.get(one, one) for one in PHRASES]
POOL = [*(one for one in KEYS if one != "escape"), "escape", *LETTERS]
"""Every key but those that leave, and the letters of the phrases so much the oftener."""
STAND_IN = """
import os, signal, sys
def note(number, frame):
    with open(sys.argv[1], "a") as file:
        file.write("%d\\n" % number)
for number in range(1, signal.NSIG):
    try:
        signal.signal(number, note)
    except (OSError, ValueError):
        pass
print("up", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def alive(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """{stage: process} of a server and an extraction that note every signal which can be noted, and would die of the others."""
    found = {}
    for stage in ("serve", "extract"):
        words = [sys.executable, "-S", "-c", STAND_IN, str(tmp_path / f"{stage}.signals")]
        found[stage] = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        assert found[stage].stdout.readline() == b"up\n"
    yield found
    for one in found.values():
        one.kill()
        one.wait()
        one.stdout.close()


def rows(alive: dict[str, Any]) -> list[dict[str, Any]]:
    """Both, as the host's plan would have them: real pids, real start ticks, free to be selected."""
    found = []
    for stage, one in alive.items():
        stat = procs.read_stat(one.pid)
        assert stat is not None
        at = {"start_ticks": stat.start_ticks, "boot_id": procs.this_boot()}
        found.append(free_scenes.row(one.pid, tuple(range(8)), title=f"{stage} stand-in", **at))
    return found


def frames(alive: dict[str, Any], at: float) -> dict[str, dict[str, Any]]:
    """By the dialog that can be reached then: all that runs, and all that could be gone on from."""
    serve = {**way.server(), "pid": alive["serve"].pid}
    extract = scenes.attempt(pid=alive["extract"].pid)
    both = scenes.frame(scenes.NOW_S + at, stages={"serve": serve, "extract": extract})
    return {"free": both, "next": way.frame(boot_s=scenes.NOW_S + at, stages={**way.stages(False), "serve": serve})}


DIALOGS: dict[type, tuple[str, tuple[str, ...]]] = {
    FreeGpusScreen: ("free", ("F",)),
    PhraseScreen: ("free", ("F", "a", "tab", "tab", "enter")),
    TransitionPlanScreen: ("next", ("greater_than_sign",)),
    TransitionConfirmScreen: ("next", ("greater_than_sign", "tab", "enter")),
}


def asks(pilot: Pilot[Any]) -> bool:
    """Whether something that was asked for is under way, which the next key waits for."""
    return any(one.group == "flow" and not one.is_finished for one in pilot.app.workers)


async def reach(pilot: Pilot[Any], fixture: Fixture, alive: dict[str, Any], dialog: type, at: float) -> None:
    """Open it, from wherever the keys before have led."""
    await pilot.pause()  # what was typed ahead may open one more
    for _ in range(40):
        if len(pilot.app.screen_stack) == 1 and not asks(pilot):
            break
        await pilot.press("escape")
    assert len(pilot.app.screen_stack) == 1 and not asks(pilot)
    app_of(pilot).set_focus(None)
    kind, keys = DIALOGS[dialog]
    fixture.link.feed(frames(alive, at)[kind])
    app_of(pilot).tick()
    await until(pilot, lambda: app_of(pilot).state.in_control and not app_of(pilot).state.busy)
    for key in keys:
        await pilot.press(key)
        await until(pilot, lambda: getattr(pilot.app.screen, "plan", True) is not None)
    await until(pilot, lambda: type(pilot.app.screen) is dialog)


def event(key: str) -> events.Key:
    """As the terminal would send it."""
    named = {"space": " ", "minus": "-", "slash": "/", "greater_than_sign": ">", "colon": ":", "question_mark": "?"}
    return events.Key(key, named.get(key, key if len(key) == 1 else None))


def means_it(app: Any, key: str) -> bool:
    """Whether this key would press the button of a question that is not its Cancel."""
    presses = key in ("enter", "space") and isinstance(app.screen, ConfirmScreen | ReasonScreen)
    return presses and isinstance(app.focused, Button) and app.focused.id == "choice-yes"


@pytest.fixture
def files(tmp_path: Path, state_home: Path) -> dict[Path, bytes]:
    """A run and this machine's log, and what is in each file."""
    run = Path(layout.run_dir(str(tmp_path / "data"), scenes.RUN))
    for path in (
        *(run / one for one in ("settings.toml", "data/hs_0.safetensors", "stages/serve/a/stdout.log")),
        state_home / "audit.jsonl",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


@pytest.mark.timeout(240)
async def test_5000_random_keys_signal_no_process_and_remove_no_file(
    alive: dict[str, Any], files: dict[Path, bytes], tmp_path: Path
) -> None:
    def prepare(link: FakeLink) -> None:
        link.answers["free.plan"] = lambda fields: {"plan": free_scenes.plan(rows(alive))}

    fixture = Fixture(frames=[frames(alive, 0.0)["free"]], prepare=prepare)
    pick, pressed, seen = random.Random(5000), 0, Counter[str]()
    async with showing(fixture) as pilot:
        app = app_of(pilot)
        app.leave = lambda: None  # type: ignore[method-assign]
        dialogs = list(DIALOGS)
        while pressed < COUNT:
            if pressed % A_VISIT == 0:
                await reach(pilot, fixture, alive, dialogs[pressed // A_VISIT % len(dialogs)], float(pressed))
            key = pick.choice(POOL)
            if key in ("enter", "space") or pressed % TYPED_AHEAD == 0:
                await pilot.pause()  # the keys before have done what they do: only now is it known what has the focus
            if means_it(app, key):
                key = "left"
            seen[type(app.screen).__name__] += 1
            app.post_message(event(key))
            pressed += 1
            assert app.is_running and not app._exit
        asked = {op for op, _ in fixture.link.asked}
    assert pressed == COUNT and not asked & set(ACTING), asked
    assert all(seen[one.__name__] >= 100 for one in DIALOGS), seen
    for stage, one in alive.items():
        assert one.poll() is None and not (tmp_path / f"{stage}.signals").exists(), f"{stage} was signalled"
    assert {path: path.read_bytes() for path in files} == files


def test_the_stand_ins_note_a_signal(alive: dict[str, Any], tmp_path: Path) -> None:
    os.kill(alive["serve"].pid, signal.SIGTERM)
    deadline = time.monotonic() + 30
    while not (tmp_path / "serve.signals").exists() or (tmp_path / "serve.signals").read_text() != "15\n":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert alive["serve"].poll() is None
