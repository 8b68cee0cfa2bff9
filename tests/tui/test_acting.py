"""What acting does: exactly what was shown and confirmed, once, and on record."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import scenes
from fakes import Fixture, app_of, confirm, lost, redraw, showing, until

from console.core import audit_words
from console.remote.errors import AgentError
from console.remote.state import LinkStatus
from console.tui.screens.choose import ChooseScreen
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.done import EndedScreen
from console.tui.screens.problem import ProblemScreen


def recorded(state_home: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (state_home / "audit.jsonl").read_text().splitlines()]


def block(state_home: Path) -> None:
    state_home.parent.mkdir(parents=True)
    state_home.write_text("a file where the directory should be")


async def test_the_next_stage_starts_after_it_was_shown_and_confirmed(state_home: Path) -> None:
    fixture = Fixture(frames=scenes.ready())
    async with showing(fixture) as pilot:
        await pilot.press("greater_than_sign")
        text = await confirm(pilot)
        await until(pilot, lambda: fixture.link.ops("launch"))
        (launched,) = fixture.link.ops("launch")
        assert (launched["run"], launched["stage"], launched["interpreter"], launched["args"]) == (
            "k25-10k", "extract", "/opt/train/bin/python", [],
        )  # fmt: skip
        shown = " ".join(text.replace("│", " ").split())
        assert "/opt/train/bin/python -u -m pipeline extract --run /data/eaglewatch/runs/k25-10k" in shown
        for words in ("root@gpu-host", "bundle 0123456789abcdef", "/data/hidden_states", "each of 8 holds 0 MiB, read 0.8 s ago"):
            assert words in shown
        await until(pilot, lambda: not app_of(pilot).state.busy)
        launches = [one for one in recorded(state_home) if one["what"] == "launch"]
        assert [one["reply"] for one in launches] == [None, "RUNNING"] and launches[0]["attempt"] == launched["attempt"]


async def test_a_console_that_leaves_before_the_answer_puts_that_on_record(state_home: Path) -> None:
    fixture = Fixture(frames=scenes.ready(), prepare=lambda link: link.answers.update(launch=lambda fields: asyncio.Event().wait()))
    async with showing(fixture) as pilot:
        await pilot.press("greater_than_sign")
        await confirm(pilot)
        await until(pilot, lambda: fixture.link.ops("launch"))
        await pilot.press("q")
    asked, answer = [one for one in recorded(state_home) if one["what"] == "launch"]
    assert (asked["reply"], answer["reply"]) == (None, "interrupted before the answer came")
    assert asked["attempt"] == answer["attempt"] and asked["args"] == [] and "args" not in answer
    assert audit_words.words(answer).text.endswith("interrupted before the answer came")


async def test_a_stage_is_chosen_to_start_and_those_that_cannot_start_say_why() -> None:
    fixture = Fixture(frames=scenes.ready())
    async with showing(fixture) as pilot:
        await pilot.press("S")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChooseScreen))
        assert "train: not in this version of eaglewatch" in await redraw(pilot)
        await pilot.press("enter")  # the first that can be chosen
        await confirm(pilot)
        await until(pilot, lambda: fixture.link.ops("launch"))
        assert fixture.link.ops("launch")[0]["stage"] == "serve"


async def test_a_running_stage_stops_after_it_was_shown_and_confirmed(state_home: Path) -> None:
    fixture = Fixture(frames=scenes.steady())
    async with showing(fixture) as pilot:
        await pilot.press("X")
        text = await confirm(pilot)
        assert "train, evaluate cannot start until extract is done" in text and "pid 340649" in text and "1,480/10,000" in text
        await until(pilot, lambda: fixture.link.ops("stop"))
        (stop,) = fixture.link.ops("stop")
        assert (stop["run"], stop["stage"], stop["attempt"]) == ("k25-10k", "extract", scenes.ATTEMPT)
        await until(pilot, lambda: not app_of(pilot).state.busy)
        assert [one["reply"] for one in recorded(state_home) if one["what"] == "stop"] == [None, "STOPPING"]


async def test_a_stop_names_the_attempt_that_was_shown_and_not_one_that_took_its_place() -> None:
    fixture = Fixture(frames=scenes.steady())
    async with showing(fixture) as pilot:
        await pilot.press("X")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen))
        fixture.link.feed(scenes.frame(scenes.NOW_S + 1, stages={"extract": scenes.attempt(attempt="20260101-000000-ffffffffffff")}))
        await pilot.press("tab", "enter")
        await pilot.pause()
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)
        assert all(one["attempt"] == scenes.ATTEMPT for one in fixture.link.ops("stop"))


@pytest.mark.parametrize(
    "answer", [AgentError("failed", "disk full"), lost("launch"), AgentError("usage", "attempt exists [b]with[/b] others")]
)
async def test_a_launch_that_fails_is_told_and_stays_until_it_was_read(answer: Exception) -> None:
    fixture = Fixture(frames=scenes.ready(), prepare=lambda link: link.answers.update(launch=answer))
    async with showing(fixture) as pilot:
        await pilot.press("greater_than_sign")
        await confirm(pilot)
        await until(pilot, lambda: isinstance(pilot.app.screen, ProblemScreen))
        assert str(answer)[:40] in await redraw(pilot)
        await pilot.press("escape")
        assert not app_of(pilot).state.busy


async def test_a_launch_that_was_refused_says_who_holds_the_stage() -> None:
    reply = {"state": "REFUSED", "holder": {"by": "hand: anna on gpu1", "pid": 77}, "why": "held"}
    fixture = Fixture(frames=scenes.ready(), prepare=lambda link: link.answers.update(launch=reply))
    async with showing(fixture) as pilot:
        await pilot.press("greater_than_sign")
        await confirm(pilot)
        await until(pilot, lambda: isinstance(pilot.app.screen, ProblemScreen))
        assert "hand: anna on gpu1" in await redraw(pilot)


async def test_without_an_interpreter_the_hosts_own_are_offered() -> None:
    found = [
        {"path": "/usr/bin/python3", "python": "3.8.1", "versions": {}, "stages": [], "why_not": "torch is missing"},
        {"path": "/opt/vllm/bin/python", "python": "3.12.3", "versions": {"torch": "2.11"}, "stages": ["extract"], "why_not": ""},
    ]
    fixture = Fixture(frames=scenes.ready(), interpreters={}, prepare=lambda link: link.answers.update(interpreters={"found": found}))
    async with showing(fixture) as pilot:
        await pilot.press("greater_than_sign")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChooseScreen))
        assert "torch is missing" in await redraw(pilot)
        await pilot.press("enter")
        await confirm(pilot)
        await until(pilot, lambda: fixture.link.ops("launch"))
        assert fixture.link.ops("launch")[0]["interpreter"] == "/opt/vllm/bin/python"


async def test_a_host_without_any_interpreter_says_what_to_write() -> None:
    fixture = Fixture(frames=scenes.ready(), interpreters={})
    async with showing(fixture) as pilot:
        await pilot.press("greater_than_sign")
        await until(pilot, lambda: isinstance(pilot.app.screen, ProblemScreen))
        assert 'interpreters = { extract = "/path/to/python" }' in await redraw(pilot)


async def test_a_dialog_that_was_open_too_long_does_nothing() -> None:
    fixture = Fixture(frames=scenes.ready())
    async with showing(fixture) as pilot:
        await pilot.press("greater_than_sign")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen))
        fixture.link.now = LinkStatus("RECONNECTING", 30.0, 2, 4.0, "")
        await redraw(pilot)
        await pilot.press("tab", "enter")
        await until(pilot, lambda: any("the link is RECONNECTING" in one.message for one in pilot.app._notifications))
        assert not fixture.link.ops("launch")


async def test_nothing_is_launched_that_cannot_be_recorded(state_home: Path) -> None:
    block(state_home)
    fixture = Fixture(frames=scenes.ready())
    async with showing(fixture) as pilot:
        await pilot.press("greater_than_sign")
        await confirm(pilot)
        await until(pilot, lambda: isinstance(pilot.app.screen, ProblemScreen))
        assert not fixture.link.ops("launch")


async def test_a_run_without_settings_cannot_start_anything_and_says_how_to_send_them() -> None:
    missing = AgentError("missing", "run has no settings")
    fixture = Fixture(frames=scenes.nothing_ran(), prepare=lambda link: link.answers.update(read=missing))
    async with showing(fixture) as pilot:
        await until(pilot, lambda: app_of(pilot).state.settings_missing)
        assert "eaglewatch init gpu-host k25-10k --preset generic" in await redraw(pilot)
        await pilot.press("greater_than_sign")
        await until(pilot, lambda: any("no settings" in one.message for one in pilot.app._notifications))
        assert len(pilot.app.screen_stack) == 1


async def test_the_end_of_a_watched_attempt_opens_its_card_once() -> None:
    fixture = Fixture(frames=scenes.steady(), log=scenes.LOG)
    async with showing(fixture) as pilot:
        fixture.link.feed(scenes.done())
        await until(pilot, lambda: isinstance(pilot.app.screen, EndedScreen))
        text = await redraw(pilot)
        for words in (
            "10,000/10,000", "17,300,000", "992 GB", "3, 31, 59, 61", "1 h 31 min in all, 24 min 30 s of it loading",
            "4,333 tok/s steady, 3,165 tok/s over all", "100 of 10,000 samples re-read whole and sound, 0 bad",
        ):  # fmt: skip
            assert words in text
        await pilot.press("escape")
        fixture.link.feed(scenes.done())
        await redraw(pilot)
        assert len(pilot.app.screen_stack) == 1


async def test_the_card_of_a_crash_has_the_reason_the_last_lines_and_the_next_step() -> None:
    fixture = Fixture(frames=scenes.steady(), log=scenes.LOG)
    async with showing(fixture) as pilot:
        await until(pilot, lambda: app_of(pilot).state.log_source is not None)
        await pilot.press("question_mark")  # a card waits until what is open was closed
        fixture.link.feed(scenes.crashed())
        await redraw(pilot)
        assert not isinstance(pilot.app.screen, EndedScreen)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, EndedScreen))
        text = await redraw(pilot)
        for words in (
            "CRASHED",
            "cgroup oom_kill +1",
            "1,480/10,000 samples, 147 GB; they stay",
            "loaded: engine vllm",
            "> starts it again",
        ):
            assert words in text


async def test_an_attempt_that_had_ended_before_opens_nothing() -> None:
    async with showing(Fixture(frames=[scenes.crashed()])) as pilot:
        text = await redraw(pilot)
        assert len(pilot.app.screen_stack) == 1 and "EXTRACT CRASHED" in text and "oom_kill +1" in text
