"""The sheets that ask for a phrase: all of it in sight, the age of its plan, and why it cannot be done now."""

from typing import Any

import free_scenes
import scenes
import transition_scenes as way
from fakes import Fixture, redraw, showing
from free_pilot import flat, host, on, planned
from test_transitions import host as way_host
from test_transitions import planned as way_planned
from textual.pilot import Pilot
from textual.widgets import Button, Input

from console.remote.state import LinkStatus
from console.tui.screens.free_confirm import PhraseScreen
from console.tui.screens.transition_confirm import TransitionConfirmScreen
from pipeline.contract import transition

LIVE, GONE = LinkStatus("LIVE", 0.4, 0, None, ""), LinkStatus("NO DATA", 41.0, 0, None, "")


def app(pilot: Pilot[Any]) -> Any:
    return pilot.app


async def test_why_a_button_is_off_stands_on_the_sheet() -> None:
    fixture = host()
    async with showing(fixture) as pilot:
        await planned(pilot)
        fixture.link.now = GONE
        assert "Free... is off: the link is NO DATA" in await redraw(pilot)
        fixture.link.now = LIVE
        app(pilot).state.in_control = False
        assert "Free... is off: this console has no control yet; T takes it" in flat(await redraw(pilot))
        app(pilot).state.in_control = True
        assert "is off" not in await redraw(pilot)
        await pilot.press("a", "tab", "tab", "enter")
        await on(pilot, PhraseScreen)
        await pilot.press("tab", *("space" if one == " " else one for one in app(pilot).screen.phrase))
        await redraw(pilot)
        yes = pilot.app.screen.query_one("#choice-yes", Button)
        assert not yes.disabled and yes.tooltip is None
        fixture.link.feed(free_scenes.frame(free_scenes.action(by="anna"), scenes.NOW_S + 1))
        assert "Free GPUs is off: anna frees GPUs now" in await redraw(pilot) and yes.disabled
        fixture.link.feed(free_scenes.frame(None, scenes.NOW_S + 2))
        fixture.link.now = GONE
        assert "Free GPUs is off: the link is NO DATA" in await redraw(pilot) and yes.disabled


async def test_a_confirmation_tells_its_age_and_every_process() -> None:
    fixture = host()
    async with showing(fixture, 100, 40) as pilot:
        await planned(pilot)
        await pilot.press("a", "tab", "tab", "enter")
        await on(pilot, PhraseScreen)
        text = await redraw(pilot)
        assert "the host looked 0.8 s ago, and looks again before it does anything" in text
        assert all(f"{pid} " in text for pid in (4100, *range(4200, 4208))) and "Free GPUs of root@gpu-host: end 9 processes?" in text
        fixture.link.feed(free_scenes.frame(None, scenes.NOW_S + 3600))
        assert "the host looked 1 h ago" in await redraw(pilot)


async def test_a_long_phrase_is_in_sight_whole_and_one_that_cannot_be_typed_is_refused() -> None:
    names = [f"{number:012x}" for number in range(0xABCDE0, 0xABCDE0 + 8)]
    rows = [free_scenes.row(4200 + at, (at,), manager={"how": "docker", "name": name, "id": name * 5}) for at, name in enumerate(names)]
    many = [free_scenes.row(6000 + at, manager={"how": "docker", "name": f"{at:012x}", "id": f"{at:012x}"}) for at in range(40)]
    for width, height in ((80, 24), (40, 16)):
        async with showing(host(plan=lambda fields: {"plan": free_scenes.plan(rows)}), width, height) as pilot:
            await planned(pilot)
            await pilot.press("a")
            pilot.app.screen.query_one("#choice-free", Button).press()
            await on(pilot, PhraseScreen)
            await redraw(pilot)
            await pilot.press(*["pagedown"] * 9)
            assert app(pilot).screen.phrase in flat(await redraw(pilot)) and len(app(pilot).screen.phrase) > 110
    async with showing(host(plan=lambda fields: {"plan": free_scenes.plan(many)})) as pilot:
        await planned(pilot)
        await pilot.press("a", "tab", "tab", "enter")
        await on(pilot, PhraseScreen)
        assert "and 400 can be typed: select less at a time" in flat(await redraw(pilot))


async def test_a_transitions_confirmation_has_its_long_phrase_too() -> None:
    name = "root@ec2-203-0-113-25.eu-central-1.compute.example.com"

    def plan(fields: dict[str, Any]) -> dict[str, Any]:
        phrase = transition.phrase(fields["label"], scenes.RUN, list(way.STAGES), way.SERVICE, False)
        return {"plan": way.plan(label=fields["label"], phrase=phrase, phrase_armed=phrase.replace("next", "arm"))}

    fixture: Fixture = way_host(way.frame(), host=name)
    async with showing(fixture) as pilot:
        fixture.link.answers["transition.plan"] = plan
        sheet = await way_planned(pilot)
        sheet.query_one("#choice-now", Button).press()
        confirmation = await on(pilot, TransitionConfirmScreen)
        assert confirmation.phrase in flat(await redraw(pilot)) and len(confirmation.phrase) > 76
        assert (pilot.app.screen.query_one(Input).max_length or 0) >= len(confirmation.phrase)
