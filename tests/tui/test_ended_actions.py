"""A console that is opened after a transition or the freeing of GPUs has ended tells it on its first card, with the key that goes on."""

from pathlib import Path
from typing import Any

import free_scenes
import pytest
import scenes
import transition_scenes as way
from fakes import SETTINGS, FakeLink, Fixture, redraw, showing, until
from free_pilot import flat, on

from console import config
from console.tui import last_look
from console.tui.last_look import Look
from console.tui.screens.done import EndedScreen
from console.tui.screens.free_receipt import FreeReceiptScreen
from console.tui.screens.transition_receipt import TransitionReceiptScreen


@pytest.fixture
def looked(state_home: Path) -> None:
    """This machine has shown the run, ten minutes before the scene."""
    last_look.write(config.state_dir(), "gpu-host", scenes.RUN, Look("boot-a", scenes.NOW_S - 600, None))


def host(frame: dict[str, Any], receipt: Any = None, **options: Any) -> Fixture:
    def prepare(link: FakeLink) -> None:
        told = {"receipt": receipt, "events": []}
        link.answers["read"] = lambda fields: {"value": told.get(fields["what"], SETTINGS)}

    return Fixture(frames=[frame], prepare=prepare, **options)


def stopped_by_somebody() -> dict[str, Any]:
    return way.ended(way.receipt(stopped=True))


async def test_a_transition_that_was_stopped_while_nobody_looked_opens_the_card_and_leads_to_its_receipt(looked: None) -> None:
    receipt = way.receipt(stopped=True)
    async with showing(host(way.frame(way.ended(receipt)), receipt)) as pilot:
        await on(pilot, EndedScreen)
        text = flat(await redraw(pilot))
        assert "transition of k25-10k on gpu-host: stopped" in text and "stopped at HOLDERS: GPU 3 is held by 5150 anna" in text
        assert "ALERT the GPUs are held" in text and "the next transition resumes at HOLDERS" in text
        assert "> plans the next one" in text and "FAILED" not in text
        await pilot.press("tab", "enter")
        await on(pilot, TransitionReceiptScreen)
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)
        assert "ALERT, t shows it: the transition stopped at HOLDERS" in await redraw(pilot)
        assert not pilot.app._notifications, "what the card tells is not told twice"


async def test_freed_gpus_that_are_not_free_are_told_as_that_and_lead_to_their_receipt(looked: None) -> None:
    story = free_scenes.receipt(free_scenes.STORY_MIB)
    async with showing(host(free_scenes.frame(free_scenes.ended(story)), story)) as pilot:
        await on(pilot, EndedScreen)
        text = flat(await redraw(pilot))
        assert "free-gpus of k25-10k on gpu-host: done" in text and "NOT FREE" in text and "F, then Receipt" in text
        await pilot.press("tab", "enter")
        await on(pilot, FreeReceiptScreen)
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)


async def test_stages_and_what_led_to_them_are_one_list(looked: None) -> None:
    done = way.receipt()
    stages = {**way.stages(runs=False), "prepare": {**scenes.ended("prepare", 0), "ended_boot_s": scenes.NOW_S - 30}}
    async with showing(host(way.frame(way.ended(done), stages=stages), done)) as pilot:
        await on(pilot, EndedScreen)
        text = flat(await redraw(pilot))
        assert "things of k25-10k on gpu-host have ended" in text
        assert "transition done" in text and "extract: 1 new sample; hs_0 is whole" in text and "prepare done" in text
        await pilot.click("#choice-transition")
        await on(pilot, TransitionReceiptScreen)


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (way.frame(way.ended(way.receipt(), ended_boot_s=scenes.NOW_S - 700)), "it was there at the last look"),
        (way.frame(way.action(armed=True), runs=True), "it is armed"),
        (way.frame(way.ended(way.receipt(), run="another")), "of another run"),
        (free_scenes.frame(free_scenes.action()), "it is at work"),
        (free_scenes.frame(free_scenes.action(state="REFUSED", why="held", ended_boot_s=scenes.NOW_S - 1)), "it did nothing"),
    ],
    ids=["seen", "armed", "another run", "at work", "refused"],
)
async def test_what_is_no_news_opens_no_card(looked: None, frame: dict[str, Any], why: str) -> None:
    async with showing(host(frame)) as pilot:
        await redraw(pilot)
        assert not any(isinstance(one, EndedScreen) for one in pilot.app.screen_stack), why


async def test_without_a_look_before_the_dashboard_alone_tells_it() -> None:
    async with showing(host(way.frame(stopped_by_somebody()))) as pilot:
        assert "ALERT, t shows it: the transition stopped at HOLDERS" in await redraw(pilot)
        assert len(pilot.app.screen_stack) == 1


async def test_one_that_left_no_receipt_is_called_by_how_it_ended(looked: None) -> None:
    crashed = free_scenes.action(
        state="CRASHED", why="SIGKILL, cause unknown", exit={"code": None, "signal": 9}, ended_boot_s=scenes.NOW_S - 1
    )
    async with showing(host(free_scenes.frame(crashed))) as pilot:
        await on(pilot, EndedScreen)
        text = flat(await redraw(pilot))
        assert "free-gpus of k25-10k on gpu-host: CRASHED" in text and "CRASHED in GRACE: SIGKILL, cause unknown" in text


async def test_who_only_looks_gets_a_line(looked: None) -> None:
    async with showing(host(way.frame(stopped_by_somebody()), read_only=True)) as pilot:
        await until(pilot, lambda: any("transition: stopped, " in one.message for one in pilot.app._notifications))
        assert len(pilot.app.screen_stack) == 1
