"""Two consoles on one run: the second only looks, until it takes over."""

import json
from pathlib import Path
from typing import Any

import scenes
from fakes import FakeLink, Fixture, app_of, redraw, showing, until
from textual.pilot import Pilot

from console.remote.errors import AgentError
from console.tui.screens.confirm import ConfirmScreen

HELD = {"yours": False, "holder": {"by": "anna on laptop", "since_boot_s": scenes.NOW_S - 1260}, "boot_s": scenes.NOW_S}
MINE = {"by": "me on here", "since_boot_s": scenes.NOW_S, "yours": True}
HERS = {"by": "anna on laptop", "since_boot_s": scenes.NOW_S - 1260, "yours": False}


def second() -> Fixture:
    def prepare(link: FakeLink) -> None:
        link.answers["control"] = lambda fields: {"yours": True, "holder": MINE, "boot_s": scenes.NOW_S} if fields["take_over"] else HELD

    return Fixture(frames=scenes.second(), prepare=prepare)


async def says(pilot: Pilot[Any], words: str) -> None:
    await until(pilot, lambda: any(words in one.message for one in pilot.app._notifications))


async def test_the_second_console_says_who_has_control_since_when_and_only_looks() -> None:
    fixture = second()
    async with showing(fixture) as pilot:
        await until(pilot, lambda: fixture.link.ops("control"))
        text = await redraw(pilot)
        assert "READ-ONLY" in text and "1 other console" in text
        assert "anna on laptop has control for 21 min; T takes over" in text
        for key in ("X", "S", "greater_than_sign"):
            await pilot.press(key)
            await says(pilot, "anna on laptop has control for 21 min")
            assert len(pilot.app.screen_stack) == 1


async def test_taking_over_is_asked_recorded_and_then_acts(state_home: Path) -> None:
    fixture = second()
    async with showing(fixture) as pilot:
        await pilot.press("T")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen))
        assert "anna on laptop, for 21 min" in await redraw(pilot)
        await pilot.press("tab", "enter")
        await until(pilot, lambda: app_of(pilot).state.in_control)
        assert fixture.link.ops("control")[-1]["take_over"] is True
        lines = [json.loads(line) for line in (state_home / "audit.jsonl").read_text().splitlines()]
        assert [(one["what"], one["taken_from"], one["reply"]) for one in lines] == [
            ("take-over", "anna on laptop", None), ("take-over", "anna on laptop", "yours"),
        ]  # fmt: skip
        fixture.link.feed(scenes.frame(scenes.NOW_S + 1, control=MINE))
        assert "READ-ONLY" not in await redraw(pilot)
        await pilot.press("X")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen))


async def test_a_take_over_can_be_cancelled() -> None:
    fixture = second()
    async with showing(fixture) as pilot:
        await pilot.press("T")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen))
        await pilot.press("enter")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)
        assert not app_of(pilot).state.in_control and all(not one["take_over"] for one in fixture.link.ops("control"))


async def test_the_console_that_lost_control_says_to_whom_and_only_looks_and_does_not_ask_by_itself() -> None:
    fixture = Fixture(frames=scenes.steady())
    async with showing(fixture) as pilot:
        await until(pilot, lambda: app_of(pilot).state.in_control)
        asked = len(fixture.link.ops("control"))
        fixture.link.feed(scenes.frame(scenes.NOW_S + 1, control=HERS, consoles=2))
        await says(pilot, "anna on laptop took control")
        assert "READ-ONLY" in await redraw(pilot)
        await pilot.press("X")
        assert len(pilot.app.screen_stack) == 1
        fixture.link.feed(scenes.frame(scenes.NOW_S + 2, control=None))
        await redraw(pilot)
        assert len(fixture.link.ops("control")) == asked
        await pilot.press("T")
        await until(pilot, lambda: app_of(pilot).state.in_control)


async def test_a_frame_from_before_the_claim_takes_nothing_away() -> None:
    fixture = Fixture(frames=scenes.steady(), prepare=lambda link: link.answers.update(control={"yours": True, "boot_s": scenes.NOW_S + 5}))
    async with showing(fixture) as pilot:
        await until(pilot, lambda: app_of(pilot).state.in_control)
        fixture.link.feed(scenes.frame(scenes.NOW_S + 4, control=HERS))
        await redraw(pilot)
        assert app_of(pilot).state.in_control
        fixture.link.feed(scenes.frame(scenes.NOW_S + 6, control=HERS))
        await redraw(pilot)
        assert not app_of(pilot).state.in_control


async def test_after_a_reconnect_the_claim_is_asked_for_again_with_the_same_word() -> None:
    fixture = Fixture(frames=scenes.steady())
    async with showing(fixture) as pilot:
        await until(pilot, lambda: app_of(pilot).state.in_control)
        asked = len(fixture.link.ops("control"))
        fixture.link.connect(pid=78)
        app_of(pilot).tick()
        await until(pilot, lambda: len(fixture.link.ops("control")) > asked)
        words = {one["console"] for one in fixture.link.ops("control")}
        assert len(words) == 1 and not any(one["take_over"] for one in fixture.link.ops("control"))


async def test_a_host_that_cannot_record_control_keeps_nobody_from_stopping_a_job() -> None:
    full = AgentError("failed", "control: No space left on device")
    frames = [{**one, "control": None} for one in scenes.steady()]
    fixture = Fixture(frames=frames, prepare=lambda link: link.answers.update(control=full))
    async with showing(fixture) as pilot:
        await says(pilot, "the host cannot record who has control")
        for late_s in range(1, 8):
            fixture.clock.boot_s += 3
            fixture.link.feed(scenes.frame(scenes.NOW_S + late_s, control=None))
            await redraw(pilot)
        assert len(pilot.app._notifications) == 1 and len(pilot.app.screen_stack) == 1, "it is said once"
        await pilot.press("X")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen))
        await pilot.press("escape")
        fixture.link.feed(scenes.frame(scenes.NOW_S + 20, control=HERS, consoles=2))
        await says(pilot, "anna on laptop took control")
        assert not app_of(pilot).state.in_control
