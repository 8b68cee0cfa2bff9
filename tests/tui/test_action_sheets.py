"""The sheets of freeing GPUs and of transitions while things change under them: link, control, another console, an impatient operator."""

import asyncio
import threading
from typing import Any

import free_scenes
import scenes
import transition_scenes as way
from fakes import lost, redraw, showing, state_of, until
from free_pilot import attempt_of, flat, host, on, planned, typed
from test_transitions import host as way_host
from test_transitions import planned as way_planned
from textual.pilot import Pilot
from textual.widgets import Button

from console.remote.state import LinkStatus
from console.tui import farewell
from console.tui.screens.free_confirm import PhraseScreen
from console.tui.screens.free_gpus import FreeGpusScreen
from console.tui.screens.free_live import FreeLiveScreen
from console.tui.screens.free_receipt import FreeReceiptScreen
from console.tui.screens.free_table import FreeTable
from console.tui.screens.gpus_held import GpusHeldScreen
from console.tui.screens.problem import ProblemScreen
from console.tui.screens.transition_live import TransitionLiveScreen
from pipeline.contract import free

OTHER = "20251231-141000-cccccccccccc"
LIVE, GONE = LinkStatus("LIVE", 0.4, 0, None, ""), LinkStatus("NO DATA", 41.0, 0, None, "")


def said(pilot: Pilot[Any]) -> str:
    return "\n".join(one.message for one in pilot.app._notifications)


def app(pilot: Pilot[Any]) -> Any:
    return pilot.app


def off(pilot: Pilot[Any], choice: str) -> bool:
    return app(pilot).screen.query_one(f"#choice-{choice}", Button).disabled


async def confirm(pilot: Pilot[Any]) -> FreeLiveScreen:
    """All that may be ended, confirmed."""
    await planned(pilot)
    await pilot.press("a", "tab", "tab", "enter")
    await on(pilot, PhraseScreen)
    await typed(pilot)
    return await on(pilot, FreeLiveScreen)


async def test_when_another_one_began_the_end_of_ours_is_asked_for_by_its_id() -> None:
    receipt = free_scenes.receipt()
    fixture = host(at=free_scenes.action())
    ended: dict[str, Any] = {}

    def read(fields: dict[str, Any]) -> Any:
        if fields["what"] == "exit" and not ended:
            return lost("read")
        return {"value": {"exit": ended, "receipt": receipt, "events": free_scenes.events()}.get(fields["what"], "")}

    async with showing(fixture) as pilot:
        fixture.link.answers["read"] = read
        await pilot.press("F")
        await on(pilot, FreeLiveScreen)
        other = free_scenes.action(attempt=OTHER, by="anna on there")
        fixture.link.feed(free_scenes.frame(other, scenes.NOW_S + 1))
        assert "tells of another one" not in await redraw(pilot), "a frame may have been made before"
        fixture.link.feed(free_scenes.frame(other, scenes.NOW_S + 41))
        await until(pilot, lambda: "by anna on there; F shows it" in said(pilot))
        pilot.app.clear_notifications()
        text = flat(await redraw(pilot))
        assert "the host tells of another one, by anna on there: this is 41 s old, and its end is being asked for" in text
        ended |= {"code": 0, "signal": None, "boot_id": "boot-a", "boot_s": scenes.NOW_S + 3}
        fixture.link.feed(free_scenes.frame(other, scenes.NOW_S + 42))
        await redraw(pilot)
        await on(pilot, FreeReceiptScreen)
        asked = [one for one in fixture.link.ops("read") if one["what"] == "exit"][-1]
        assert (asked["run"], asked["stage"], asked["attempt"]) == (scenes.RUN, free.ACTION, free_scenes.ACTION)
        assert "0 MiB on 8/8" in await redraw(pilot)


async def test_while_no_answer_comes_frames_are_followed_and_no_answer_is_no_no() -> None:
    gate = asyncio.Event()

    async def unanswered() -> Any:
        await gate.wait()
        return lost("launch")

    fixture = host()
    async with showing(fixture) as pilot:
        fixture.link.answers["launch"] = lambda fields: unanswered()
        await confirm(pilot)
        fixture.link.now = LinkStatus("RECONNECTING", 41.0, 3, 4.0, "")
        text = flat(await redraw(pilot))
        assert "it was sent to the host, which has not answered yet" in text
        assert "the link is RECONNECTING: whether it began is not known here" in text
        fixture.link.now = LIVE
        fixture.link.feed(free_scenes.frame(free_scenes.action(attempt=attempt_of(fixture)), scenes.NOW_S + 1))
        assert "1 of 9 processes live" in await redraw(pilot)
        assert "F shows it" not in said(pilot), "the sheet shows it"
        gate.set()
        await pilot.pause()
        assert "1 of 9 processes live" in await redraw(pilot), "frames are the answer"
        assert isinstance(pilot.app.screen, FreeLiveScreen)


async def test_without_an_answer_and_a_frame_it_is_not_known_whether_it_happened() -> None:
    fixture = host()
    async with showing(fixture) as pilot:
        fixture.link.answers["launch"] = lost("launch")
        await planned(pilot)
        await pilot.press("a", "tab", "tab", "enter")
        await on(pilot, PhraseScreen)
        await typed(pilot)
        sheet = await on(pilot, ProblemScreen)
        assert sheet.heading() == "It is not known whether it happened"


async def test_a_plan_says_that_somebody_is_at_work_and_the_receipt_button_shows_it() -> None:
    fixture = host(at=free_scenes.ended(free_scenes.receipt()))
    async with showing(fixture) as pilot:
        sheet = await planned(pilot)
        fixture.link.feed(free_scenes.frame(free_scenes.action(attempt=OTHER, by="anna"), scenes.NOW_S + 1))
        assert "Free... is off: anna frees GPUs now; Receipt shows it" in await redraw(pilot) and off(pilot, "free")
        sheet.query_one("#choice-receipt", Button).press()
        await on(pilot, FreeLiveScreen)
        assert "by anna, run k25-10k" in await redraw(pilot)


async def test_a_plan_of_a_transition_says_that_another_console_has_one() -> None:
    fixture = way_host(way.frame())
    async with showing(fixture) as pilot:
        sheet = await way_planned(pilot)
        fixture.link.feed(way.frame(way.action(by="anna"), boot_s=scenes.NOW_S + 1))
        assert "Now... is off: anna has one under way; Receipt shows it" in await redraw(pilot) and off(pilot, "now")
        sheet.query_one("#choice-receipt", Button).press()
        await on(pilot, TransitionLiveScreen)


async def test_a_double_click_opens_one_sheet() -> None:
    fixture = host()
    async with showing(fixture) as pilot:
        await pilot.click("#button-free_gpus", times=2)
        sheet = await on(pilot, FreeGpusScreen)
        await until(pilot, lambda: sheet.plan is not None)
        assert len(pilot.app.screen_stack) == 2 and len(fixture.link.ops("free.plan")) == 1
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)
        await pilot.press("F")
        await on(pilot, FreeGpusScreen)


async def test_f_before_the_host_is_known_says_so_and_a_mistake_of_ours_is_seen() -> None:
    opened = threading.Event()
    fixture = host(connected=False)
    at_once = fixture._open
    fixture._open = lambda options, say: opened.wait(20) and at_once(options, say)  # type: ignore[method-assign]
    async with fixture.app().run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: app(pilot)._controller is not None)
        await pilot.press("F")
        await until(pilot, lambda: "gpu-host is not known yet" in said(pilot))
        assert len(pilot.app.screen_stack) == 1
        opened.set()

    def mistake(fields: dict[str, Any]) -> Any:
        raise RuntimeError("ours")

    async with showing(host(plan=mistake)) as pilot:
        await pilot.press("F")
        await on(pilot, FreeGpusScreen)
        await until(pilot, lambda: "by a mistake of eaglewatch" in app(pilot).screen._said)
        await pilot.press("escape")
        sheet = await on(pilot, ProblemScreen)
        assert sheet.heading() == "A mistake of eaglewatch: please report it" and "RuntimeError: ours" in await redraw(pilot)


async def test_who_only_looks_sees_a_freeing_with_t_and_has_no_button_for_it() -> None:
    fixture = host(at=free_scenes.action(), read_only=True)
    async with showing(fixture, 120, 40) as pilot:
        await redraw(pilot)
        assert not pilot.app.screen.query_one("#button-free_gpus").display
        await pilot.press("F")
        await redraw(pilot)
        assert len(pilot.app.screen_stack) == 1
        await pilot.press("t")
        await on(pilot, FreeLiveScreen)
        assert off(pilot, "cancel") and "Cancel it is off: --read-only" in await redraw(pilot)
        receipt = free_scenes.receipt()
        fixture.link.answers["read"] = lambda fields: {"value": receipt}
        fixture.link.feed(free_scenes.frame(free_scenes.ended(receipt), scenes.NOW_S + 1))
        await redraw(pilot)
        await on(pilot, FreeReceiptScreen)
        assert off(pilot, "again")


async def test_f_on_the_sheet_of_held_gpus_opens_the_plan_whatever_the_link() -> None:
    fixture = host()
    async with showing(fixture) as pilot:
        app(pilot).flows.gpus_held("extract", "GPU 0 NOT FREE: held by 4200")
        await on(pilot, GpusHeldScreen)
        fixture.link.now = GONE
        await redraw(pilot)
        fixture.link.answers["free.plan"] = lambda fields: asyncio.sleep(60)
        await pilot.press("F")
        await on(pilot, FreeGpusScreen)
        assert "the question waits for the link: NO DATA 41 s" in await redraw(pilot)


def test_leaving_tells_of_what_the_host_does_by_itself() -> None:
    freeing = farewell.of(state_of(free_scenes.frame(free_scenes.action()))).line
    assert freeing == "freeing GPUs of gpu-host goes on: GRACE; eaglewatch free-gpus gpu-host --run k25-10k --show"
    armed = farewell.of(state_of(way.frame(way.action(armed=True), runs=True))).line.splitlines()
    assert armed[0].startswith("2 jobs go on: serve, generate on gpu-host; eaglewatch attach")
    assert armed[1].startswith("the transition of run k25-10k on gpu-host is armed: ARMED, generate is RUNNING; eaglewatch next gpu-host")
    old = farewell.of(state_of(free_scenes.frame(free_scenes.action()), GONE)).line
    assert "goes on (as of 41 s ago)" in old


async def test_the_cursor_stays_with_its_process_when_the_host_looks_again() -> None:
    rows = free_scenes.server_rows()
    plans = iter([free_scenes.plan(rows), free_scenes.plan(rows[2:])])
    async with showing(host(plan=lambda fields: {"plan": next(plans)})) as pilot:
        sheet = await planned(pilot)
        await pilot.press("down", "down", "down", "down")
        table = sheet.query_one(FreeTable)
        under = table.row
        await pilot.press("r")
        await until(pilot, lambda: sheet.plan is not None and len(sheet.plan.rows) == len(rows) - 2)
        await redraw(pilot)
        assert under is not None and table.row is not None and table.row.pid == under.pid
