"""Settings that somebody else replaces while a console is open: they are read again, and the host alone says whether an alert has a way."""

from typing import Any

import scenes
from fakes import FakeLink, Fixture, app_of, confirm, redraw, showing, until
from free_pilot import flat, on

from console.tui.screens.problem import ProblemScreen

BARE = '[model]\npath = "/m"\n'


def host(settings: str, sha256: str, **alert_test: Any) -> Fixture:
    def prepare(link: FakeLink) -> None:
        link.answers |= {"read": {"value": settings, "sha256": sha256}, "alert-test": alert_test}

    return Fixture(frames=scenes.steady(), prepare=prepare)


async def test_without_an_alert_in_the_settings_the_host_is_asked_and_it_says_so() -> None:
    fixture = host(BARE, "x", sent=[])
    async with showing(fixture) as pilot:
        app_of(pilot).perform("test_alert")
        assert "by the settings that this console has read: nowhere" in flat(await confirm(pilot))
        await on(pilot, ProblemScreen)
        assert fixture.link.ops("alert-test"), "whether there is a way is the host's to say"
        assert "name neither an [alerts] command nor a webhook" in flat(await redraw(pilot))


async def test_settings_that_were_replaced_are_read_again_once_a_frame_tells_so() -> None:
    def with_settings(sha256: str, boot_s: float) -> dict[str, Any]:
        return scenes.frame(boot_s, run={"name": scenes.RUN, "exists": True, "settings_sha256": sha256})

    fixture = host(BARE, "x")
    async with showing(fixture) as pilot:
        state = app_of(pilot).state
        await until(pilot, lambda: state.settings is not None and state.settings.sha256 == "x")
        reads = len(fixture.link.ops("read"))
        fixture.link.answers["read"] = {"value": BARE + '[alerts]\ncommand = ["/bin/tell-me"]\n', "sha256": "y"}
        for after_s in (1.0, 2.0, 3.0):
            fixture.link.feed(with_settings("y", scenes.NOW_S + after_s))
        await until(pilot, lambda: state.settings is not None and state.settings.sha256 == "y")
        assert len(fixture.link.ops("read")) == reads + 1, "one reading is enough"
        app_of(pilot).perform("test_alert")
        assert "/bin/tell-me" in flat(await confirm(pilot))
