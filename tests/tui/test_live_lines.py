"""What the live sheets keep in sight and in order: steps within steps, events of two sources, waits worth a countdown, keys in a banner."""

from typing import Any

import free_scenes
import scenes
import transition_scenes as way
from fakes import Fixture, app_of, painted, redraw, showing, until
from free_pilot import on

from console.core import free_live, transition_live
from console.core.views import parse
from console.tui.screens.transition_live import TransitionLiveScreen
from pipeline.contract import transition


def both(name: str, at: float, **fields: Any) -> list[dict[str, Any]]:
    return [way.step(name, True, at), way.step(name, False, at + 0.1, result="done", seconds=0.1, **fields)]


def test_the_confirmation_of_freeing_is_within_freeing() -> None:
    told = [*both("CONFIRMED", -9), way.step(transition.FREE, True, -8), *both("SURVEY", -7), *both("CONFIRMED", -6)]
    assert [(one.name, one.inner) for one in transition_live.steps(told)] == [
        ("CONFIRMED", False), ("FREE", False), ("SURVEY", True), ("CONFIRMED", True),
    ]  # fmt: skip


def test_events_of_a_frame_are_added_to_those_that_were_read_and_none_twice() -> None:
    told = [way.step("A", True, -3), way.step("A", False, -2), way.step("B", True, -1)]
    assert free_live.joined(told[:2], told[1:]) == told == free_live.joined([], told) == free_live.joined(told, [])


def test_only_a_wait_that_a_person_would_wait_for_is_counted_down() -> None:
    def words(left_s: float) -> str:
        at = free_scenes.action()
        at["progress"]["deadline_boot_s"] = scenes.NOW_S + left_s
        view = parse(free_scenes.frame(at))
        assert view is not None
        return free_live.countdown(view.actions["free-gpus"], scenes.NOW_S)

    assert words(17).endswith("17 s left at most") and "left" not in words(86_000)


async def test_the_newest_step_is_in_sight_until_the_operator_scrolls_up() -> None:
    many = [event for at in range(30) for event in both(f"S{at}", at - 40.0)]
    fixture = Fixture(frames=[way.frame(way.action(events=many[-20:]))])
    async with showing(fixture) as pilot:
        fixture.link.answers["read"] = lambda fields: {"value": many if fields["what"] == "events" else ""}
        await pilot.press("t")
        screen = await on(pilot, TransitionLiveScreen)
        await until(pilot, lambda: len(screen.events) == len(many))
        await redraw(pilot)
        await until(pilot, lambda: all(one in "\n".join(painted(app_of(pilot))) for one in ("S29", "VERIFY")))
        for _ in range(9):
            await pilot.press("pageup")
        assert "S29 " not in await redraw(pilot)
        more = [*many, *both("S30", -5.0)]
        fixture.link.answers["read"] = lambda fields: {"value": more if fields["what"] == "events" else ""}
        fixture.link.feed(way.frame(way.action(events=more[-20:]), boot_s=scenes.NOW_S + 1))
        await redraw(pilot)
        assert "S30" not in await redraw(pilot), "who has scrolled up reads on"


def test_the_key_is_in_front_so_that_80_columns_do_not_cut_it() -> None:
    for at, runs in ((way.action(), False), (way.action(armed=True), True), (way.ended(way.receipt(stopped=True)), False)):
        line = transition_live.banner(parse(way.frame(at, runs=runs)), scenes.RUN, scenes.NOW_S)
        assert "t shows it" in line[:40] or "t disarms" in line[:40], line
