"""Searching the log: by keys, as an operator does it."""

import pytest
from log_app import Pane, filled, find, until

from console.core.logring import LogRing


async def test_search_older_newer_and_around_the_ends() -> None:
    ring = LogRing()
    ring.feed("".join(f"{'ERROR' if number % 100 == 0 else 'info'} {number}\n" for number in range(1000)))
    app = Pane(ring)
    async with app.run_test(size=(80, 11)) as pilot:
        await find(pilot, "error")
        await until(pilot, lambda: ">ERROR 900" in app.shown)
        assert not app.pane.tail.following
        await pilot.press("n")
        await until(pilot, lambda: ">ERROR 800" in app.shown)
        await pilot.press("N")
        await until(pilot, lambda: ">ERROR 900" in app.shown)
        await pilot.press("N")
        await until(pilot, lambda: ">ERROR 0" in app.shown and "past the newest line" in app.title_line)
        await pilot.press("n")
        await until(pilot, lambda: ">ERROR 900" in app.shown and "past the oldest line" in app.title_line)
        ring.feed("ERROR new\n")
        await pilot.press("N")
        await until(pilot, lambda: ">ERROR new" in app.shown)


async def test_a_match_is_marked_and_highlighted() -> None:
    ring = filled(5)
    app = Pane(ring)
    async with app.run_test(size=(40, 11)) as pilot:
        await find(pilot, "ine 3")
        await until(pilot, lambda: ">line 3" in app.shown)
        row = app.screen._compositor.render_strips()[1 + 3]
        reverse = "".join(segment.text for segment in row if segment.style and segment.style.reverse)
        assert reverse == "ine 3"


@pytest.mark.parametrize(
    ("pattern", "said"), [("[", "missing ]"), ("*", "no argument"), ("nothing", "not in 50 lines"), ("(?=x)", "invalid perl operator")]
)
async def test_a_bad_pattern_and_no_match_are_said_and_change_nothing(pattern: str, said: str) -> None:
    app = Pane(filled(50))
    async with app.run_test(size=(100, 11)) as pilot:
        await until(pilot, lambda: app.shown[-1] == " line 49")
        await find(pilot, pattern)
        await until(pilot, lambda: said in app.title_line)
        assert app.pane.tail.following and app.shown[-1] == " line 49"


async def test_escape_leaves_the_prompt_and_an_empty_pattern_ends_the_search() -> None:
    app = Pane(filled(50))
    async with app.run_test(size=(80, 11)) as pilot:
        await find(pilot, "line 4")
        await until(pilot, lambda: app.pane.tail.search.found is not None)
        await pilot.press("slash", "x", "escape")
        await until(pilot, lambda: "log" in app.title_line)
        assert app.pane.tail.search.text == "line 4" and app.pane.tail.has_focus
        await pilot.press("slash", "ctrl+u", "backspace", "enter")
        await until(pilot, lambda: app.pane.tail.search.text == "" and app.state.pattern == "")


async def test_long_lines_are_cut_with_a_mark_and_a_match_beyond_comes_into_sight() -> None:
    ring = LogRing()
    ring.feed("x" * 3000 + "needle" + "y" * 100 + "\nshort\n漢字" * 3 + "漢" * 500 + "\n")
    app = Pane(ring)
    async with app.run_test(size=(41, 11)) as pilot:
        await until(pilot, lambda: app.shown[0].endswith("x›") and len(app.shown[0]) == 41)
        await find(pilot, "needle")
        await until(pilot, lambda: "needle" in app.shown[0])
        await pilot.press("left")
        await until(pilot, lambda: app.pane.tail._left < 3000)
        await pilot.press("G")
        await until(pilot, lambda: app.shown[1] == " short")
