"""What a lookout tells of its judgement, and that one which has just begun takes nothing back."""

import os
from typing import Any

import pytest
from host_launches import RUN, Host

from pipeline.contract import layout, signals
from pipeline.contract.signals import Verdict
from pipeline.host import alerts, locks, lookout, procs
from pipeline.host.alerts import AGAIN_S
from pipeline.host.lookout_levels import Levels

FINE = Verdict(signals.FINE, signals.OK, "", "steady", None, 1.0)


def stalled(gap_s: float) -> Verdict:
    return Verdict(signals.STALLED_IDLE, signals.RED, "nothing happens", "steady", None, gap_s)


def looking_on(gap_s: float) -> Verdict:
    """Of a judge that has not watched for long enough."""
    return FINE._replace(gap_s=gap_s, limits=((signals.STALLED_IDLE, 180.0),))


@pytest.fixture
def told(host: Host, monkeypatch: pytest.MonkeyPatch) -> Any:
    """(alerts, causes that were sent, events)."""
    directory = os.path.join(host.run_dir, "stages", "extract", "a1")
    os.makedirs(directory)
    monkeypatch.setattr(alerts.alert_ways, "configured", lambda run: {"command": ["tell"], "webhook": None, "on": ["red"]})
    mine = alerts.Alerts(directory, RUN, "extract", str(host.code_dir))
    events: list[tuple[str, str]] = []
    return mine, lambda: [cause for _, cause, _ in mine._waiting], events


def levels(told: Any, before: Any = None) -> Levels:
    return Levels(before, told[0], lambda kind, **fields: told[2].append((fields["before"], fields["level"])))


def test_a_red_is_told_once_and_again_when_it_comes_back_much_later(told: Any) -> None:
    one = levels(told)
    for now, verdict in [(0.0, FINE), (5.0, stalled(200)), (10.0, stalled(205)), (15.0, FINE), (60.0, stalled(200)), (65.0, FINE)]:
        one.look(verdict, now)
    assert told[1]() == ["STALLED"], "one that comes and goes is one cause"
    for late_s in (60.0 + AGAIN_S, 65.0 + AGAIN_S, 70.0 + 2 * AGAIN_S):
        one.look(stalled(200), late_s)
    assert told[1]() == ["STALLED", "STALLED 2", "STALLED 3"]
    assert told[2] == [("OK", "STALLED"), ("STALLED", "OK"), ("OK", "STALLED"), ("STALLED", "OK"), ("OK", "STALLED")]


def test_a_new_lookout_takes_a_stall_back_only_once_the_job_moves(told: Any) -> None:
    one = levels(told, "STALLED")
    for now in (1000.0, 1005.0, 1100.0):
        one.look(looking_on(gap_s=now - 500.0), now)
    assert told[2] == [] and one.told == "STALLED"
    one.look(stalled(690.0), 1190.0)
    assert told[2] == [] and told[1]() == ["STALLED"]
    one.look(FINE, 1195.0)
    assert told[2] == [("STALLED", "OK")]


@pytest.mark.parametrize(("gap_s", "after_s"), [(2.0, 5.0), (800.0, 215.0)])
def test_it_is_taken_back_by_progress_or_where_it_would_have_been_called_again(told: Any, gap_s: float, after_s: float) -> None:
    one = levels(told, "STALLED")
    one.look(looking_on(500.0), 1000.0)
    one.look(looking_on(gap_s), 1000.0 + after_s)
    assert told[2] == [("STALLED", "OK")]


def test_an_exit_code_that_a_supervisor_still_writes_is_waited_for(host: Host) -> None:
    """The shim was killed: the job is gone, its code is on its way, and "ended unknown" would be a false alarm."""
    directory, _ = host.launch(host.program("import time\ntime.sleep(600)"))
    host.clean()
    assert not os.path.exists(os.path.join(directory, layout.EXIT))
    lock = locks.take(os.path.join(directory, layout.SUPERVISOR_LOCK), procs.identity())
    assert lock is not None
    one = lookout.Lookout(directory, host.read(directory, layout.SPEC))
    assert one._lives()
    lock.release()
    assert not one._lives()
