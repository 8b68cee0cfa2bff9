"""Every button, by mouse, by Enter and by space."""

import asyncio
from typing import Any

import free_scenes
import pytest
import scenes
from fakes import Fixture, app_of, redraw, showing, until
from textual.pilot import Pilot
from textual.widgets import Button

from console.tui.bindings import ACTIONS
from console.tui.screens.card import Card
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.details import DetailsScreen
from console.tui.screens.done import EndedScreen
from console.tui.screens.free_gpus import FreeGpusScreen
from console.tui.widgets.footer import KeyFooter, footer
from console.tui.widgets.strip import StageCell
from pipeline.contract.stages import STAGES

SIZES = [(80, 24), (120, 40)]


async def press(pilot: Pilot[Any], way: str, selector: str) -> None:
    if way == "mouse":
        assert await pilot.click(selector)
        return
    pilot.app.screen.query_one(selector).focus()
    await pilot.pause()
    await pilot.press(way)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", ["mouse", "enter", "space"])
@pytest.mark.parametrize("stage", list(STAGES))
async def test_a_cell_of_the_strip_opens_its_stage(stage: str, way: str, size: tuple[int, int]) -> None:
    async with showing(Fixture(frames=scenes.steady()), *size) as pilot:
        await press(pilot, way, f"#stage-{stage}")
        await until(pilot, lambda: isinstance(pilot.app.screen, DetailsScreen))
        text = await redraw(pilot)
        assert f"{stage} of k25-10k on gpu-host" in text
        assert STAGES[stage].built or f"{stage}: not in this version of eaglewatch" in text
        enabled = {one.id for one in pilot.app.screen.query(Button) if not one.disabled}
        can = {"extract": {"choice-stop"}, "prepare": {"choice-start"}, "vocab": {"choice-start"}}
        assert enabled == {"choice-close"} | can.get(stage, set())


async def test_the_strip_is_reached_by_tab_and_walked_by_arrows_and_says_what_it_is() -> None:
    async with showing(Fixture(frames=scenes.steady())) as pilot:
        await pilot.press("tab")
        names = []
        for _ in STAGES:
            assert isinstance(pilot.app.focused, StageCell)
            names.append(pilot.app.focused.stage.name)
            last_line = (await redraw(pilot)).splitlines()[-1]
            assert names[-1] in last_line, "the footer says what the cell in focus is"
            await pilot.press("right")
        assert names == list(STAGES)
        await pilot.press("escape")
        assert pilot.app.focused is None
        assert "quit" in (await redraw(pilot)).splitlines()[-1]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", ["mouse", "enter", "space"])
async def test_free_gpus_shows_the_readings_with_their_age_until_the_host_has_looked(way: str, size: tuple[int, int]) -> None:
    looked = asyncio.Event()

    async def plan(fields: Any) -> Any:
        await looked.wait()
        return {"plan": free_scenes.plan()}

    async with showing(Fixture(frames=scenes.steady(), prepare=lambda link: link.answers.update({"free.plan": plan})), *size) as pilot:
        await press(pilot, way, "#button-free_gpus")
        await until(pilot, lambda: isinstance(pilot.app.screen, FreeGpusScreen))
        text = await redraw(pilot)
        assert "8 GPUs" in text and "read 0.8 s ago" in text
        for index in range(8):
            assert f" {index}  82,6" in text
        assert pilot.app.screen.query_one("#choice-free", Button).disabled
        looked.set()
        await until(pilot, lambda: not pilot.app.screen.query_one("#choice-free", Button).disabled)
        assert "read 0.8 s ago" not in await redraw(pilot)
        await pilot.click("#choice-close")
        assert len(pilot.app.screen_stack) == 1


@pytest.mark.parametrize("size", SIZES)
async def test_each_key_of_the_footer_can_be_clicked(size: tuple[int, int]) -> None:
    frames = scenes.steady()
    async with showing(Fixture(frames=frames), *size) as pilot:
        _, places = footer(app_of(pilot).state, size[0])
        assert {"stop_stage", "free_gpus", "help", "quit"} <= {action for _, _, action in places}
    for start, end, action in places:
        async with showing(Fixture(frames=scenes.steady()), *size) as pilot:
            done: list[str] = []
            app_of(pilot).perform = done.append  # type: ignore[method-assign]
            for column in (start, end - 1):
                await pilot.click(KeyFooter, offset=(column, 0))
            assert done == [action, action]


def test_the_footer_names_no_action_that_the_table_lacks() -> None:
    from console.tui.state import ConsoleState

    _, places = footer(ConsoleState("h"), 300)
    assert [action for _, _, action in places] == [one.id for one in ACTIONS if one.short and one.key in (">", "S", "X", "F")] + [
        one.id for one in ACTIONS if one.short and one.key not in (">", "S", "X", "F")
    ]


@pytest.mark.parametrize("way", ["mouse", "enter"])
async def test_stop_in_a_stages_sheet_asks_and_start_is_greyed_with_its_reason(way: str) -> None:
    async with showing(Fixture(frames=scenes.steady())) as pilot:
        await pilot.press("d")
        await until(pilot, lambda: isinstance(pilot.app.screen, DetailsScreen))
        assert "extract runs already" in await redraw(pilot)
        await press(pilot, way, "#choice-stop")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen))


@pytest.mark.parametrize("way", ["mouse", "enter"])
async def test_start_in_a_stages_sheet_asks(way: str) -> None:
    async with showing(Fixture(frames=scenes.ready())) as pilot:
        await pilot.click("#stage-extract")
        await until(pilot, lambda: isinstance(pilot.app.screen, DetailsScreen))
        await press(pilot, way, "#choice-start")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen))


@pytest.mark.parametrize("key", ["X", "greater_than_sign"])
@pytest.mark.parametrize("no", ["enter", "escape", "q", "mouse"])
async def test_a_question_has_cancel_in_focus_and_every_way_out_of_it_does_nothing(key: str, no: str) -> None:
    fixture = Fixture(frames=scenes.steady() if key == "X" else scenes.ready())
    async with showing(fixture) as pilot:
        await pilot.press(key)
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen))
        assert pilot.app.focused is not None and pilot.app.focused.id == "choice-cancel"
        if no == "mouse":
            await pilot.click("#choice-cancel")
        else:
            await pilot.press(no)
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)
        assert not fixture.link.ops("stop") and not fixture.link.ops("launch")


async def test_the_card_of_an_ended_attempt_leads_to_its_details() -> None:
    fixture = Fixture(frames=scenes.steady())
    async with showing(fixture) as pilot:
        fixture.link.feed(scenes.done())
        await until(pilot, lambda: isinstance(pilot.app.screen, EndedScreen))
        await pilot.click("#choice-details")
        await until(pilot, lambda: isinstance(pilot.app.screen, DetailsScreen))
        assert "100 of 10,000 re-read whole" in await redraw(pilot)


@pytest.mark.parametrize("size", [(20, 5), (30, 8), (80, 24)])
async def test_the_buttons_of_a_sheet_stay_in_sight_however_long_it_is(size: tuple[int, int]) -> None:
    async with showing(Fixture(frames=scenes.steady()), *size) as pilot:
        for key in ("e", "question_mark", "d", "F", "X"):
            await pilot.press(key)
            await until(pilot, lambda: isinstance(pilot.app.screen, Card))
            await pilot.pause()
            first = pilot.app.screen.query(Button).first()
            assert first.region.bottom <= size[1] and first.region.height == 1
            await pilot.press("down", "pagedown", "escape")
            await until(pilot, lambda: len(pilot.app.screen_stack) == 1)
