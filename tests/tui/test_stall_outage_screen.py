"""What is painted of a job while the link is gone for twenty minutes, by a fake clock, and once it is back."""

import pytest
from fakes import Fixture, app_of, redraw, showing

from console.remote.state import LinkStatus
from pipeline.contract import signals
from tests.fakes.outage_host import BEGAN_S, Host

OUTAGE_S, TRUTH_S = 1200, 10
ALARMING = (signals.STALLED_IDLE, signals.STOPPED_BY_SIGNAL, signals.BUSY_NO_PROGRESS, signals.IDLE, signals.RANK_DEAD)


@pytest.mark.parametrize(("fault", "word"), [("", ""), ("frozen", signals.STOPPED_BY_SIGNAL), ("deadlocked", signals.STALLED_IDLE)])
async def test_no_state_changes_while_the_link_is_gone_and_the_truth_stands_there_after_it(fault: str, word: str) -> None:
    host, now_s = Host(), BEGAN_S + 600.0
    fixture = Fixture(frames=[host.frame(now_s + second) for second in range(120)], run="r")
    now_s += 119
    async with showing(fixture, 100, 30) as pilot:

        async def passes(seconds: int) -> None:
            fixture.clock.boot_s += seconds
            fixture.clock.wall_s += seconds

        text = await redraw(pilot)
        assert "EXTRACT STEADY" in text and not any(one in text for one in ALARMING)
        host.fault, host.fault_s = fault, now_s + 30.0 if fault else float("inf")
        for age_s in range(60, OUTAGE_S + 1, 60):
            await passes(60)
            fixture.link.now = LinkStatus("RECONNECTING", float(age_s), 3, 4.0, "connection lost")
            text = await redraw(pilot)
            assert "RECONNECTING" in text.splitlines()[0] and "all numbers below are" in text
            assert "EXTRACT STEADY" in text and not any(one in text for one in ALARMING)
        assert not any("ALERT" in one.message for one in app_of(pilot)._notifications)
        fixture.link.now = LinkStatus("LIVE", 0.4, 0, None, "")
        for second in range(TRUTH_S):
            await passes(1)
            fixture.link.feed(host.frame(now_s + OUTAGE_S + second))
        await pilot.press("escape")  # what happened meanwhile, as a sheet
        text = await redraw(pilot)
        assert "all numbers below" not in text
        if word:
            assert f"EXTRACT {word}" in text
        else:
            assert "EXTRACT STEADY" in text and not any(one in text for one in ALARMING)
