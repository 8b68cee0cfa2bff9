"""Every key of the table of actions, pressed."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import scenes
import transition_scenes
from fakes import Fixture, app_of, redraw, showing, until
from textual.pilot import Pilot

from console.remote.state import LinkStatus
from console.tui.bindings import ACTIONS, BY_ID, keys, reason
from console.tui.screens.audit import AuditScreen
from console.tui.screens.choose import ChooseScreen
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.details import DetailsScreen
from console.tui.screens.evidence import EvidenceScreen
from console.tui.screens.free_gpus import FreeGpusScreen
from console.tui.screens.help import HelpScreen
from console.tui.screens.history import HistoryScreen
from console.tui.screens.samples import SamplesScreen
from console.tui.screens.transition_live import TransitionLiveScreen

Check = Callable[[Pilot[Any], Fixture], Awaitable[None]]
LINES = "".join(f"line {number} of the log\n" for number in range(400))


def running() -> Fixture:
    return Fixture(frames=scenes.steady(), log=LINES)


def idle() -> Fixture:
    return Fixture(frames=scenes.nothing_ran())


def opens(kind: type) -> Check:
    async def check(pilot: Pilot[Any], fixture: Fixture) -> None:
        await until(pilot, lambda: isinstance(pilot.app.screen, kind))
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)

    return check


def says(words: str) -> Check:
    async def check(pilot: Pilot[Any], fixture: Fixture) -> None:
        await until(pilot, lambda: any(words in one.message for one in pilot.app._notifications))

    return check


async def paused(pilot: Pilot[Any], fixture: Fixture) -> None:
    assert not app_of(pilot).log_pane.tail.following
    await pilot.press("f")
    assert app_of(pilot).log_pane.tail.following


async def log_has_focus(pilot: Pilot[Any], fixture: Fixture) -> None:
    assert pilot.app.focused is app_of(pilot).log_pane.tail
    await pilot.press("up", "up", "pageup")
    assert not app_of(pilot).log_pane.tail.following
    assert "PAUSED" in await redraw(pilot)


async def follows_again(pilot: Pilot[Any], fixture: Fixture) -> None:
    tail = app_of(pilot).log_pane.tail
    await pilot.press("l", "pageup", "pageup")
    assert not tail.following
    await pilot.press("G")
    assert tail.following


async def finds(pilot: Pilot[Any], fixture: Fixture) -> None:
    await pilot.press(*"line 37 ", "enter")
    await until(pilot, lambda: app_of(pilot).log_pane.tail.search.found is not None)
    assert "line 37 of the log" in await redraw(pilot)


async def goes_on_finding(pilot: Pilot[Any], fixture: Fixture) -> None:
    search = app_of(pilot).log_pane.tail.search
    await pilot.press("slash", *"line 3.7", "enter")
    await until(pilot, lambda: search.found is not None)
    newest = search.found
    await pilot.press("n")
    await until(pilot, lambda: search.found != newest)
    older = search.found
    assert older is not None and newest is not None and older < newest
    await pilot.press("N")
    await until(pilot, lambda: search.found == newest)


async def dials(pilot: Pilot[Any], fixture: Fixture) -> None:
    assert fixture.link.retried


async def shows_palette(pilot: Pilot[Any], fixture: Fixture) -> None:
    await until(pilot, lambda: "Palette" in type(pilot.app.screen).__name__)
    await pilot.press("escape")


async def bundled(pilot: Pilot[Any], fixture: Fixture) -> None:
    await until(pilot, lambda: any("incident bundle: " in one.message for one in pilot.app._notifications))
    text = "\n".join(one.message for one in pilot.app._notifications)
    assert text.partition("incident bundle: ")[2].partition(";")[0].endswith(".tar.gz")


async def left(pilot: Pilot[Any], fixture: Fixture) -> None:
    await until(pilot, lambda: pilot.app._exit)
    farewell = pilot.app.return_value
    assert farewell is not None and "1 job goes on: extract on gpu-host; eaglewatch attach gpu-host --run k25-10k" in farewell.line
    assert not fixture.link.ops("stop")


CASES: dict[str, tuple[Callable[[], Fixture], Check]] = {
    "next_stage": (idle, opens(ConfirmScreen)),
    "start_stage": (idle, opens(ChooseScreen)),
    "stop_stage": (running, opens(ConfirmScreen)),
    "free_gpus": (running, opens(FreeGpusScreen)),
    "take_over": (running, says("this console has control")),
    "focus_log": (running, log_has_focus),
    "evidence": (running, opens(EvidenceScreen)),
    "details": (running, opens(DetailsScreen)),
    "samples": (running, opens(SamplesScreen)),
    "transition": (lambda: Fixture(frames=[transition_scenes.frame(transition_scenes.action())]), opens(TransitionLiveScreen)),
    "audit": (running, opens(AuditScreen)),
    "history": (running, opens(HistoryScreen)),
    "search_log": (running, finds),
    "next_match": (running, goes_on_finding),
    "previous_match": (running, goes_on_finding),
    "toggle_follow": (running, paused),
    "log_end": (running, follows_again),
    "worker_lines": (lambda: Fixture(frames=scenes.steady(), log="(Worker_TP3 pid=12) INFO loaded\n"), opens(ChooseScreen)),
    "open_run": (running, opens(ChooseScreen)),
    "reconnect": (running, dials),
    "palette": (running, shows_palette),
    "help": (running, opens(HelpScreen)),
    "incident": (running, bundled),
    "quit": (running, left),
}
PRESSED = [(key, action.id) for key, action in keys()]


def test_every_action_with_a_key_has_a_case_here() -> None:
    assert set(CASES) == {action.id for action in ACTIONS if action.keys}


def test_no_key_stands_for_two_actions() -> None:
    pressed = [key for key, _ in PRESSED]
    assert len(pressed) == len(set(pressed))


def test_lower_case_looks_and_only_upper_case_acts() -> None:
    for action in ACTIONS:
        if action.dangerous:
            assert not any(key.isalpha() and key.islower() for key in action.keys), action


@pytest.mark.parametrize(("key", "action"), PRESSED)
async def test_a_key_does_what_the_table_says(key: str, action: str) -> None:
    make, check = CASES[action]
    fixture = make()
    async with showing(fixture) as pilot:
        if action == "reconnect":
            fixture.link.now = LinkStatus("RECONNECTING", 20.0, 2, 4.0, "connection lost")
            await redraw(pilot)
        await pilot.press(key)
        await check(pilot, fixture)


@pytest.mark.parametrize("key", [key for key, action in keys() if action.dangerous])
async def test_read_only_takes_the_acting_keys_away_and_the_key_and_help_say_why(key: str) -> None:
    fixture = Fixture(frames=scenes.steady(), read_only=True)
    async with showing(fixture) as pilot:
        await pilot.press(key)
        await pilot.pause()
        assert len(pilot.app.screen_stack) == 1
        (said,) = (one.message for one in pilot.app._notifications)
        label = next(action.label for known, action in keys() if known == key)
        assert said == f"{label}: --read-only: this console only looks"
        assert not fixture.link.ops("control"), "a console that only looks does not ask for control"
        footer = (await redraw(pilot)).splitlines()[-1]
        assert "help" in footer and not any(words in footer for words in ("> next", "S start", "X stop", "F free"))
        for action in ACTIONS:
            why = reason(action, app_of(pilot).state)
            assert not action.dangerous or (why is not None and "--read-only" in why)
        await pilot.press("question_mark")
        assert "--read-only: this console only looks" in await redraw(pilot)
        assert "READ-ONLY" in "\n".join(await redraw_below(pilot))


async def redraw_below(pilot: Pilot[Any]) -> list[str]:
    await pilot.press("escape")
    return (await redraw(pilot)).splitlines()


@pytest.mark.parametrize("action", [action.id for action in ACTIONS])
async def test_the_palette_has_every_action_and_the_reason_of_those_that_cannot_be_done(action: str) -> None:
    async with showing(running(), 120, 40) as pilot:
        await pilot.press("colon")
        await until(pilot, lambda: "Palette" in type(pilot.app.screen).__name__)
        await pilot.press(*BY_ID[action].label.lower())
        why = reason(BY_ID[action], app_of(pilot).state)
        words = f"not now: {why}" if why else BY_ID[action].help
        await until(pilot, lambda: words[:60] in screen_text(pilot))


def screen_text(pilot: Pilot[Any]) -> str:
    from fakes import painted

    return "\n".join(painted(app_of(pilot)))


async def test_what_is_chosen_in_the_palette_is_done() -> None:
    async with showing(running()) as pilot:
        await pilot.press("ctrl+p")
        await until(pilot, lambda: "Palette" in type(pilot.app.screen).__name__)
        await pilot.press(*"evidence")
        await until(pilot, lambda: "how it stands and why" in screen_text(pilot))
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, EvidenceScreen))


async def test_the_next_theme_is_only_in_the_palette_and_goes_round() -> None:
    async with showing(running()) as pilot:
        names = []
        for _ in range(4):
            app_of(pilot).perform("next_theme")
            await pilot.pause()
            names.append(pilot.app.theme)
        assert names == ["light", "mono", "dark", "light"]


def write_audit(state_home: Path) -> None:
    state_home.mkdir(parents=True)
    entries = [{"what": "launch", "host": "gpu-host", "stage": "extract", "who": "me on here", "wall_s": 1_767_186_600.0}, ["no entry"]]
    (state_home / "audit.jsonl").write_text("".join(json.dumps(one) + "\n" for one in entries) + "torn {")


async def test_the_audit_screen_shows_what_was_done(state_home: Path) -> None:
    write_audit(state_home)
    async with showing(running()) as pilot:
        await pilot.press("A")
        text = await redraw(pilot)
        assert "launch on gpu-host" in text and "13:10" in text
