"""SINCE: the first sheet after an absence, from the host's record; it hides nothing, and swallows no key into anything dangerous."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import record_scenes as record
import scenes
from fakes import FakeLink, Fixture, app_of, redraw, showing, until
from free_pilot import flat, on

from console.remote.errors import AgentError
from console.remote.state import LinkStatus
from console.tui import last_look
from console.tui.screens import since
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.dashboard import Dashboard
from console.tui.screens.done import EndedScreen
from console.tui.screens.help import HelpScreen
from console.tui.screens.kept import KeptScreen
from console.tui.screens.problem import ProblemScreen
from console.tui.screens.since import SinceScreen


def away(answer: Any = None, **options: Any) -> Fixture:
    """A console on a host with a night behind it."""

    def prepare(link: FakeLink) -> None:
        link.answers["since"] = record.night() if answer is None else answer

    return Fixture(frames=[scenes.frame(stages={"extract": scenes.attempt()})], prepare=prepare, **options)


async def test_after_an_absence_the_first_sheet_tells_what_the_host_kept(state_home: Path) -> None:
    record.looked(state_home, 15.12)
    fixture = away()
    async with showing(fixture) as pilot:
        await on(pilot, SinceScreen)
        text = await redraw(pilot)
        asked = fixture.link.ops("since")
        assert len(asked) == 1 and asked[0]["run"] == scenes.RUN and abs(asked[0]["wall_s"] - (record.NOW_WALL_S - 15.12 * 3600)) < 60
        assert "SINCE Tue 22:04 (you were away 15 h 7 min; the host kept this record)" in text
        assert "Tue 21:12   serve      up       answers after 24 min 12 s" in text, "a line of another day says which"
        assert "03:06     ✗ extract    CRASHED  SIGKILL; cgroup oom_kill +1; 6,150 files" in text
        assert "! GPUs       BASELINE" in text and "✗" in text, "a mark beside the word, not a colour alone"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, Dashboard))
        assert "EXTRACT" in await redraw(pilot)


@pytest.mark.parametrize(("hours", "boot_id"), [(0.15, "boot-a"), (0.15, "boot-0")])
async def test_a_short_absence_and_a_first_visit_open_nothing(state_home: Path, hours: float, boot_id: str) -> None:
    for looked in (True, False):
        if looked:
            record.looked(state_home, hours, boot_id)
        else:
            (state_home / last_look.FILE).unlink()
        fixture = away()
        async with showing(fixture) as pilot:
            await redraw(pilot)
            assert not fixture.link.ops("since") and isinstance(pilot.app.screen, Dashboard)


async def test_where_nothing_happened_one_line_says_so_and_no_sheet_opens(state_home: Path) -> None:
    record.looked(state_home, 3.0, "boot-of-before")
    async with showing(away({"lines": [], "now_wall_s": record.NOW_WALL_S, "older": False})) as pilot:
        await until(pilot, lambda: not app_of(pilot).state.looking_back and app_of(pilot).state.looked_back)
        assert "since 10:12 (you were away 3 h) nothing happened in k25-10k on gpu-host" in record.said(pilot)
        assert isinstance(pilot.app.screen, Dashboard)


async def test_the_link_away_for_long_is_an_absence_and_a_reconnect_after_a_minute_is_none(state_home: Path) -> None:
    fixture = away()
    async with showing(fixture) as pilot:
        fixture.link.feed(scenes.frame(scenes.NOW_S + 60, wall_s=record.NOW_WALL_S + 60))
        await redraw(pilot)
        assert not fixture.link.ops("since")
        fixture.clock.wall_s += 1300
        fixture.link.feed(scenes.frame(scenes.NOW_S + 1300, wall_s=record.NOW_WALL_S + 1300))
        await on(pilot, SinceScreen)
        assert "the link was away 20 min 40 s" in await redraw(pilot)


async def test_a_machine_that_slept_says_so(state_home: Path) -> None:
    fixture = away()
    async with showing(fixture) as pilot:
        fixture.link.now = LinkStatus("RECONNECTING", 7 * 3600.0, 1, 0.0, "")
        fixture.clock.boot_s += 7 * 3600
        fixture.clock.asleep_s += 7 * 3600
        await redraw(pilot)
        fixture.link.feed(scenes.frame(scenes.NOW_S + 7 * 3600, wall_s=record.NOW_WALL_S + 7 * 3600))
        await on(pilot, SinceScreen)
        assert "(this machine slept 7 h;" in await redraw(pilot)


async def test_what_it_tells_of_opens_no_second_sheet_and_an_old_host_program_still_gets_the_card(state_home: Path) -> None:
    ended = scenes.frame(stages={"extract": {**scenes.done()["stages"]["extract"], "ended_boot_s": scenes.NOW_S - 9 * 3600}})
    for answer, screen in ((record.night(), SinceScreen), (AgentError("usage", "no operation 'since'"), EndedScreen), ({}, EndedScreen)):
        record.looked(state_home, 15.0)
        fixture = away(answer)
        fixture.frames = [ended]
        async with showing(fixture) as pilot:
            await on(pilot, screen)
            await pilot.press("escape")
            await redraw(pilot)
            assert len(pilot.app.screen_stack) == 1, "none comes after it"


async def test_no_key_is_lost_and_none_acts_without_asking(state_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(since, "UNREAD_S", 0.0)
    record.looked(state_home, 15.0)
    fixture = away()
    async with showing(fixture) as pilot:
        await on(pilot, SinceScreen)
        await pilot.press("X")
        await on(pilot, ConfirmScreen)
        await pilot.press("enter")  # presses Cancel
        await until(pilot, lambda: isinstance(pilot.app.screen, Dashboard))
        assert not fixture.link.ops("stop")
        app_of(pilot).perform("since")
        await on(pilot, SinceScreen)  # and it can be looked at again
        assert len(fixture.link.ops("since")) == 1


async def test_it_waits_while_another_sheet_is_open_or_somebody_types(state_home: Path) -> None:
    fixture = away()
    async with showing(fixture) as pilot:
        await pilot.press("slash", "q")
        fixture.link.feed(scenes.frame(scenes.NOW_S + 4000, wall_s=record.NOW_WALL_S + 4000))
        await until(pilot, lambda: app_of(pilot).state.looked_back)
        await pilot.press("q")
        await redraw(pilot)
        assert isinstance(pilot.app.screen, Dashboard) and pilot.app.is_running, "what is typed is the pattern"
        await pilot.press("enter")
        await on(pilot, SinceScreen)


@pytest.mark.parametrize("unread", [True, False])
async def test_a_key_that_was_typed_before_it_could_be_read_only_puts_it_off(
    state_home: Path, monkeypatch: pytest.MonkeyPatch, unread: bool
) -> None:
    monkeypatch.setattr(since, "UNREAD_S", 1e6 if unread else 0.0)
    record.looked(state_home, 15.0)
    async with showing(away()) as pilot:
        await on(pilot, SinceScreen)
        await pilot.press("question_mark")
        await on(pilot, HelpScreen)
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1 or isinstance(pilot.app.screen, SinceScreen))
        await redraw(pilot)
        assert isinstance(pilot.app.screen, SinceScreen) is unread


async def test_the_evidence_of_a_line_is_what_the_host_kept_of_its_attempt(state_home: Path) -> None:
    record.looked(state_home, 15.0)
    fixture = away()
    async with showing(fixture) as pilot:
        events = [
            {"kind": "launched", "by": "shim", "boot_s": 5.0, "wall_s": record.NOW_WALL_S - 11 * 3600, "pid": 7},
            {"kind": "ended", "by": "shim", "boot_s": scenes.NOW_S - 10.1 * 3600, "wall_s": record.NOW_WALL_S - 10.1 * 3600, "signal": 9},
        ]
        fixture.link.answers["read"] = lambda fields: {"value": events if fields["what"] == "events" else {"python": "3.12.3"}}
        fixture.link.answers["history"] = {"lines": [record.past(outcome="CRASHED", why="SIGKILL")]}
        await on(pilot, SinceScreen)
        await pilot.press("e")
        assert isinstance(await on(pilot, KeptScreen), KeptScreen), "of the first line"
        await pilot.press("escape")
        await pilot.press(*["down"] * 6, "e")
        screen = await on(pilot, KeptScreen)
        await until(pilot, lambda: {"history", "read"} <= {name for name, _ in fixture.link.asked})
        await until(pilot, lambda: "CRASHED: SIGKILL" in "\n".join(line.plain for line in screen.body()))
        text = flat(await redraw(pilot))
        assert f"attempt {record.EXTRACT}" in text and "> 03:05 ended by shim signal 9" in text, "the moment of the line is marked"
        await pilot.press("escape")
        await on(pilot, SinceScreen)
        await pilot.press(*["up"] * 4, "e")
        await until(pilot, lambda: "this line is about no attempt" in record.said(pilot))


async def test_copy_gives_the_lines_to_the_terminal(state_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record.looked(state_home, 15.0)
    async with showing(away()) as pilot:
        await on(pilot, SinceScreen)
        await pilot.press("c")
        assert pilot.app.clipboard.startswith("SINCE Tue 22:12 (you were away 15 h;")
        assert "extract    CRASHED  SIGKILL; cgroup oom_kill +1; 6,150 files kept" in pilot.app.clipboard
        assert "eaglewatch since gpu-host k25-10k --hours 15" in record.said(pilot)


async def test_zones_that_differ_and_a_host_clock_that_is_wrong_are_told_in_this_machines_time(state_home: Path) -> None:
    record.looked(state_home, 15.0)
    reply = record.night()
    for one in (*reply["lines"], reply):
        key = "now_wall_s" if one is reply else "wall_s"
        one[key] += 5 * 3600  # the host's clock goes five hours ahead
    fixture = away(reply)
    fixture.frames = [scenes.frame(utc_offset_s=7200, wall_s=record.NOW_WALL_S + 5 * 3600)]
    async with showing(fixture) as pilot:
        await on(pilot, SinceScreen)
        text = await redraw(pilot)
        assert "03:06     ✗ extract" in text and "times are of this machine, UTC; the host's zone is UTC+2" in text


@pytest.mark.parametrize("junk", [None, 7, "x", [1], {"a": 1}, float("nan"), "\x1b[2J[red]"])
async def test_hostile_lines_break_nothing(state_home: Path, junk: Any) -> None:
    record.looked(state_home, 15.0)
    broken = [dict.fromkeys(record.line(1, "a", "b"), junk), junk, record.line(2, "x" * 300, "y" * 300, "z" * 3000)]
    async with showing(away({"lines": broken, "now_wall_s": junk, "older": junk})) as pilot:
        await on(pilot, SinceScreen)
        assert "\x1b" not in await redraw(pilot)
        await pilot.press("down", "e", "c")


async def test_the_last_day_waits_for_a_dialog_that_was_opened_meanwhile_and_copies_the_whole_day(state_home: Path) -> None:
    ready = asyncio.Event()

    async def late(_: Any) -> dict[str, Any]:
        await ready.wait()
        return record.night()

    fixture = away(late)
    async with showing(fixture) as pilot:
        app_of(pilot).perform("since")
        await until(pilot, lambda: fixture.link.ops("since"))
        await pilot.press("X")
        dialog = await on(pilot, ConfirmScreen)
        ready.set()
        await until(pilot, lambda: app_of(pilot).sheets._look_back is not None)
        await redraw(pilot)
        assert pilot.app.screen is dialog
        await pilot.press("escape")
        await on(pilot, SinceScreen)
        await pilot.press("c")
        assert "eaglewatch since gpu-host k25-10k --hours 24" in record.said(pilot)


async def test_a_mistake_while_it_asks_keeps_no_other_sheet_closed(state_home: Path) -> None:
    record.looked(state_home, 15.0)
    async with showing(away(ValueError("torn"))) as pilot:
        await on(pilot, ProblemScreen)
        assert not app_of(pilot).state.looking_back and "ValueError: torn" in await redraw(pilot)
