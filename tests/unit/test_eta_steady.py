"""Steady work: what the estimate rests on, who may join late, and what no hostile stage can do to it."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.core.eta_work import FIXED_SHARE, Block, Point, Work, fixed_share
from console.core.store import Store
from tests.fakes.frames import attempt, frame, progress

FIRST_S, SHORT, LONG = 1000.0, 500, 3000


def one_length_after_the_other(seconds: float, resumed: int = 0) -> dict[str, Any]:
    """The stage after so many seconds: 3,600 units of 500 tokens at 1.25 s, then as many of 3,000 at 5 s: 0.35 s a unit, 1.55 s a ktok."""
    first = min(int(seconds / 1.25), 3600)
    second = min(max(int((seconds - 4500) / 5.0), 0), 3600)
    done = first + second
    return progress(
        done=done + resumed, tokens=SHORT * first + LONG * second + 1000 * resumed, total=7200 + resumed,
        total_tokens=3600 * (SHORT + LONG) + 1000 * resumed, resumed_done=resumed, resumed_tokens=1000 * resumed,
        phase_boot_s=FIRST_S - 1.25, first_boot_s=FIRST_S, first_done=resumed, first_tokens=1000 * resumed, last_boot_s=FIRST_S + seconds,
    )  # fmt: skip


def fed(begin: float, end: float, every_s: float = 10.0, **changes: Any) -> Store:
    """Frames of those seconds of the work; ``changes``: of ``one_length_after_the_other``."""
    store, seconds = Store(), begin
    while seconds <= end:
        state = one_length_after_the_other(seconds, **changes)
        store.fold(frame(FIRST_S + seconds, stages={"extract": attempt(progress=state)}))
        seconds += every_s
    return store


def left(store: Store) -> Any:
    one = store.attempt("extract")
    assert one
    return store.eta(one)


def test_what_a_unit_costs_beside_its_tokens_is_learned_once_lengths_differ() -> None:
    true_s = 22_500 - 11_000.0
    found = left(fed(0, 11_000))
    assert found.basis == "tokens" and found.seconds == pytest.approx(true_s, rel=0.05)
    assert found.low_s <= found.seconds <= found.high_s


@pytest.mark.parametrize("resumed", [0, 50_000])
def test_a_resumed_run_counts_only_this_attempt(resumed: int) -> None:
    assert left(fed(0, 11_000, resumed=resumed)).seconds == pytest.approx(11_500, rel=0.06)


def test_a_console_that_comes_late_knows_the_mean_at_once_and_the_range_from_the_host() -> None:
    """One frame in the middle; then the curve that the host kept."""
    late, whole = fed(11_000, 11_000), fed(0, 11_000)
    at_once = left(late)
    assert at_once.low_s is None and at_once.seconds == pytest.approx(left(whole).seconds, rel=0.35)
    one = late.attempt("extract")
    assert one
    points = [[FIRST_S + seconds, state["done"], state["tokens"], None, 81_000.0]
              for seconds in range(0, 11_000, 90) for state in [one_length_after_the_other(seconds)]]  # fmt: skip
    late.learn_curve(one, [["x"], None, [FIRST_S - 900, 0, 0, 0, 0], *points, [1, 2]])
    learned = left(late)
    assert learned.seconds == pytest.approx(left(whole).seconds, rel=0.03)
    assert learned.low_s <= learned.seconds <= learned.high_s


def test_a_pause_stays_in_the_rate() -> None:
    store = fed(0, 2400)
    before = left(store).seconds
    state = one_length_after_the_other(2400)
    shifted = {**state, "done": state["done"] + 8, "tokens": state["tokens"] + 8 * SHORT, "last_boot_s": FIRST_S + 3600}
    store.fold(frame(FIRST_S + 3600, stages={"extract": attempt(progress=shifted)}))
    assert left(store).seconds == pytest.approx(before * 1.5, rel=0.02)


def test_without_a_plan_in_tokens_it_says_that_it_counts_samples() -> None:
    store = Store()
    for seconds in range(0, 2401, 30):
        state = {**one_length_after_the_other(seconds), "total_tokens": None}
        store.fold(frame(FIRST_S + seconds, stages={"extract": attempt(progress=state)}))
    found = left(store)
    assert found.basis == "samples" and found.seconds == pytest.approx((7200 - 1920) * 1.25, rel=0.01)
    assert found.low_s is not None


def test_the_same_frames_give_the_same_range() -> None:
    assert left(fed(0, 6000)) == left(fed(0, 6000))


def test_verifying_has_a_speed_of_its_own_and_the_end_after_it_none() -> None:
    state = {"phase": "verifying", "phase_boot_s": 100.0, "verified": 50, "verify_total": 200, "done": 200}
    assert left(shown(200.0, state)).seconds == pytest.approx(300.0)
    assert left(shown(200.0, {**state, "verified": 200})).seconds == 0
    assert left(shown(200.0, {**state, "verified": 3})).seconds is None
    assert left(shown(200.0, {"phase": "finishing"})).why == "finishing"


def shown(boot_s: float, changes: dict[str, Any]) -> Store:
    store = Store()
    store.fold(frame(boot_s, stages={"extract": attempt(progress=progress(**changes))}))
    return store


def test_while_nothing_moves_the_estimate_is_paused_and_does_not_drift() -> None:
    store = fed(0, 2400)
    stopped = attempt(progress=one_length_after_the_other(2400), tree={"procs": 9, "cpu_s": 3.0, "rss_bytes": 1, "states": {"T": 9}})
    for later in (5, 10, 15):
        tree = {**stopped["tree"], "boot_s": FIRST_S + 2400 + later}
        store.fold(frame(FIRST_S + 2400 + later, stages={"extract": {**stopped, "tree": tree}}))
    found = left(store)
    assert (found.seconds, found.paused, found.why) == (None, "STOPPED BY SIGNAL", "paused: STOPPED BY SIGNAL")


def test_a_long_attempt_stays_whole_in_a_bounded_number_of_blocks() -> None:
    work = Work()
    for number in range(20_000):
        work.add(Point(100.0 * number, number, 7 * number))
    blocks = work.blocks()
    assert len(blocks) <= 289
    assert sum(block.seconds for block in blocks) == 100.0 * 19_999 and sum(block.units for block in blocks) == 19_999


NUMBERS = st.one_of(st.none(), st.integers(-5, 1 << 70), st.floats(), st.just("x"), st.booleans(), st.integers(0, 300))
NAMES = ("done", "total", "tokens", "total_tokens", "first_boot_s", "first_done", "first_tokens", "last_boot_s", "phase_boot_s",
         "resumed_done", "resumed_tokens", "verified", "verify_total", "load_done", "load_total", "bytes", "total_bytes")  # fmt: skip
PHASES = st.sampled_from(["loading", "steady", "verifying", "finishing", "", "x"])
HOSTILE = st.tuples(PHASES, st.dictionaries(st.sampled_from(NAMES), NUMBERS, max_size=6), st.floats(0, 400), NUMBERS, NUMBERS)


@given(st.lists(HOSTILE, max_size=8))
def test_no_stage_makes_it_negative_or_no_number_or_raise(steps: list[Any]) -> None:
    store, moment = Store(), 138.0
    for phase, changes, gap_s, median_s, rate in steps:
        moment += gap_s
        prior = {"median_s": median_s, "count": 2, "tokens_per_s": rate, "gpu_mib": rate}
        store.fold(frame(moment, stages={"extract": attempt(progress=progress(phase=phase, **changes), load_prior=prior)}))
        one = store.attempt("extract")
        assert one
        store.learn_curve(one, [[moment, 5, rate], changes])
        found, risk = store.eta(one), store.disk_risk(one)
        for value in (found.seconds, found.low_s, found.high_s, found.loaded_s, risk.full_s):
            assert value is None or (value >= 0 and math.isfinite(value))
        assert found.seconds is not None or found.why or found.paused
        store.done_at(one, 1e9, 0.4)
        store.loaded_at(one, 1e9, 0.4)
        store.disk_full_at(one, risk, 1e9, 0.4)


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 1 << 62), st.integers(0, 1 << 62)), max_size=12), st.floats(0, 1e6))
def test_the_mix_of_costs_is_always_a_share(blocks: list[tuple[float, int, int]], mean_tokens: float) -> None:
    assert 0 <= fixed_share([Block(*one) for one in blocks], mean_tokens) <= 1


def test_before_there_is_evidence_the_mix_is_the_assumed_one() -> None:
    assert fixed_share([Block(300, 100, 1000)] * 3, 10.0) == FIXED_SHARE
