"""Whether the disk holds what is still to be written, and when it is full: one rule for host and console."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.core import eta_words
from console.core.eta_words import Here
from console.core.store import Store
from pipeline.contract.disk_risk import DiskLook, DiskMeter, DiskRisk, judge
from pipeline.contract.signals import AMBER, GREY, OK, RED
from tests.fakes.frames import attempt, frame, progress

GB = 1e9
OWN = 0.2 * GB
"""Bytes a second of the job."""


def look(**changes: Any) -> DiskLook:
    """100 of 1,000 GB written, 2 TB free."""
    return DiskLook(**{"boot_s": 5000.0, "free_bytes": 2000 * GB, "written_bytes": 100 * GB, "total_bytes": 1000 * GB, **changes})


@pytest.mark.parametrize(
    ("changes", "own", "fall", "level", "full_s", "words"),
    [
        ({}, OWN, OWN, OK, None, ""),
        ({}, OWN, 1.2 * OWN, OK, None, ""),  # no faster than the job, as far as that can be told
        ({}, OWN, 10 * OWN, AMBER, 1000, "at 2 GB/s, all that is written there"),  # 900 GB take 4,500 s
        ({"free_bytes": 950 * GB}, OWN, OWN, OK, None, ""),
        ({"free_bytes": 950 * GB, "min_free_bytes": 60 * GB}, OWN, OWN, AMBER, 4450, "10 GB short: 900 GB still to write, room for 890 GB"),
        ({"free_bytes": 500 * GB}, OWN, OWN, AMBER, 2500, "full in 42 min at this job's 200 MB/s"),
        ({"free_bytes": 500 * GB}, None, None, AMBER, None, "400 GB short"),
        ({"free_bytes": 300 * GB}, OWN, OWN, RED, 1500, "full in 25 min"),
        ({"free_bytes": 10 * GB, "min_free_bytes": 20 * GB}, OWN, None, RED, 0, "disk full: 10 GB free (20 GB kept free)"),
        ({"free_bytes": None}, OWN, OWN, GREY, None, "disk not read"),
        ({"written_bytes": 1000 * GB, "free_bytes": 0.0}, OWN, OWN, OK, None, ""),  # everything is written
        ({"total_bytes": None, "free_bytes": 20 * GB}, 1e6, None, AMBER, 20_000, "at this job's 1 MB/s"),
        ({"total_bytes": None}, 1e6, None, OK, None, ""),  # in three weeks
        ({"total_bytes": None, "written_bytes": None, "free_bytes": 100 * GB}, None, OWN, RED, 500, "what others write there"),
        ({"total_bytes": None, "written_bytes": None, "free_bytes": 100 * GB, "left_s": 400.0}, None, OWN, OK, None, ""),  # done before
    ],
)  # fmt: skip
def test_cases(changes: dict[str, Any], own: float | None, fall: float | None, level: str, full_s: float | None, words: str) -> None:
    found = judge(look(**changes), own, fall)
    if level == AMBER and full_s is not None and full_s < 1800:
        level = RED
    assert (found.level, found.full_s) == (level, full_s if full_s is None else pytest.approx(full_s))
    assert words in found.line and bool(found.line) == (level != OK)


def run(meter: DiskMeter, begin_s: float, seconds: int, own: float, fall: float, **changes: Any) -> DiskRisk:
    """A look every 5 s. Of the disk, a reading every 10 s."""
    found = DiskRisk(GREY, "")
    for second in range(0, seconds + 1, 5):
        read = second // 10 * 10
        now = look(boot_s=begin_s + second, disk_boot_s=begin_s + read, free_bytes=2000 * GB - fall * read,
                   written_bytes=100 * GB + own * second, **changes)  # fmt: skip
        found = meter.look(now)
    return found


def test_both_rates_are_measured_and_a_gust_of_others_counts_after_five_minutes() -> None:
    soon, later = run(DiskMeter(), 0, 200, OWN, 20 * OWN), run(DiskMeter(), 0, 320, OWN, 20 * OWN)
    assert soon.level == OK and soon.own_bytes_per_s == pytest.approx(OWN) and soon.disk_bytes_per_s is None
    assert later.level == RED and later.by_disk and later.disk_bytes_per_s == pytest.approx(20 * OWN)


def test_what_the_file_system_loses_is_never_the_jobs() -> None:
    found = run(DiskMeter(), 0, 400, 0.0, OWN)
    assert found.own_bytes_per_s == 0 and found.disk_bytes_per_s == pytest.approx(OWN)


def test_an_output_that_was_begun_anew_is_measured_anew() -> None:
    meter = DiskMeter()
    run(meter, 0, 400, OWN, OWN)
    assert meter.look(look(boot_s=405.0, written_bytes=1.0)).own_bytes_per_s is None


def test_the_same_look_twice_changes_nothing() -> None:
    meter = DiskMeter()
    first = run(meter, 0, 400, OWN, OWN)
    again = look(boot_s=400.0, disk_boot_s=400.0, free_bytes=2000 * GB - OWN * 400, written_bytes=100 * GB + OWN * 400)
    assert meter.look(again) == meter.look(again) == first


def test_the_console_judges_frames_by_it_and_tells_the_time_of_day() -> None:
    store = Store()
    for seconds in range(0, 601, 5):
        done = 1 + seconds * 2
        last_s, made = 100.0 + seconds, {"tokens": 1000 * done}
        state = progress(done=done, total=100_000, total_tokens=10**8, total_bytes=int(8e12), last_boot_s=last_s, **made)
        ledger = {"files": done, "bytes": int(done * 8e7), "last_boot_s": last_s, "disagree": 0, "bad_lines": 0, **made}
        disk = {"path": "/d", "total_bytes": 10**13, "free_bytes": int(1e12 - done * 8e7), "inodes_free": 9, "boot_s": 100.0 + seconds}
        store.fold(frame(100.0 + seconds, disk=disk, stages={"extract": attempt(progress=state, ledger=ledger)}))
    one = store.attempt("extract")
    assert one
    risk = store.disk_risk(one, 20e9)
    assert risk.level == AMBER and risk.own_bytes_per_s == pytest.approx(1.6e8, rel=0.01)
    assert risk.full_s == pytest.approx((1e12 - 1201 * 8e7 - 20e9) / 1.6e8, rel=0.02)
    words = eta_words.disk(store, one, risk, Here(1_700_049_600.0, 0.0, 0.0))
    assert words == "7.02 TB SHORT, full about 13:30"
    assert store.disk_risk(one, 1e12).level == RED
    assert eta_words.disk(store, one, store.disk_risk(one, 1e12), Here(0.0, 0.0, 0.0)) == "FULL"


ANY = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False, min_value=-1e18, max_value=1e18))


@given(st.lists(st.tuples(st.floats(0, 1e6), ANY, ANY, ANY, ANY), max_size=10))
def test_nothing_makes_it_raise_or_give_a_time_in_the_past(steps: list[Any]) -> None:
    meter = DiskMeter()
    for boot_s, free, written, total, left_s in steps:
        found = meter.look(DiskLook(boot_s, free, None, written, total, 1e9, left_s))
        assert found.level in (OK, AMBER, RED, GREY)
        assert found.full_s is None or (found.full_s >= 0 and math.isfinite(found.full_s))
