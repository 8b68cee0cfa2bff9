"""The list of runs is asked for anew each time; the log's pane says whose lines they are, and why there are none."""

from typing import Any

import data_scenes
import pytest
import scenes
from fakes import Fixture, app_of, painted, redraw, showing, until

from console.core.logring import LogRing
from console.tui.screens.choose import ChooseScreen
from pipeline.contract import telemetry


async def test_a_run_that_was_made_since_the_start_is_in_the_list() -> None:
    fixture = Fixture(frames=scenes.steady())
    async with showing(fixture) as pilot:
        assert app_of(pilot).state.runs == ("k25-10k",)
        fixture.link.answers["runs"] = {"runs": [{"name": "k25-10k", "stages": {}}, {"name": "second", "stages": {}}]}
        await pilot.press("o")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChooseScreen))
        assert "second" in await redraw(pilot)
        await pilot.press("down", "enter")
        await until(pilot, lambda: app_of(pilot).state.run == "second")


async def test_the_first_run_of_a_host_can_be_opened_though_there_was_none_at_the_start() -> None:
    def prepare(link: Any) -> None:
        link.answers["runs"] = {"runs": []}

    fixture = Fixture(run=None, frames=[scenes.frame(run=None, stages={})], prepare=prepare)
    async with showing(fixture) as pilot:
        await pilot.press("o")
        await until(pilot, lambda: any("there is no run on gpu-host" in one.message for one in pilot.app._notifications))
        fixture.link.answers["runs"] = {"runs": [{"name": "first", "stages": {}}]}
        await pilot.press("o")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChooseScreen))
        await pilot.press("enter")
        await until(pilot, lambda: app_of(pilot).state.run == "first")


def test_another_stages_log_begins_with_a_line_that_names_it() -> None:
    ring = LogRing()
    ring.names.update(a1="serve", a2="generate")
    for attempt in ("a1", "a2", "a3"):
        ring.take({"attempt": attempt, "inode": 1, "offset": 0, "end": 2, "data": f"{attempt}\n"})
    assert ring.lines(0, ring.end) == [
        "a1", "here the log of generate, attempt a2 begins", "a2", "here the log of attempt a3 begins", "a3",
    ]  # fmt: skip


async def test_the_pane_names_the_stage_whose_log_is_followed_now() -> None:
    fixture = Fixture(frames=[data_scenes.generating()[-1]])
    async with showing(fixture) as pilot:
        tailed = await _tailed(pilot, fixture, 1)
        fixture.link.log("of the first\n", attempt=tailed["attempt"])
        fixture.link.feed({**scenes.steady()[-1], "boot_s": scenes.NOW_S + 1})
        tailed = await _tailed(pilot, fixture, 2)
        assert tailed["stage"] == "extract"
        fixture.link.log("of the second\n", attempt=tailed["attempt"], inode=2)
        await until(pilot, lambda: "of the second" in "\n".join(painted(app_of(pilot))))
        assert "here the log of extract, attempt" in await redraw(pilot)


async def _tailed(pilot: Any, fixture: Fixture, count: int) -> dict[str, Any]:
    await until(pilot, lambda: len(fixture.link.ops("tail")) >= count)
    return fixture.link.ops("tail")[-1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"log": None}, "extract has no log here: a stage started by hand prints to its own terminal"),
        ({"log": None, "state": telemetry.LAUNCHING}, "the log of extract is not here yet"),
    ],
)
async def test_a_stage_without_a_log_is_told_as_such(changes: dict[str, Any], words: str) -> None:
    frame = scenes.frame(stages={**scenes.stages(), "extract": scenes.attempt(**changes)})
    fixture = Fixture(frames=[scenes.frame(stages={})])
    async with showing(fixture) as pilot:
        await until(pilot, lambda: "no log: nothing has run here yet" in "\n".join(painted(app_of(pilot))))
        fixture.link.feed({**frame, "boot_s": scenes.NOW_S + 1})
        await redraw(pilot)
        await until(pilot, lambda: words in "\n".join(painted(app_of(pilot))))
