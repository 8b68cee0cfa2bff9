"""What rings: red, a disk that will not hold, an alarm of the log. Once each cause and attempt, whatever the link does."""

from typing import Any

import msgspec
import pytest
import scenes
import stall_scenes
from fakes import Fixture, app_of, redraw, showing, state_of, until
from textual.pilot import Pilot

from console.remote.state import LinkStatus
from console.tui import health
from console.tui.app import ConsoleApp
from console.tui.health_notices import HealthNotices
from pipeline.contract import signals
from pipeline.contract.signals import Verdict


@pytest.fixture
def bells(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A line a bell."""
    rung: list[int] = []
    monkeypatch.setattr(ConsoleApp, "bell", lambda self: rung.append(1))
    return rung


def said(pilot: Pilot[Any], words: str) -> list[str]:
    return [one.message for one in pilot.app._notifications if words in one.message]


def later(frame: dict[str, Any], seconds: float, **changes: Any) -> dict[str, Any]:
    return {**frame, "boot_s": frame["boot_s"] + seconds, **changes}


async def test_red_rings_once_and_a_new_link_tells_it_no_second_time(bells: list[int]) -> None:
    frames = stall_scenes.stalled()
    fixture = Fixture(frames=frames[:-20])
    async with showing(fixture) as pilot:
        assert not bells and not said(pilot, "ALERT")
        for frame in frames[-20:]:
            fixture.link.feed(frame)
        await until(pilot, lambda: said(pilot, "ALERT"))
        (told,) = said(pilot, "ALERT")
        assert told.startswith("ALERT: extract STALLED: nothing happens: no new unit for 3 min") and told.endswith(
            "e, then D, dumps its stacks"
        )
        fixture.link.now = LinkStatus("RECONNECTING", 1200.0, 3, 4.0, "connection lost")
        await redraw(pilot)
        fixture.link.connect()
        for number in range(1, 5):
            now = frames[-1]["boot_s"] + number
            one = {
                **frames[-1]["stages"]["extract"],
                "lookout": stall_scenes.lookout(now, level="STALLED", severity="red", line="nothing happens"),
            }
            fixture.link.feed(later(frames[-1], number, stages=scenes.stages(extract=one)))
        await redraw(pilot)
        assert len(said(pilot, "ALERT")) == 1 and len(bells) == 1


async def test_a_red_that_is_there_at_the_first_frame_is_told_once(bells: list[int]) -> None:
    """A console that has just come knows it from the host's own lookout."""
    since = stall_scenes.lookout(
        scenes.NOW_S, level="STALLED-SPIN", severity="red", line="GPUs in use at low power", since_boot_s=scenes.NOW_S - 3600
    )
    quiet = scenes.progress(last_boot_s=scenes.NOW_S - 4000)
    one = scenes.attempt(lookout=since, progress=quiet, ledger=None)
    fixture = Fixture(frames=[scenes.frame(stages=scenes.stages(extract=one))])
    async with showing(fixture) as pilot:
        await until(pilot, lambda: said(pilot, "ALERT: extract STALLED-SPIN"))
        fixture.link.feed(later(scenes.frame(stages=scenes.stages(extract=one)), 1))
        text = await redraw(pilot)
        assert len(said(pilot, "ALERT")) == len(bells) == 1
        assert "▶EXTRACT STALLED" in text and "EXTRACT STALLED-SPIN" in text


async def test_an_alarm_rings_once_a_kind_and_an_old_one_of_a_console_that_comes_late_does_not(bells: list[int]) -> None:
    old = stall_scenes.alarm(scenes.NOW_S, kind="nccl", boot_s=scenes.NOW_S - 7200)
    fixture = Fixture(frames=stall_scenes.steady(alarms=[old]))
    async with showing(fixture) as pilot:
        assert "ALARM NCCL error x3, Worker_TP3, 2 h ago" in await redraw(pilot), "its line says it all the same"
        assert not bells and not said(pilot, "ALARM")
        for number, count in enumerate((1, 7), 1):
            frame = stall_scenes.steady(alarms=[old, stall_scenes.alarm(scenes.NOW_S, count=count)])[-1]
            fixture.link.feed(later(frame, number))
        await until(pilot, lambda: said(pilot, "ALARM"))
        (told,) = said(pilot, "ALARM")
        assert told.startswith("ALARM CUDA error in the log of extract: Worker_TP3: ERROR torch.AcceleratorError: CUDA error: an illegal")
        assert len(bells) == 1


async def test_a_disk_that_will_not_hold_rings_once(bells: list[int]) -> None:
    small = {**scenes.disk("/data/hidden_states", scenes.NOW_S), "free_bytes": 500 * 10**9}
    fixture = Fixture(frames=[later(one, 0, output_disk=small) for one in stall_scenes.steady()])
    async with showing(fixture) as pilot:
        (told,) = said(pilot, "ALERT: extract: the disk that it writes to")
        assert "short" in told and len(bells) == 1


async def test_the_toast_leaves_the_sheets_buttons_in_sight() -> None:
    frames = stall_scenes.stalled()
    fixture = Fixture(frames=frames[:-20], log=scenes.LOG)
    async with showing(fixture) as pilot:
        await pilot.press("e")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 2)
        for frame in frames[-20:]:
            fixture.link.feed(frame)
        await until(pilot, lambda: said(pilot, "ALERT"))
        text = await redraw(pilot)
        assert "ALERT: extract STALLED" in text and "[Close]  [1 Now]  [2 Gaps]  [3 Plots]  [4 Alarms]  [5 Facts]  [D Stacks]" in text


async def test_a_job_that_is_well_rings_nothing(bells: list[int]) -> None:
    async with showing(Fixture(frames=stall_scenes.steady())) as pilot:
        await redraw(pilot)
        assert not bells and not said(pilot, "ALERT") and not said(pilot, "ALARM")
        assert app_of(pilot).state.attempt is not None


def test_a_red_that_is_over_and_comes_back_long_after_rings_again(monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_of(scenes.frame(stages={"extract": scenes.attempt()}))
    view, notices, now = state.view, HealthNotices(state), scenes.NOW_S
    assert view is not None

    def rings(boot_s: float, since_s: float) -> int:
        verdict = Verdict("STALLED", signals.RED, "nothing moves", "steady", since_s)
        monkeypatch.setattr(health, "verdict", lambda *_: verdict)
        return len(notices.of(msgspec.structs.replace(view, boot_s=boot_s)))

    assert rings(now, now) == 1
    assert rings(now + 7200, now) == 0, "it went on while the link was away"
    assert rings(now + 7300, now + 7290) == 0, "it comes and goes"
    assert rings(now + 10800, now + 10790) == 1
