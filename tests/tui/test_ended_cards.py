"""The card about what has ended: one for all, never older than what is known, with times; and it swallows no key."""

from pathlib import Path
from typing import Any

import data_scenes
import pytest
import scenes
from fakes import Fixture, app_of, redraw, showing, until
from textual.pilot import Pilot

from console.tui import last_look
from console.tui.last_look import Look
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.details import DetailsScreen
from console.tui.screens.done import EndedScreen
from console.tui.screens.problem import ProblemScreen

NIGHT_S = 6 * 3600.0


def running(stage: str) -> dict[str, Any]:
    return scenes.attempt(stage=stage, attempt=f"20251231-120000-{len(stage):012d}", started_boot_s=scenes.NOW_S - 60)


def ended(stage: str, at_s: float, **changes: Any) -> dict[str, Any]:
    return {**scenes.ended(stage, 0), "attempt": running(stage)["attempt"], "ended_boot_s": at_s, **changes}


def two() -> Fixture:
    return Fixture(frames=[scenes.frame(stages={"prepare": running("prepare"), "vocab": running("vocab")})])


def both_ended(after_s: float = 40.0) -> dict[str, Any]:
    now = scenes.NOW_S + after_s
    bad = {"state": "CRASHED", "why": "SIGKILL, cause unknown", "exit": {"code": None, "signal": 9}, "receipt": None}
    stages = {"prepare": ended("prepare", now - 30), "vocab": ended("vocab", now - 10, **bad)}
    return scenes.frame(now, stages=stages, gpus=scenes.idle_gpus())


async def card(pilot: Pilot[Any]) -> str:
    await until(pilot, lambda: isinstance(pilot.app.screen, EndedScreen))
    return await redraw(pilot)


async def test_several_ends_are_one_card_that_lists_them_with_their_times() -> None:
    fixture = two()
    async with showing(fixture) as pilot:
        fixture.link.feed(both_ended())
        text = await card(pilot)
        assert "2 stages of k25-10k on gpu-host have ended" in text
        assert (
            "13:11, 30 s ago        prepare   done" in text
            and "13:11, 10 s ago        vocab     CRASHED" in text
            and "SIGKILL, cause unknown" in text
        )
        await pilot.click("#choice-vocab")
        await until(pilot, lambda: isinstance(pilot.app.screen, DetailsScreen))
        await pilot.press("escape")
        await redraw(pilot)
        assert len(pilot.app.screen_stack) == 1, "none comes after it"


async def test_an_open_card_takes_in_what_ends_meanwhile() -> None:
    fixture = two()
    async with showing(fixture) as pilot:
        first = both_ended()
        first["stages"]["vocab"] = running("vocab")
        fixture.link.feed(first)
        assert "prepare of k25-10k on gpu-host: done" in await card(pilot)
        fixture.link.feed(both_ended(50.0))
        await until(pilot, lambda: isinstance(pilot.app.screen, EndedScreen) and "2 stages" in pilot.app.screen.heading())
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)
        await redraw(pilot)
        assert len(pilot.app.screen_stack) == 1


async def test_an_end_that_a_later_launch_has_replaced_opens_no_card() -> None:
    fixture = two()
    async with showing(fixture) as pilot:
        await pilot.press("question_mark")  # a sheet is open while it ends
        fixture.link.feed(both_ended())
        await redraw(pilot)
        later = both_ended(60.0)
        later["stages"]["vocab"] = {**running("vocab"), "attempt": "20251231-130000-ffffffffffff"}
        fixture.link.feed(later)
        await pilot.press("escape")
        text = await card(pilot)
        assert "prepare of k25-10k on gpu-host: done" in text and "CRASHED" not in text


async def test_a_card_says_when_it_ended_and_q_leaves_from_it() -> None:
    fixture = Fixture(frames=scenes.steady())
    async with showing(fixture) as pilot:
        fixture.link.feed({**scenes.done(), "boot_s": scenes.NOW_S + 200})
        assert "ended     13:08, 3 min 23 s ago" in await card(pilot)
        await pilot.press("q")
        await until(pilot, lambda: not pilot.app.is_running or pilot.app._exit)
    assert pilot.app.return_value is not None


@pytest.mark.parametrize(("key", "screen"), [("greater_than_sign", ConfirmScreen), ("d", DetailsScreen)])
async def test_a_key_of_the_dashboard_does_its_work_from_the_card_too(key: str, screen: type) -> None:
    fixture = two()
    async with showing(fixture) as pilot:
        fixture.link.feed(both_ended())
        await card(pilot)
        await pilot.press(key)
        await until(pilot, lambda: isinstance(pilot.app.screen, screen))
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)
        assert not fixture.link.ops("launch")


async def test_a_console_that_only_looks_is_told_in_passing() -> None:
    fixture = two()
    fixture.read_only = True
    async with showing(fixture) as pilot:
        fixture.link.feed(both_ended())
        await until(pilot, lambda: "vocab: CRASHED" in "\n".join(one.message for one in pilot.app._notifications))
        await redraw(pilot)
        assert len(pilot.app.screen_stack) == 1


async def test_what_ended_while_no_console_looked_is_on_the_first_card(state_home: Path) -> None:
    last_look.write(state_home, "gpu-host", scenes.RUN, Look("boot-a", scenes.NOW_S - NIGHT_S, None))
    before, after = scenes.ended("generate", 7), scenes.ended("prepare", 3)
    fixture = Fixture(frames=[scenes.frame(stages={"generate": before, "prepare": after, "vocab": scenes.ended("vocab", 2)})])
    async with showing(fixture) as pilot:
        text = await card(pilot)
        assert "10:11, 3 h ago         prepare" in text and "11:11, 2 h ago         vocab" in text and " generate  " not in text
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)
    look = last_look.read(state_home, "gpu-host", scenes.RUN)
    assert look is not None and look.boot_s == scenes.NOW_S, "the next console knows that it was seen"
    async with showing(Fixture(frames=fixture.frames)) as pilot:
        await redraw(pilot)
        assert len(pilot.app.screen_stack) == 1


def test_a_look_before_a_restart_of_the_host_is_compared_by_its_wall_clock(state_home: Path) -> None:
    from fakes import state_of

    state = state_of(scenes.frame(stages={"prepare": scenes.ended("prepare", 3)}))
    one, view = state.store.attempt("prepare"), state.view
    assert one is not None and view is not None and view.wall_s is not None
    assert Look("boot-b", 5.0, view.wall_s - NIGHT_S).before_end(one, view)
    assert not Look("boot-b", 5.0, view.wall_s - 3600).before_end(one, view)
    assert not Look("boot-b", 5.0, None).before_end(one, view), "what cannot be told is no news"
    (state_home / last_look.FILE).parent.mkdir(parents=True, exist_ok=True)
    for junk in ("{torn", "[]", '{"gpu-host k25-10k": 3}', '{"gpu-host k25-10k": {"boot_s": "x"}}', "[" * 100_000):
        (state_home / last_look.FILE).write_text(junk)
        assert last_look.read(state_home, "gpu-host", scenes.RUN) is None


async def test_a_refused_launch_says_why_and_that_what_is_there_is_untouched() -> None:
    fixture = Fixture(frames=scenes.ready())
    async with showing(fixture) as pilot:
        vocab = {**scenes.stages()["vocab"], "refused": data_scenes.refused(ended_boot_s=scenes.NOW_S + 5)}
        fixture.link.feed(scenes.frame(scenes.NOW_S + 10, stages=scenes.stages(vocab=vocab), gpus=scenes.idle_gpus()))
        text = await card(pilot)
        text = " ".join(text.replace("│", " ").split())
        assert "vocab of k25-10k on gpu-host: refused" in text and data_scenes.REFUSAL in text
        assert "what an earlier attempt made, untouched: done, 9,990/9,990 samples" in text
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)
        assert "vocab ✓98.3%" in await redraw(pilot)


async def test_q_leaves_from_a_problem_too() -> None:
    async with showing(Fixture(frames=scenes.ready())) as pilot:
        app_of(pilot).problem("It did not happen", "because")
        await until(pilot, lambda: isinstance(pilot.app.screen, ProblemScreen))
        await pilot.press("q")
        await until(pilot, lambda: pilot.app._exit)
