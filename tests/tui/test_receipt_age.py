"""An old receipt is never shown as the present, junk in one ends nothing, and what failed has no tick."""

from typing import Any

import free_scenes
import pytest
import scenes
import transition_scenes as way
from fakes import redraw, showing, state_of
from free_pilot import host, on, planned
from test_transitions import host as way_host
from textual.widgets import Button

from console.core import action, action_end, free_live, free_receipt, receipt_age, transition_live
from console.tui import plans
from console.tui.screens import free_live as free_screen
from console.tui.screens import transition_live as way_screen
from console.tui.screens.free_gpus import FreeGpusScreen
from console.tui.screens.free_receipt import FreeReceiptScreen
from console.tui.screens.transition_receipt import TransitionReceiptScreen
from pipeline.contract import free, telemetry, transition

HOURS = 30_000.0


async def receipt_sheet(pilot: Any) -> FreeReceiptScreen:
    screen = await planned(pilot)
    screen.query_one("#choice-receipt", Button).press()
    return await on(pilot, FreeReceiptScreen)


async def test_a_receipt_of_hours_ago_says_so_before_its_verdict_and_is_not_drawn_as_good() -> None:
    receipt = free_scenes.receipt(boot_id="boot-a", boot_s=scenes.NOW_S - HOURS)
    old = free_scenes.ended(receipt, ended_boot_s=scenes.NOW_S - HOURS, started_boot_s=scenes.NOW_S - HOURS - 20)
    async with showing(host(at=old, receipt=receipt)) as pilot:
        sheet = await receipt_sheet(pilot)
        lines = [line.strip("│ ") for line in (await redraw(pilot)).splitlines()]
        when = next(at for at, line in enumerate(lines) if "ended 8 h 20 min ago (04:51): it was so then" in line)
        assert when < next(at for at, line in enumerate(lines) if line.startswith("FREE: 0 MiB on 8/8"))
        assert not sheet.query_one("#sheet").has_class("good")


async def test_a_receipt_of_just_now_is_good_until_it_is_old() -> None:
    receipt = free_scenes.receipt(boot_id="boot-a", boot_s=scenes.NOW_S - 1)
    fixture = host(at=free_scenes.ended(receipt), receipt=receipt)
    async with showing(fixture) as pilot:
        sheet = await receipt_sheet(pilot)
        text = await redraw(pilot)
        assert sheet.query_one("#sheet").has_class("good") and "ended 1.4 s ago (13:11)" in text and "FREE: 0 MiB on 8/8" in text
        assert "Freeing GPUs of root@gpu-host: FREE" in text
        fixture.link.feed(free_scenes.frame(free_scenes.ended(receipt), scenes.NOW_S + 70))
        assert "ended 1 min 11 s ago" in await redraw(pilot) and not sheet.query_one("#sheet").has_class("good")


async def test_an_old_receipt_of_a_transition_says_so_too() -> None:
    receipt = way.receipt()
    old = way.ended(receipt, ended_boot_s=scenes.NOW_S - HOURS)
    async with showing(way_host(way.frame(old), receipt=receipt)) as pilot:
        await pilot.press("t")
        sheet = await on(pilot, TransitionReceiptScreen)
        assert "ended 8 h 20 min ago" in await redraw(pilot) and not sheet.query_one("#sheet").has_class("good")


def test_what_makes_a_receipt_the_past() -> None:
    view = state_of(free_scenes.frame(None)).view
    ended = action.parse(free_scenes.ended(free_scenes.receipt(), ended_boot_s=-500.0), free.ACTION)
    other_boot = receipt_age.of({"boot_id": "boot-before", "boot_s": scenes.NOW_S, "wall_s": 1.0}, ended, view, 0.4)
    assert other_boot.restarted and not other_boot.fresh and "before the host's restart" in other_boot.words(0.0, 0.0)
    assert other_boot.age_s == pytest.approx(scenes.NOW_S + 500.4)
    begun = scenes.frame(scenes.NOW_S, stages={"extract": scenes.attempt(started_boot_s=scenes.NOW_S - 5)})
    since = receipt_age.of({"boot_id": "boot-a", "boot_s": scenes.NOW_S - 10}, None, state_of(begun).view, 0.4)
    assert since.later == "extract" and not since.fresh
    unknown = receipt_age.of({}, None, view, 0.4)
    assert unknown.age_s is None and not unknown.fresh and unknown.words(0.0, 0.0) == "ended at an unknown time"


async def test_junk_in_a_receipt_ends_nothing() -> None:
    receipt = free_scenes.receipt((0,) * 7 + (3,))
    receipt["gpus"] = [*receipt["gpus"], "junk"]
    async with showing(host(at=free_scenes.ended(receipt), receipt=receipt)) as pilot:
        sheet = await receipt_sheet(pilot)
        assert "idle baseline 3 MiB" in await redraw(pilot) and not sheet.query("#choice-accept"), "what is not understood is not accepted"


def test_less_than_five_readings_is_no_baseline_and_impossible_sizes_are_not_zero() -> None:
    receipt = free_scenes.receipt((0,) * 7 + (3,))
    receipt["gpus"][7]["used_bytes"] = [3 << 20]
    assert free_receipt.acceptable(receipt) == {}
    assert "as read, not five times" in free_receipt.sections(receipt)[0][0]
    receipt["gpus"][0]["used_bytes"] = [-5] * 5
    assert free_receipt.sections(receipt)[0][1][0].split()[3:5] == ["?", "x5"]


async def test_the_receipt_of_one_that_did_nothing_is_shown_when_it_is_asked_for() -> None:
    receipt = free_scenes.receipt(
        outcome=free.PLAN_CHANGED, exit_code=1, verified=False, line="plan changed: process 6000 is new", difference=["process 6000 is new"]
    )
    async with showing(host(at=free_scenes.ended(receipt), receipt=receipt)) as pilot:
        await receipt_sheet(pilot)
        text = await redraw(pilot)
        assert "Freeing GPUs of root@gpu-host: plan changed" in text
        pilot.app.screen.query_one("#choice-again", Button).press()
        await on(pilot, FreeGpusScreen)


def test_a_tick_is_only_before_what_came_to_what_it_was_for() -> None:
    def told(name: str, result: str, **fields: Any) -> list[dict[str, Any]]:
        return [free_scenes.step(name, True, -3, **fields), free_scenes.step(name, False, -2, result=result, seconds=1.0)]

    wanted = {
        ("STOP_SERVICE", "stopped"): "✓", ("STOP_SERVICE", "not stopped"): "!", ("VERIFY", "FREE: 0 MiB on 8/8"): "✓",
        ("VERIFY", "NOT FREE: GPU 0"): "!", ("VERIFY", "CANNOT TELL: GPU 0"): "!", ("PLAN", "differs"): "!", ("GRACE", "0 left"): "✓",
        ("GRACE", "2 left"): "·", ("KILL_WAIT", "1 left"): "!", ("TERM", "4207 sent"): "✓", ("TERM", "1 sent, 2 not permitted"): "!",
        ("RESCAN", "3 processes"): "✓", ("RESCAN", "NVML is stuck"): "!", ("WAIT_RELEASE", "no progress for 120 s"): "·",
    }  # fmt: skip
    for (name, result), mark in wanted.items():
        steps = free_live.steps(told(name, result))
        assert str(free_screen.step_lines(steps)[0]).split()[0] == mark, (name, result)
    begun = free_live.steps([free_scenes.step("GRACE", True, -3)])
    assert [str(free_screen.step_lines(begun, live)[0]).split()[0] for live in (True, False)] == ["▶", "!"], "nobody works on it"
    for state, mark in (("proven", "✓"), ("not proven", "!"), ("open", "·"), ("", "·"), ("weird", "·")):
        event = way.step("PREFLIGHT", False, -2, result="x", state=state, seconds=1.0)
        steps = transition_live.steps([way.step("PREFLIGHT", True, -3), event])
        assert str(way_screen.step_lines(steps)[0]).split()[0] == mark


def test_an_idle_baseline_is_only_called_accepted_where_all_of_it_was() -> None:
    frame = scenes.frame(scenes.NOW_S, gpus=[scenes.gpu(at, used_bytes=mib << 20, procs=[]) for at, mib in enumerate((3, 0, 9))])
    uuids = [gpu["uuid"] for gpu in frame["gpus"]]
    some = state_of({**frame, "baseline_accepted": {uuids[0]: 3 << 20}})
    assert "baseline accepted" not in plans.gpus_now(some)
    both = state_of({**frame, "baseline_accepted": {uuids[0]: 3 << 20, uuids[2]: 9 << 20}})
    assert "(baseline accepted)" in plans.gpus_now(both)


@pytest.mark.parametrize("state", [telemetry.LOST_REBOOT, telemetry.ENDED_UNKNOWN])
def test_a_transition_whose_end_nothing_recorded_is_news_until_something_starts(state: str) -> None:
    lost = way.action(state=state, why="the host was restarted while it ran", started_boot_s=-400.0, heartbeat_boot_s=None, events=[])
    frame = scenes.frame(scenes.NOW_S, actions={transition.ACTION: lost}, stages={})
    assert "the transition did not get through" in transition_live.banner(state_of(frame).view, scenes.RUN, scenes.NOW_S)
    later = {"extract": scenes.attempt(started_boot_s=scenes.NOW_S - 5)}
    assert transition_live.banner(state_of({**frame, "stages": later}).view, scenes.RUN, scenes.NOW_S) == ""


def test_an_end_out_of_its_own_files_is_done_only_with_its_evidence() -> None:
    view = state_of(free_scenes.frame(None)).view
    assert view is not None
    good = free_scenes.receipt()
    done = action_end.of(free.ACTION, "a", None, {"code": 0, "boot_id": view.boot_id, "boot_s": 5.0}, good, view)
    assert done is not None and done.attempt.done and done.attempt.ended_boot_s == 5.0
    unproven = action_end.of(free.ACTION, "a", None, {"code": 0}, {}, view)
    assert unproven is not None and not unproven.attempt.done and unproven.attempt.ended
    killed = action_end.of(free.ACTION, "a", None, {"code": None, "signal": 9}, {}, view)
    assert killed is not None and killed.attempt.state == telemetry.CRASHED
    assert action_end.of(free.ACTION, "a", None, {"junk": 1}, {}, view) is None
