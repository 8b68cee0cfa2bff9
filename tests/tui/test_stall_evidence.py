"""The evidence sheet: how a job stands, gaps, plots of its whole time, alarms and alerts, facts; and the stack dump that it offers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import scenes
import stall_scenes
from fakes import SETTINGS, FakeLink, Fixture, app_of, confirm, redraw, showing, until
from textual.pilot import Pilot

from console.remote.errors import AgentError
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.dump import DumpScreen
from console.tui.screens.evidence import EvidenceScreen

STACKS = "Process 415: VLLM::Worker_TP3\n    all_reduce (torch/distributed/distributed_c10d.py:2501)\n\x1b[2J    forward (model.py:7)\n"


def fixture(frames: list[dict[str, Any]], **options: Any) -> Fixture:
    def prepare(link: FakeLink) -> None:
        link.answers["read"] = lambda fields: {"value": stall_scenes.curve() if fields["what"] == "curve" else SETTINGS}
        link.answers["dump"] = {"how": "py-spy", "text": STACKS, "pids": [412, 415], "trouble": None}

    return Fixture(frames=frames, log=scenes.LOG, prepare=prepare, **options)


async def opened(pilot: Pilot[Any]) -> EvidenceScreen:
    app_of(pilot).clear_notifications()
    await pilot.press("e")
    await until(pilot, lambda: isinstance(pilot.app.screen, EvidenceScreen))
    assert isinstance(pilot.app.screen, EvidenceScreen)
    return pilot.app.screen


async def test_a_stall_has_a_row_a_signal_its_limits_and_the_offer_of_a_dump() -> None:
    async with showing(fixture(stall_scenes.stalled())) as pilot:
        screen = await opened(pilot)
        text = await redraw(pilot)
        assert "EXTRACT STALLED 3 min 20 s  phase steady, called so for" in text and "D dumps the stacks of its processes" in text
        for row in ("units        1,480 of 10,000  3 min 20 s", "GPU power    61 W", "409 W            low", "ranks        8 of 8"):
            assert row in text
        assert "[D Stacks]" in text, "all buttons fit"
        whole = "\n".join(line.plain for line in screen.body())
        assert "STALLED            at 3 min       now" in whole and "BUSY, NO PROGRESS  at 15 min      in 11 min 40 s" in whole
        for _ in range(4):
            await pilot.press("pagedown")
        assert "BUSY, NO PROGRESS  at 15 min" in await redraw(pilot)


async def test_the_sheet_lives_and_says_what_comes_next() -> None:
    made = fixture(stall_scenes.stalled(100))
    async with showing(made) as pilot:
        await opened(pilot)
        text = await redraw(pilot)
        assert "EXTRACT IDLE 1 min 40 s" in text and "next: STALLED at 3 min without a new unit, in 1 min 20 s" in text
        later = stall_scenes.steady()[-1]
        progress = {**later["stages"]["extract"]["progress"], "done": 1481, "last_boot_s": scenes.NOW_S + 101}
        later["stages"]["extract"].update(progress=progress, lookout=stall_scenes.lookout(scenes.NOW_S + 102))
        made.link.feed({**later, "boot_s": scenes.NOW_S + 102})
        text = await redraw(pilot)
        assert "EXTRACT OK" in text and "next: QUIET at 30 s" in text, "any advance clears at once"


async def test_gaps_are_told_as_learned_and_as_seen_with_the_one_that_is_open_now() -> None:
    async with showing(fixture(stall_scenes.stalled(60))) as pilot:
        await opened(pilot)
        await pilot.press("2")
        text = await redraw(pilot)
        assert "steady         1,400       3.2 s         7.1 s       9.0 s" in text and "open now     1 min" in text
        assert "The newest 16 that this console has seen" in text and "up to 1.0 s" in text and "longer: 1 min <- now" in text


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_rate_and_memory_are_plotted_over_the_whole_run(ascii_only: bool) -> None:
    made = fixture(stall_scenes.steady(), ascii_only=ascii_only)
    async with showing(made) as pilot:
        screen = await opened(pilot)
        await pilot.press("3")
        await until(pilot, lambda: screen._points is not None)
        text = await redraw(pilot)
        bar, axis, ground = ("#", "|", "_") if ascii_only else ("█", "│", "▁")
        assert f"4,333{axis}" in text and f"82,604{axis}" in text and "59 min 30 s ago" in text and "now" in text
        bottom = next(row for row in text.splitlines() if f"0{axis}" in row)
        assert ground * 20 in bottom and bar * 10 in bottom, "loading has no tokens, work has"
        before = len(made.link.ops("read"))
        await pilot.press("2", "3")
        await until(pilot, lambda: len(made.link.ops("read")) > before)
        assert {"what": "curve", "stage": "extract", "attempt": scenes.ATTEMPT}.items() <= made.link.ops("read")[-1].items()


async def test_a_curve_that_cannot_be_read_says_why() -> None:
    made = fixture(stall_scenes.steady())
    async with showing(made) as pilot:
        await opened(pilot)
        made.link.answers["read"] = AgentError("no-file", "there is no curve of this attempt")
        await pilot.press("3")
        await until(pilot, lambda: "it cannot be read: there is no curve" in "\n".join(one.plain for one in pilot.app.screen.body()))  # type: ignore[attr-defined]


async def test_e_after_an_alarm_opens_the_alarms_and_they_are_seen_then() -> None:
    alerts = [
        {"what": "red", "how": "webhook", "boot_s": scenes.NOW_S - 100, "ok": True, "detail": "answered 200"},
        {"what": "disk", "how": "command", "boot_s": scenes.NOW_S - 50, "ok": False, "detail": "exit code 1"},
        {"what": "crash", "how": "command", "boot_s": scenes.NOW_S - 1, "ok": None, "detail": ""},
    ]
    async with showing(fixture(stall_scenes.steady(alarms=[stall_scenes.alarm(scenes.NOW_S)], alerts=alerts))) as pilot:
        assert "ALARM CUDA error x3" in await redraw(pilot)
        await opened(pilot)
        text = await redraw(pilot)
        assert "Evidence, alarms" in text and "ALARM CUDA error x3, Worker_TP3, 12 s ago" in text
        assert text.index("being sent") < text.index("NOT DELIVERED  command: exit code 1") < text.index("delivered  webhook: answered 200")
        await pilot.press("escape")
        assert "ALARM" not in (await redraw(pilot)).replace("ALARM CUDA error in the log", "")


async def test_keys_typed_ahead_and_another_stage_meanwhile_change_part_and_title() -> None:
    made = fixture(stall_scenes.steady())
    async with showing(made) as pilot:
        await pilot.press("e", "2", "5")
        await until(pilot, lambda: isinstance(pilot.app.screen, EvidenceScreen))
        assert "Evidence, facts: extract of k25-10k" in await redraw(pilot)
        generating = scenes.attempt(stage="generate", attempt="20251231-135540-0123456789ab")
        made.link.feed(scenes.frame(scenes.NOW_S + 1, stages={"generate": generating}))
        assert "Evidence, facts: generate of k25-10k" in await redraw(pilot)


async def test_the_facts_are_all_there_and_parts_are_buttons_too() -> None:
    async with showing(fixture(stall_scenes.steady())) as pilot:
        await opened(pilot)
        await pilot.press("left", "left", "enter")
        text = await redraw(pilot)
        assert "Evidence, facts" in text and "newest frame  0.4 s old; 17 taken" in text and "rate, mean  4,333 tok/s" in text


async def test_without_a_run_and_after_the_end_it_says_so() -> None:
    async with showing(fixture([scenes.crashed()])) as pilot:
        await opened(pilot)
        assert "EXTRACT  it does not run: CRASHED" in await redraw(pilot)
    async with showing(fixture(scenes.nothing_ran())) as pilot:
        await opened(pilot)
        for key in "12345":
            await pilot.press(key)
            assert "no attempt to tell of" in await redraw(pilot) or key == "4"


async def test_a_dump_asks_first_is_shown_and_kept_and_is_on_record(state_home: Path) -> None:
    made = fixture(stall_scenes.stalled())
    async with showing(made) as pilot:
        app = app_of(pilot)
        await until(pilot, lambda: app.state.in_control)
        await opened(pilot)
        await pilot.press("D")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, EvidenceScreen))
        assert not made.link.ops("dump"), "Enter alone is no yes"
        await pilot.press("D")
        assert "Nothing is ended" in await confirm(pilot)
        await until(pilot, lambda: isinstance(app.screen, DumpScreen))
        text = await redraw(pilot)
        assert "by py-spy: 2 processes, pid 412, 415" in text and "all_reduce (torch/distributed" in text and "\x1b" not in text
        (asked,) = made.link.ops("dump")
        assert {"run": scenes.RUN, "stage": "extract", "attempt": scenes.ATTEMPT}.items() <= asked.items() and asked["by"]
        (kept,) = app.state.dumps
        assert (
            kept.startswith(f"stack dump of extract, attempt {scenes.ATTEMPT}, 2 processes, by py-spy\n") and "forward (model.py:7)" in kept
        )
    entries = [json.loads(line) for line in (state_home / "audit.jsonl").read_text().splitlines()]
    assert [one["reply"] for one in entries if one["what"] == "dump"] == [None, "2 processes by py-spy"]


async def test_a_dump_that_brought_nothing_says_why_and_keeps_nothing() -> None:
    made = fixture(stall_scenes.stalled())
    async with showing(made) as pilot:
        await until(pilot, lambda: app_of(pilot).state.in_control)
        made.link.answers["dump"] = {"how": "", "text": "", "pids": [], "trouble": "py-spy is not on the host"}
        app_of(pilot).perform("dump_stacks")
        await confirm(pilot)
        await until(pilot, lambda: isinstance(pilot.app.screen, DumpScreen))
        text = await redraw(pilot)
        assert "py-spy is not on the host" in text and "no stack was read" in text and not app_of(pilot).state.dumps


async def test_who_only_looks_dumps_nothing() -> None:
    made = fixture(stall_scenes.stalled(), read_only=True)
    async with showing(made) as pilot:
        await opened(pilot)
        assert "D dumps" not in await redraw(pilot)
        await pilot.press("D")
        await pilot.pause()
        assert isinstance(pilot.app.screen, EvidenceScreen)
        assert any("Dump stacks: --read-only: this console only looks" in one.message for one in pilot.app._notifications)


async def test_a_dump_that_comes_late_opens_over_no_dialog() -> None:
    ready = asyncio.Event()

    async def late(_: Any) -> dict[str, Any]:
        await ready.wait()
        return {"how": "py-spy", "text": "Thread 1", "pids": [412], "trouble": ""}

    made = fixture(stall_scenes.stalled())
    async with showing(made) as pilot:
        app = app_of(pilot)
        await until(pilot, lambda: app.state.in_control)
        made.link.answers["dump"] = late
        app.perform("dump_stacks")
        await confirm(pilot)
        await until(pilot, lambda: made.link.ops("dump"))
        await pilot.press("slash", "q")
        ready.set()
        await until(pilot, lambda: app.state.dumps)
        await pilot.press("q")
        await redraw(pilot)
        assert len(app.screen_stack) == 1 and app.is_running, "what is typed is the pattern"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, DumpScreen))
