"""The evidence: differences of the host's own counts over the host's own time, and nothing where nothing was measured."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.core import views
from console.core.attempt import Attempt
from console.core.judge import History, Judgement, judge
from pipeline.contract import telemetry
from pipeline.contract.gap_stats import GapMeter
from tests.fakes.frames import attempt, frame, gpu, progress


def one(boot_s: float, done: int = 80, **changes: Any) -> dict[str, Any]:
    """A frame of an extraction that finished ``done`` samples, the newest 0.5 s ago."""
    value = attempt(
        progress=progress(done=done, last_boot_s=boot_s - 0.5, beat_boot_s=boot_s - 1, boot_s=boot_s),
        ledger={"files": done, "bytes": done * 100, "tokens": done * 1000, "last_boot_s": boot_s - 0.5, "disagree": None},
        tree={"procs": 1, "cpu_s": boot_s * 0.4, "rss_bytes": 1, "states": {}},
        log={"bytes": 10, "last_boot_s": boot_s - 9},
    )
    return frame(boot_s, stages={"extract": {**value, **changes}})


def history(*frames: dict[str, Any]) -> tuple[History, Attempt]:
    kept = History()
    newest = None
    for value in frames:
        view = views.parse(value)
        assert view
        kept.observe(view)
        newest = view
    assert newest and newest.stages
    return kept, newest.stages["extract"]


def test_facts_of_a_steady_job() -> None:
    kept, now = history(*(one(100.0 + second, 3 * second) for second in range(31)))
    facts = judge(kept, now, 2.0)
    assert facts.window_s == 15.0
    assert (facts.units, facts.files, facts.bytes) == (45, 45, 4500)
    assert facts.cpu_pct == pytest.approx(40.0)
    assert (facts.gpu_pct, facts.gpus_read, facts.gpus_listed) == (98.0, 8, 8)
    assert facts.beat_age_s == pytest.approx(3.0)
    assert facts.last_file_age_s == facts.last_unit_age_s == pytest.approx(2.5)
    assert facts.log_quiet_s == pytest.approx(11.0)
    assert facts.usual_gap_s == facts.longest_gap_s == pytest.approx(1.0)


def test_nothing_is_measured_from_one_frame_and_ages_need_the_frames_own() -> None:
    kept, now = history(one(100.0))
    facts = judge(kept, now, None)
    assert [name for name in facts.__struct_fields__ if getattr(facts, name)] == ["gpu_pct", "gpus_read", "gpus_listed"]
    assert facts.files is None and facts.cpu_pct is None and facts.beat_age_s is None and facts.usual_gap_s is None
    assert judge(History(), now, 0.0) == Judgement()


def test_no_progress_is_zero_and_not_unknown() -> None:
    kept, now = history(*(one(100.0 + second, 80) for second in range(16)))
    facts = judge(kept, now, 0.0)
    assert (facts.units, facts.files, facts.bytes) == (0, 0, 0)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"ledger": None}, {}, {"files": None, "bytes": None, "units": 10}),
        ({}, {"ledger": None}, {"files": None, "bytes": None, "units": 10}),
        (
            {"ledger": None, "directory": {"files": 3, "bytes": 5}},
            {"ledger": None, "directory": {"files": 4, "bytes": None}},
            {"files": 1, "bytes": None},
        ),
        ({"ledger": {"files": 95, "bytes": 1, "last_boot_s": 99.0}}, {}, {"files": None, "bytes": 8999}),
        ({"progress": None}, {}, {"units": None, "files": 10}),
        ({"tree": {"cpu_s": 5000.0}}, {}, {"cpu_pct": None}),
        ({"tree": None}, {}, {"cpu_pct": None}),
        ({"tree": {"cpu_s": 0.0}}, {"tree": {"cpu_s": 1000.0}}, {"cpu_pct": None}),
        ({"tree": {"cpu_s": 0.0}}, {"tree": {"cpu_s": 20.0}}, {"cpu_pct": 200.0}),
        ({"attempt": "20250101-000000-0123456789ab"}, {}, {"window_s": None, "files": None, "cpu_pct": None}),
    ],
)
def test_what_cannot_be_compared_is_not_measured(before: dict, after: dict, expected: dict) -> None:
    kept, now = history(one(100.0, 80, **before), one(110.0, 90, **after))
    facts = judge(kept, now, 0.0)
    assert {name: getattr(facts, name) for name in expected} == expected


def test_another_boot_begins_anew_and_older_frames_change_nothing() -> None:
    kept, now = history(one(100.0, 80), one(110.0, 90))
    before = judge(kept, now, 0.0)
    late = views.parse(one(105.0, 85))
    assert late
    kept.observe(late)
    assert judge(kept, now, 0.0) == before
    kept, now = history(one(100.0, 80), one(110.0, 90), {**one(5.0, 95), "boot_id": "boot-b"})
    facts = judge(kept, now, 0.0)
    assert facts.window_s is None and facts.gaps == 0


def test_rare_frames_give_the_window_that_they_have() -> None:
    kept, now = history(one(100.0, 80), one(125.0, 90))
    assert judge(kept, now, 0.0).window_s == 25.0
    kept, now = history(one(100.0, 80), one(200.0, 90))
    assert judge(kept, now, 0.0).window_s is None, "a minute and a half is not what the operator is told it is"


def test_gpus_are_the_mean_of_what_could_be_read_in_the_window() -> None:
    def taken(boot_s: float, nvml_boot_s: float, *utils: Any) -> dict[str, Any]:
        return {
            **one(boot_s),
            "nvml": {"state": "ok", "boot_s": nvml_boot_s},
            "gpus": [gpu(i, util_pct=util) for i, util in enumerate(utils)],
        }

    kept, now = history(taken(100.0, 99.0, 50, "error: x"), taken(101.0, 99.0, 50, "error: x"), taken(102.0, 101.9, 100, "error: x"))
    facts = judge(kept, now, 0.0)
    assert (facts.gpu_pct, facts.gpus_read, facts.gpus_listed) == (75.0, 1, 2)
    kept, now = history(taken(100.0, 50.0, 90), taken(110.0, 50.0, 90))
    facts = judge(kept, now, 0.0)
    assert facts.gpu_pct is None, "a reading that the driver has not renewed for a minute says nothing of the last 15 s"
    kept, now = history(taken(100.0, 100.0, "error: x"), taken(101.0, 101.0, "not-supported"))
    facts = judge(kept, now, 0.0)
    assert (facts.gpu_pct, facts.gpus_read, facts.gpus_listed) == (None, 0, 1)


def test_gaps_between_units_and_the_open_one_is_not_among_them() -> None:
    meter = GapMeter()
    for done, last, seen in [(1, 10.0, 10.2), (2, 13.0, 13.2), (2, 13.0, 14.2), (3, 16.0, 16.2), (4, 25.0, 25.2), (4, 25.0, 99.0)]:
        meter.observe(done, last, seen)
    assert (meter.count, meter.usual_s, meter.longest_s) == (3, 3.0, 9.0)


def test_a_lost_link_does_not_invent_a_gap() -> None:
    meter = GapMeter()
    meter.observe(10, 100.0, 100.2)
    meter.observe(11, 101.0, 101.2)
    meter.observe(500, 700.0, 700.1)
    assert (meter.count, meter.usual_s) == (1, 1.0)
    assert meter.longest_s == pytest.approx(1.0), "what happened while nobody looked is not known"
    meter.observe(501, 1300.0, 1300.1)
    assert meter.longest_s == pytest.approx(600.0), "one unit in all that time is a gap, whoever looked"


def test_the_history_is_bounded() -> None:
    kept = History()
    for number in range(5000):
        view = views.parse(one(100.0 + number * 0.01, number))
        assert view
        kept.observe(view)
    assert len(kept._views) <= 200


NUMBERS = st.one_of(
    st.none(), st.floats(), st.integers(-(10**20), 10**20), st.sampled_from([0, 1, 99.0, 100.0, math.inf, math.nan, -1, "x", True, [], {}])
)
FRAMES = st.fixed_dictionaries(
    {
        "boot_s": st.one_of(st.floats(90, 130), NUMBERS),
        "boot_id": st.sampled_from(["a", "a", "a", "b", None]),
        "host": st.fixed_dictionaries({"cpus": NUMBERS}),
        "nvml": st.one_of(st.none(), st.fixed_dictionaries({"boot_s": NUMBERS, "state": st.just("ok")})),
        "gpus": st.one_of(st.none(), st.lists(st.fixed_dictionaries({"index": st.integers(0, 9), "util_pct": NUMBERS}), max_size=3)),
        "stages": st.one_of(
            st.none(),
            st.fixed_dictionaries(
                {
                    "extract": st.fixed_dictionaries(
                        {
                            "attempt": st.sampled_from(["one", "one", "two", None]),
                            "state": st.just(telemetry.RUNNING),
                            "progress": st.one_of(
                                st.none(),
                                st.fixed_dictionaries(
                                    {"done": NUMBERS, "last_boot_s": NUMBERS, "beat_boot_s": NUMBERS, "phase": st.just("steady")}
                                ),
                            ),
                            "ledger": st.one_of(
                                st.none(), st.fixed_dictionaries({"files": NUMBERS, "bytes": NUMBERS, "last_boot_s": NUMBERS})
                            ),
                            "tree": st.one_of(st.none(), st.fixed_dictionaries({"cpu_s": NUMBERS})),
                            "log": st.one_of(st.none(), st.fixed_dictionaries({"last_boot_s": NUMBERS})),
                        }
                    )
                }
            ),
        ),
    }
)


@settings(max_examples=300, deadline=None)
@given(st.lists(FRAMES, min_size=1, max_size=8), st.one_of(st.none(), st.floats(0, 1e6)))
def test_hostile_frames_give_sound_facts_or_none(frames: list[dict], age_s: float | None) -> None:
    kept = History()
    for value in frames:
        view = views.parse(value)
        if view is None:
            continue
        kept.observe(view)
        for stage in (view.stages or {}).values():
            facts = judge(kept, stage, age_s)
            for name in facts.__struct_fields__:
                got = getattr(facts, name)
                assert got is None or (math.isfinite(got) and got >= 0), (name, got)
            assert facts.window_s is None or facts.window_s <= 30
            assert facts.gpu_pct is None or facts.gpu_pct <= 100
            if age_s is None:
                assert facts.beat_age_s is facts.last_file_age_s is facts.log_quiet_s is None
