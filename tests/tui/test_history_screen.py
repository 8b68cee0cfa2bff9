"""History: every attempt that has ended, as the host keeps a line of each; in 80 columns, filtered, and opened."""

from typing import Any

import pytest
import record_scenes as record
import scenes
from fakes import FakeLink, Fixture, app_of, redraw, showing, until
from free_pilot import flat, on

from console.core import past
from console.remote.errors import AgentError
from console.remote.state import LinkStatus
from console.tui.screens.history import HistoryScreen
from console.tui.screens.kept import KeptScreen


def kept(answer: Any = None) -> Fixture:
    def of(fields: dict[str, Any]) -> dict[str, Any]:
        lines = [one for one in record.history()["lines"] if fields["run"] in (None, one["run"])]
        return {"lines": [one for one in lines if fields["stage"] in (None, one["stage"])]}

    def prepare(link: FakeLink) -> None:
        link.answers["history"] = of if answer is None else answer

    return Fixture(frames=scenes.steady(), prepare=prepare)


async def shown(pilot: Any) -> str:
    screen = await on(pilot, HistoryScreen)
    await until(pilot, lambda: screen._said != "asking the host")
    return await redraw(pilot)


async def test_each_attempt_has_a_line_that_fits_80_columns_and_the_rest_stands_below() -> None:
    async with showing(kept()) as pilot:
        await pilot.press("h")
        text = await shown(pilot)
        row = next(line for line in text.splitlines() if "CRASHED" in line)
        assert "02:23      extract   CRASHED  4,333   6,150          -" in row and row.rstrip("│ ").endswith("1 h 5 min")
        text = flat(text)
        assert "made 10,000 units, 17,300,000 tokens, 992 GB" in text and "gaps median 3.2 s" in text, "of the row under the cursor"
        await pilot.press("down")
        text = flat(await redraw(pilot))
        assert "SIGKILL; cgroup oom_kill +1" in text and "alarms 2 out of memory; restarted once, by the host" in text
        assert "k25-test" not in text, "this run's alone"


async def test_a_wide_screen_has_more_columns() -> None:
    async with showing(kept(), 120, 40) as pilot:
        await pilot.press("h")
        text = await shown(pilot)
        assert "written" in text and "992 GB" in text and "24 min 31 s" in text and "loaded" in text


async def test_r_and_s_choose_between_this_one_and_all() -> None:
    fixture = kept()
    async with showing(fixture) as pilot:
        await pilot.press("h")
        await shown(pilot)
        await pilot.press("s")
        await until(pilot, lambda: len(fixture.link.ops("history")) == 2)
        text = await shown(pilot)
        assert "generate" not in text and "extract" in text
        await pilot.press("r")
        await until(pilot, lambda: len(fixture.link.ops("history")) == 3)
        text = await shown(pilot)
        assert "k25-test" in flat(text) and "every run, extract" in text
        assert [(one["run"], one["stage"]) for one in fixture.link.ops("history")] == [
            (scenes.RUN, None), (scenes.RUN, "extract"), (None, "extract"),
        ]  # fmt: skip


async def test_enter_opens_what_the_host_kept_of_it() -> None:
    fixture = kept()
    async with showing(fixture) as pilot:
        await pilot.press("h")
        await shown(pilot)
        await pilot.press("down", "enter")
        await on(pilot, KeptScreen)
        await until(pilot, lambda: any(one["what"] == "events" for one in fixture.link.ops("read")))
        text = flat(await redraw(pilot))
        assert "attempt 20251231-020000-0123456789ab" in text and "outcome CRASHED: SIGKILL" in text
        assert "restarted once, by the host" in text
        await pilot.press("escape")
        await on(pilot, HistoryScreen)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"lines": []}, "no attempt has ended yet"),
        ({"lines": None}, "it cannot be read: the host program of gpu-host tells no history"),
        (AgentError("usage", "no operation 'history'"), "it cannot be read: no operation 'history'"),
        ({"lines": [None, 7, {}, {"run": ["x"], "gaps": 5, "alarms": [1], "bytes": -4, "load_s": "x", "why": "\x1b[2J"}]}, "- "),
    ],
)
async def test_nothing_a_refusal_and_junk_are_told(answer: Any, text: str) -> None:
    async with showing(kept(answer)) as pilot:
        await pilot.press("h")
        told = await shown(pilot)
        assert text in told and "\x1b" not in told


async def test_without_a_link_the_key_says_why() -> None:
    fixture = kept()
    async with showing(fixture) as pilot:
        fixture.link.now = LinkStatus("RECONNECTING", 60.0, 1, 3.0, "")
        await redraw(pilot)
        await pilot.press("h")
        await until(pilot, lambda: "the link is RECONNECTING: the host cannot be asked" in record.said(pilot))
        assert len(app_of(pilot).screen_stack) == 1


def test_a_standstill_is_told_beside_the_rest_and_earlier_rates_are_without_it() -> None:
    resumed = record.past(stalled_s=135, steady_s=160.0, tokens_per_s_steady=440.0, tokens_per_s_working=2816.0, failed=3)
    lines = past.parse({"lines": [resumed, record.past(bad=None, stalled_s=None), record.past(stalled_s=0)]})
    assert lines is not None
    one, unwatched, never = lines
    assert [past.trouble(each) for each in (one, unwatched, never)] == ["3 failed, stalled 2 min 15 s", "-", "0"]
    told = dict(past.facts(one))
    assert told["steady"] == "2 min 40 s at 440 tok/s" and told["stalled"] == "2 min 15 s (2,816 tok/s without)"
    assert told["bad, failed"] == "3 failed" and "stalled" not in dict(past.facts(unwatched)) | dict(past.facts(never))
    assert past.before([one]).endswith("2,816 tok/s while steady, the last time")


def test_what_earlier_attempts_tell_of_the_next_one() -> None:
    lines = past.parse(record.history())
    assert lines is not None
    assert past.before([one for one in lines if one.stage == "extract"]) == (
        "loading took 24 min 31 s (3 times); 4,333 tok/s while steady, the last time"
    )
    assert past.before([]) == "" and past.parse({}) is None
