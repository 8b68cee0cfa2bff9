"""The idle baseline is asked for once, before GPUs are looked at for a stage: at the first start, and at the first transition."""

from typing import Any

import free_scenes
import pytest
import scenes
import transition_scenes
from fakes import FakeLink, Fixture, app_of, painted, redraw, showing, until
from free_pilot import flat, on
from textual.pilot import Pilot
from textual.widgets import Button

from console.remote.errors import AgentError
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.transition_plan import TransitionPlanScreen

MIB = (0, 0, 0, 1, 1, 1, 3, 3)
RECORDED = {uuid: mib * scenes.MIB for uuid, mib in zip(free_scenes.UUIDS, MIB, strict=True)}
GPUS = [scenes.gpu(index, used_bytes=mib * scenes.MIB, util_pct=0, procs=[]) for index, mib in enumerate(MIB)]


def host(frame: dict[str, Any], answer: Any = None) -> Fixture:
    def prepare(link: FakeLink) -> None:
        link.answers["baseline.accept"] = answer or {"accepted": RECORDED, "driver": "590.44"}

    return Fixture(frames=[frame], prepare=prepare)


def idle(**changes: Any) -> dict[str, Any]:
    """Everything before extract is done; the GPUs are idle, and were recorded so."""
    return {**scenes.ready()[0], "gpus": GPUS, "baseline_recorded": RECORDED, **changes}


async def question(pilot: Pilot[Any], words: str) -> ConfirmScreen:
    await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen) and words in pilot.app.screen.heading())
    await pilot.pause()
    assert isinstance(pilot.app.screen, ConfirmScreen)
    return pilot.app.screen


async def test_the_first_start_of_a_stage_that_needs_gpus_asks_for_the_baseline_and_then_starts() -> None:
    fixture = host(idle())
    async with showing(fixture) as pilot:
        await pilot.press("greater_than_sign")
        asked = await question(pilot, "idle baseline")
        text = flat(await redraw(pilot))
        assert "0,0,0,1,1,1,3,3 MiB, in five readings" in text and "never 0" in text and f"for run {scenes.RUN}" in text
        assert pilot.app.focused is asked.query_one("#choice-cancel", Button), "Enter alone accepts nothing"
        await pilot.press("tab", "enter")
        await until(pilot, lambda: fixture.link.ops("baseline.accept"))
        (sent,) = fixture.link.ops("baseline.accept")
        assert (sent["run"], sent["gpus"]) == (scenes.RUN, RECORDED)
        fixture.link.feed(idle(boot_s=scenes.NOW_S + 1, baseline_accepted=RECORDED))
        await question(pilot, "Start extract")
        text = flat(await redraw(pilot))
        assert "each of 8 holds 0 to 3 MiB (baseline accepted)" in text
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)
        rows = [line for line in (await redraw(pilot)).splitlines() if line.split()[0:1] and line.split()[0].isdigit()]
        assert [("baseline accepted" in line) for line in rows] == [mib > 0 for mib in MIB]
        await pilot.press("greater_than_sign")
        await question(pilot, "Start extract")
        assert len(fixture.link.ops("baseline.accept")) == 1 and not fixture.link.ops("launch")


async def test_not_now_accepts_nothing_and_is_not_asked_again() -> None:
    fixture = host(idle())
    async with showing(fixture) as pilot:
        for words in ("idle baseline", "Start extract"):
            if words == "idle baseline":
                await pilot.press("greater_than_sign")
            await question(pilot, words)
            await pilot.press("enter")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)
        await pilot.press("greater_than_sign")
        await question(pilot, "Start extract")
        assert not fixture.link.ops("baseline.accept") and not fixture.link.ops("launch")


@pytest.mark.parametrize(
    "changes",
    [
        {"baseline_recorded": {}},
        {"baseline_recorded": dict.fromkeys(free_scenes.UUIDS, 0)},
        {"baseline_accepted": RECORDED},
        {"baseline_recorded": {"GPU-0": "3"}},
    ],
    ids=["none recorded", "all at 0", "accepted already", "junk"],
)
async def test_it_is_not_asked_where_there_is_nothing_to_accept(changes: dict[str, Any]) -> None:
    async with showing(host(idle(**changes))) as pilot:
        await pilot.press("greater_than_sign")
        await question(pilot, "Start extract")


async def test_more_than_was_accepted_is_asked_again() -> None:
    less = {**RECORDED, "GPU-7": scenes.MIB}
    async with showing(host(idle(baseline_accepted=less))) as pilot:
        await pilot.press("greater_than_sign")
        await question(pilot, "idle baseline")


async def test_a_stage_without_gpus_does_not_ask() -> None:
    async with showing(host(idle())) as pilot:
        app_of(pilot).flows.start("vocab")
        await question(pilot, "Start vocab")


async def test_the_first_transition_asks_before_its_plan_while_the_server_still_has_the_gpus() -> None:
    fixture = host({**transition_scenes.frame(), "baseline_recorded": RECORDED})
    async with showing(fixture) as pilot:
        await pilot.press("greater_than_sign")
        await question(pilot, "idle baseline")
        assert not fixture.link.ops("transition.plan")
        await pilot.press("tab", "enter")
        await on(pilot, TransitionPlanScreen)
        assert len(fixture.link.ops("baseline.accept")) == 1


async def test_a_host_that_does_not_take_it_starts_nothing_and_says_why() -> None:
    refusal = AgentError("usage", "GPU-3: 1048576 bytes were shown, 2097152 are recorded")
    fixture = host(idle(), refusal)
    async with showing(fixture) as pilot:
        await pilot.press("greater_than_sign")
        await question(pilot, "idle baseline")
        await pilot.press("tab", "enter")
        await until(pilot, lambda: "2097152 are recorded" in flat("\n".join(painted(app_of(pilot)))))
        assert not fixture.link.ops("launch")
