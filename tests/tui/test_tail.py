"""The log view: follows, or stands still. Driven by keys; what is asserted is what was painted."""

import pytest
from log_app import Pane, filled, find, more, until

from console.core.logring import LogRing


async def test_follows_past_many_times_the_ring() -> None:
    ring = filled(50)
    app = Pane(ring)
    async with app.run_test(size=(60, 11)) as pilot:
        for start in range(50, 650, 40):
            more(ring, start, 40)
            newest = f" line {start + 39}"
            await until(pilot, lambda newest=newest: app.shown[-1] == newest)
        assert app.shown == [f" line {number}" for number in range(640, 650)]
        assert "follow" in app.title_line and "stdout.log" in app.title_line


async def test_a_paused_reader_stands_still_while_the_ring_moves_on_and_is_told_so() -> None:
    ring = filled(100)
    app = Pane(ring)
    async with app.run_test(size=(80, 11)) as pilot:
        await until(pilot, lambda: app.shown[-1] == " line 99")
        await pilot.press("up", "up")
        still = [f" line {number}" for number in range(88, 98)]
        await until(pilot, lambda: app.shown == still)
        for start in range(100, 1300, 50):
            more(ring, start, 50)
            await pilot.pause(0.03)
            assert app.shown == still
        await until(pilot, lambda: "1,200 new" in app.title_line and "dropped from memory" in app.title_line)
        await pilot.press("pageup")
        await until(pilot, lambda: app.shown[0] == " line 79")
        assert ring.first == 1200, "and he still reads what the ring no longer has"
        await pilot.press("G")
        await until(pilot, lambda: app.shown[-1] == " line 1299" and "PAUSED" not in app.title_line)


async def test_scrolling_down_goes_on_to_what_came_meanwhile_and_follows_at_the_end() -> None:
    ring = filled(50)
    app = Pane(ring)
    async with app.run_test(size=(80, 11)) as pilot:
        await until(pilot, lambda: app.shown[-1] == " line 49")
        await pilot.press("pageup")
        await until(pilot, lambda: app.shown[0] == " line 31")
        more(ring, 50, 30)
        seen = set(app.shown)
        for _ in range(40):
            await pilot.press("down")
            await pilot.pause()
            seen.update(app.shown)
            if app.pane.tail.following:
                break
        assert app.pane.tail.following
        await until(pilot, lambda: app.shown[-1] == " line 79")
        seen.update(app.shown)
        assert {f" line {number}" for number in range(31, 80)} <= seen


async def test_lines_that_passed_a_reader_by_are_told() -> None:
    ring = filled(100)
    app = Pane(ring)
    async with app.run_test(size=(90, 11)) as pilot:
        await until(pilot, lambda: app.shown[-1] == " line 99")
        await pilot.press("up")
        more(ring, 100, 500)
        await pilot.press("pagedown")
        await until(pilot, lambda: app.shown[0] == " line 500" and "400 lines passed unread" in app.title_line)


async def test_home_end_and_the_wheel_key_f() -> None:
    ring = filled(60)
    app = Pane(ring)
    async with app.run_test(size=(80, 11)) as pilot:
        await pilot.press("home")
        await until(pilot, lambda: app.shown[0] == " line 0" and "PAUSED" in app.title_line)
        await pilot.press("end")
        await until(pilot, lambda: app.shown[-1] == " line 59" and "PAUSED" not in app.title_line)
        await pilot.press("f")
        more(ring, 60, 5)
        await until(pilot, lambda: "5 new" in app.title_line)
        assert app.shown[-1] == " line 59"
        await pilot.press("f")
        await until(pilot, lambda: app.shown[-1] == " line 64")


async def test_an_unfinished_line_is_shown_and_renewed() -> None:
    ring = filled(3)
    app = Pane(ring)
    async with app.run_test(size=(80, 11)) as pilot:
        for percent in (10, 20, 30):
            ring.feed(f"\rloading {percent}%")
            await until(pilot, lambda percent=percent: app.shown[3] == f" loading {percent}%")
        ring.feed("\ndone\n")
        await until(pilot, lambda: app.shown[3:5] == [" loading 30%", " done"])


async def test_hostile_lines_reach_the_screen_as_harmless_text() -> None:
    ring = LogRing()
    ring.feed("\x1b[2J\x1b]0;owned\x07[/data/x] [bold]b[/] {c} $d \x9b31m\u202egnp\n")
    app = Pane(ring)
    async with app.run_test(size=(80, 6)) as pilot:
        await until(pilot, lambda: "[/data/x]" in app.shown[0])
        assert "\x1b" not in app.shown[0] and "[bold]b[/] {c} $d" in app.shown[0] and "<202E>" in app.shown[0]


@pytest.mark.parametrize("size", [(20, 5), (1, 1), (3, 2), (200, 60)])
async def test_any_size(size: tuple[int, int]) -> None:
    ring = filled(500, max_lines=1000)
    app = Pane(ring)
    async with app.run_test(size=size) as pilot:
        await pilot.press("up", "pageup", "right", "home", "down", "G")
        await find(pilot, "line 4")
        await pilot.resize_terminal(100, 30)
        await pilot.press("G")
        await until(pilot, lambda: app.shown[-1] in (" line 499", ">line 499"))
        assert all(len(line) <= 100 for line in app.screen_lines())


async def test_without_any_log_it_says_so() -> None:
    app = Pane(LogRing())
    async with app.run_test(size=(80, 6)) as pilot:
        await until(pilot, lambda: "no line yet" in app.shown[0])
        app.state.log_source = None
        await pilot.resize_terminal(70, 6)
        await until(pilot, lambda: "nothing has run here yet" in app.shown[0])
