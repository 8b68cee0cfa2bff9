"""Which of its attempts stands for a stage."""

from pathlib import Path

from made_attempts import NOW, Made

from pipeline.contract import layout, telemetry
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


def test_refused_by_somebody_elsewhere_is_shown(run_dir: Path) -> None:
    Made(run_dir, "a1", 1.0).ended_ident().exit(1)
    Made(run_dir, "a2", 2.0).exit(refused=True, holder={"attempt": "of another run"})
    view = state.current(str(run_dir), "extract", NOW)
    assert view is not None and (view["attempt"], view["state"]) == ("a2", telemetry.REFUSED)


def test_newest_is_by_the_hosts_clock_not_by_the_clients_id(run_dir: Path) -> None:
    Made(run_dir, "20990101-000000-ffffffffffff", 1.0).ended_ident().exit(1)
    Made(run_dir, "20200101-000000-000000000000", 2.0).ended_ident().exit(2)
    assert state.newest(str(run_dir), NOW)["extract"]["attempt"].startswith("2020")


def test_no_attempts(run_dir: Path) -> None:
    assert state.newest(str(run_dir), NOW) == {}
    assert state.newest(str(run_dir / "nowhere"), NOW) == {}
