"""Acting on the data stages: input in doubt, the server that holds the GPUs, and which of several is looked at."""

import data_scenes
import scenes
from fakes import Fixture, app_of, confirm, painted, redraw, showing, until

from console.tui.screens.confirm import ReasonScreen
from console.tui.screens.transition_plan import TransitionPlanScreen


async def test_input_in_doubt_takes_a_typed_reason_which_goes_with_the_launch() -> None:
    fixture = Fixture(frames=data_scenes.outdated())
    async with showing(fixture, 100, 30) as pilot:
        app_of(pilot).flows.start("extract")
        await until(pilot, lambda: isinstance(pilot.app.screen, ReasonScreen))
        assert "prepare is OUTDATED: made of another output of generate" in await redraw(pilot)
        await pilot.press("enter", "tab", "enter")  # without a reason there is no yes
        await pilot.pause()
        assert not fixture.link.ops("launch")
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)
        app_of(pilot).flows.start("extract")
        await until(pilot, lambda: isinstance(pilot.app.screen, ReasonScreen))
        await pilot.press(*"only a test", "tab", "tab", "enter")
        await until(pilot, lambda: fixture.link.ops("launch"))
        (launched,) = fixture.link.ops("launch")
        assert (launched["stage"], launched["args"]) == ("extract", ["--override", "only a test"])
        assert launched["override"] is None, "a reason for outdated input is none for GPUs that are held"


async def test_the_next_step_plans_the_way_when_the_extraction_needs_the_servers_gpus() -> None:
    fixture = Fixture(frames=[scenes.frame(stages=scenes.stages(serve=data_scenes.serve()))])
    async with showing(fixture) as pilot:
        await pilot.press("greater_than_sign")
        await until(pilot, lambda: isinstance(pilot.app.screen, TransitionPlanScreen) and pilot.app.screen.plan is not None)
        assert "stop k25-10k/serve" in await redraw(pilot)
        assert not fixture.link.ops("stop") and not fixture.link.ops("launch"), "nothing is done before the phrase"


async def test_a_server_that_works_says_who_would_fail_without_it_and_its_end_is_no_card() -> None:
    fixture = Fixture(frames=data_scenes.generating())
    async with showing(fixture) as pilot:
        app_of(pilot).flows.stop("serve")
        text = await confirm(pilot)
        assert "generate works through it now, and will fail" in text
        await until(pilot, lambda: fixture.link.ops("stop"))
        gone = data_scenes.serve(state="STOPPED", why="stopped by me", ended_boot_s=scenes.NOW_S)
        fixture.link.feed(scenes.frame(scenes.NOW_S + 1, stages={**scenes.stages(), "serve": gone}))
        await until(pilot, lambda: any("serve was stopped: stopped by me" in one.message for one in pilot.app._notifications))


async def test_the_strip_chooses_which_of_several_is_looked_at_and_escape_goes_back() -> None:
    fixture = Fixture(frames=data_scenes.generating())
    async with showing(fixture) as pilot:
        assert "GENERATE STEADY" in await redraw(pilot)
        await pilot.press("tab")
        fixture.link.feed(data_scenes.generating()[-1])
        shown = await redraw(pilot)
        for words in ("SERVE UP  for 2 h 3 min", "last answer 1.6 s ago", "answers at http://127.0.0.1:8000/v1", "requests 64 running"):
            assert words in shown
        await until(pilot, lambda: fixture.link.ops("tail")[-1]["stage"] == "serve")
        await pilot.press("l")
        assert "SERVE UP" in await redraw(pilot), "the log can be read meanwhile"
        await pilot.press("escape")
        assert "GENERATE STEADY" in await redraw(pilot)


async def test_a_stage_of_another_run_that_has_the_gpus_is_named_and_nothing_is_launched() -> None:
    fixture = Fixture(frames=scenes.ready())
    async with showing(fixture, 100, 30) as pilot:
        other = {"name": "fourth", "stages": {"extract": {"state": "RUNNING"}}}
        fixture.link.answers["runs"] = {"runs": [{"name": "k25-10k", "stages": {}}, other]}
        app_of(pilot).flows.start("extract")
        await confirm(pilot)
        await until(pilot, lambda: any("It did not happen" in line for line in painted(app_of(pilot))))
        shown = await redraw(pilot)
        assert "extract of run fourth holds the GPUs" in shown and "(eaglewatch stop gpu-host --run fourth --stage extract)" in shown
        assert not fixture.link.ops("launch")
