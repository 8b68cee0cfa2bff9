"""Text from the host is drawn as text: no control character, no markup, nowhere."""

from typing import Any

import data_scenes
import pytest
import scenes
from fakes import Fixture, app_of, painted, redraw, showing, until
from textual.widget import Widget

from console.core import sanitize
from console.remote.errors import AgentError
from console.remote.state import LinkStatus

EVIL = "\x1b[2J\x1b]0;title\x07[bold]x[/bold] [/data/x] [@click=app.quit]q[/] \u202e\u200b\x9b31m\r\n\t日本語 é́́́́́́ $error"
MARKUP = "[/data/x] missing [red]not red[/red] [@click=app.quit]click[/]"


def spoil(value: Any, text: str) -> Any:
    """Every string in a frame replaced, but for those that name a state."""
    if isinstance(value, dict):
        return {key: one if key in ("state", "phase", "boot_id") else spoil(one, text) for key, one in value.items()}
    if isinstance(value, list):
        return [spoil(one, text) for one in value]
    return text if isinstance(value, str) else value


SCENES = [
    scenes.steady, scenes.loading, lambda: [scenes.crashed()], lambda: [scenes.done()], scenes.second, data_scenes.generating,
    data_scenes.foreign, data_scenes.outdated,
]  # fmt: skip
TEXTS = [MARKUP, "x" * 5000, "\x00\x01\x02", "日本語" * 60]


@pytest.mark.parametrize(("scene", "text"), [*((scene, EVIL) for scene in SCENES), *((scenes.steady, text) for text in TEXTS)])
async def test_every_string_of_a_frame_may_be_hostile(scene: Any, text: str) -> None:
    frames = [spoil(one, text) for one in scene()]
    for one in frames:
        one["run"]["name"] = scenes.RUN
    fixture = Fixture(
        frames=frames, log=f"{text}\n" * 30, prepare=lambda link: link.answers.update(runs={"runs": [{"name": text}, {"name": scenes.RUN}]})
    )
    async with showing(fixture, 100, 30) as pilot:
        fixture.link.connect(user=text, host=text, code=text, data_dir=text)
        for key in ("e", "d", "F", "question_mark", "colon", "X", "S", "l", "s"):
            await pilot.press(key)
            await redraw(pilot)
            for line in painted(app_of(pilot)):
                assert sanitize.is_safe(line), repr(line)
            await pilot.press("escape")
        assert app_of(pilot).is_running


async def test_markup_is_shown_and_not_read() -> None:
    one = scenes.attempt(state="FAILED", why=MARKUP, ended_boot_s=scenes.NOW_S, tree=None)
    frame = scenes.frame(stages={"extract": one})
    async with showing(Fixture(frames=[frame], log=f"{MARKUP}\n"), 120, 40) as pilot:
        await until(pilot, lambda: "\n".join(painted(app_of(pilot))).count("[/data/x] missing [red]not red[/red]") >= 2)
        fixture_link = LinkStatus("RECONNECTING", 9.0, 2, 4.0, MARKUP)
        app_of(pilot).controller._link.now = fixture_link
        assert "[/data/x] missing [red]not red[/red]" in (await redraw(pilot)).splitlines()[2]


@pytest.mark.parametrize("text", [EVIL, MARKUP])
async def test_errors_toasts_and_titles_may_be_hostile(text: str) -> None:
    fixture = Fixture(frames=scenes.nothing_ran(), prepare=lambda link: link.answers.update(launch=AgentError("failed", text, text)))
    async with showing(fixture, 100, 30) as pilot:
        app_of(pilot).say(text)
        app_of(pilot).problem(text, text)
        await redraw(pilot)
        await pilot.press("escape", "greater_than_sign")
        await pilot.press("tab", "enter")
        await until(pilot, lambda: fixture.link.ops("launch"))
        await redraw(pilot)
        for line in painted(app_of(pilot)):
            assert sanitize.is_safe(line), repr(line)


async def test_ascii_draws_nothing_else_whatever_comes() -> None:
    frames = [spoil(one, EVIL) for one in scenes.steady()]
    for one in frames:
        one["run"]["name"] = scenes.RUN
    async with showing(Fixture(frames=frames, log="grüße ✓ 日本語 █\n", ascii_only=True), 100, 30) as pilot:
        for key in ("l", "e", "question_mark", "colon", "X"):
            await pilot.press(key)
            await redraw(pilot)
            for widget in pilot.app.screen.walk_children(Widget):
                for strip in widget.render_lines(widget.size.region) if widget.size else []:
                    assert strip.text.isascii(), (widget, strip.text)
            await pilot.press("escape")


async def test_mono_paints_no_colour() -> None:
    async with showing(Fixture(frames=scenes.steady(), log=scenes.LOG, theme="mono")) as pilot:
        for key in ("l", "e", "X"):
            await pilot.press(key)
            await redraw(pilot)
            for strip in pilot.app.screen._compositor.render_strips(pilot.app.size):
                for segment in strip:
                    for colour in (segment.style.color, segment.style.bgcolor) if segment.style else ():
                        assert colour is None or colour.is_default, segment
            await pilot.press("escape")
