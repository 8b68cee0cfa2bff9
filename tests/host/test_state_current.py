"""Which of its attempts stands for a stage."""

from pathlib import Path

import pytest
from made_attempts import NOW, Made

from pipeline.contract import events, layout, telemetry
from pipeline.host import state


def test_a_live_attempt_goes_before_a_newer_refused_one(run_dir: Path) -> None:
    Made(run_dir, "a1", 1.0).ident()
    Made(run_dir, "a2", 2.0).exit(refused=True, holder={"attempt": "a1"})
    assert state.newest(str(run_dir), NOW)["extract"]["attempt"] == "a1"


def test_a_refused_attempt_does_not_hide_the_end_of_its_holder(run_dir: Path) -> None:
    Made(run_dir, "a0", 0.5).ended_ident().exit(1)
    Made(run_dir, "a1", 1.0).ended_ident().exit(0).put(layout.RECEIPT, verified=True, attempt="a1")
    Made(run_dir, "a2", 2.0).exit(refused=True, holder={"attempt": "a1"})
    Made(run_dir, "a3", 3.0).exit(refused=True, holder={"attempt": "a1"})
    view = state.current(str(run_dir), "extract", NOW)
    assert view is not None and (view["attempt"], view["state"]) == ("a1", telemetry.DONE)


def test_refused_by_somebody_elsewhere_is_shown_beside_what_there_is(run_dir: Path) -> None:
    Made(run_dir, "a1", 1.0).ended_ident().exit(1)
    Made(run_dir, "a2", 2.0).exit(refused=True, holder={"attempt": "of another run"})
    view = state.current(str(run_dir), "extract", NOW)
    assert view is not None and (view["attempt"], view["state"]) == ("a1", telemetry.FAILED)
    assert (view["refused"]["attempt"], view["refused"]["state"]) == ("a2", telemetry.REFUSED)


def _turned_away(run_dir: Path, name: str, wall_s: float, kind: str) -> Made:
    one = Made(run_dir, name, wall_s)
    if kind == "no start":
        return one.exit(exec_error="cannot start x")
    return one.ended_ident().exit(2).event(events.ERROR, message="prepare is outdated: because", exit_code=2)


@pytest.mark.parametrize("kind", ["input", "no start"])
def test_a_launch_that_was_refused_for_its_input_hides_no_output(run_dir: Path, kind: str) -> None:
    Made(run_dir, "a0", 0.5).ended_ident().exit(1)
    Made(run_dir, "a1", 1.0).ended_ident().exit(0).put(layout.RECEIPT, verified=True, attempt="a1")
    _turned_away(run_dir, "a2", 2.0, kind)
    _turned_away(run_dir, "a3", 3.0, kind)
    view = state.current(str(run_dir), "extract", NOW)
    assert view is not None and (view["attempt"], view["state"]) == ("a1", telemetry.DONE)
    assert view["refused"]["attempt"] == "a3" and view["refused"]["refused"] is None
    assert view["refused"]["why"] == ("prepare is outdated: because" if kind == "input" else "cannot start x")
    Made(run_dir, "a4", 4.0).ident()
    live = state.current(str(run_dir), "extract", NOW)
    assert live is not None and (live["attempt"], live["refused"]) == ("a4", None)


def test_launches_that_were_all_refused_are_shown_themselves(run_dir: Path) -> None:
    _turned_away(run_dir, "a1", 1.0, "input")
    _turned_away(run_dir, "a2", 2.0, "input")
    view = state.current(str(run_dir), "extract", NOW)
    assert view is not None and (view["attempt"], view["state"], view["refused"]) == ("a2", telemetry.FAILED, None)


def test_a_failure_after_work_still_stands_for_the_stage(run_dir: Path) -> None:
    Made(run_dir, "a1", 1.0).ended_ident().exit(0).put(layout.RECEIPT, verified=True, attempt="a1")
    Made(run_dir, "a2", 2.0).ended_ident().exit(1)
    view = state.current(str(run_dir), "extract", NOW)
    assert view is not None and (view["attempt"], view["refused"]) == ("a2", None)


def test_newest_is_by_the_hosts_clock_not_by_the_clients_id(run_dir: Path) -> None:
    Made(run_dir, "20990101-000000-ffffffffffff", 1.0).ended_ident().exit(1)
    Made(run_dir, "20200101-000000-000000000000", 2.0).ended_ident().exit(1)
    assert state.newest(str(run_dir), NOW)["extract"]["attempt"].startswith("2020")


def test_no_attempts(run_dir: Path) -> None:
    assert state.newest(str(run_dir), NOW) == {}
    assert state.newest(str(run_dir / "nowhere"), NOW) == {}
