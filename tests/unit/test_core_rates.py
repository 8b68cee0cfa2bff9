"""Rates and the time left, from host times alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.core import eta
from console.core.rates import NO_RATE, Rate
from console.core.store import Store
from console.headless.standing import state_words
from tests.fakes.frames import attempt, frame, progress


def steady(units: int, first_at: float = 100.0, gap_s: float = 4.0, resumed: int = 0, first_gap_s: float = 0.0) -> list[dict]:
    """Frames every second of a stage that finishes 8 samples of 1,000 tokens each ``gap_s``, until ``units`` batches are done."""
    frames = []
    end = first_at + gap_s * (units - 1)
    moment = first_at
    while moment <= end:
        batches = int((moment - first_at) // gap_s) + 1
        done = resumed + 8 * batches
        state = progress(
            done=done,
            tokens=done * 1000,
            total=100_000,
            total_tokens=10**8,
            resumed_done=resumed,
            resumed_tokens=resumed * 1000,
            phase_boot_s=first_at - (first_gap_s or gap_s),
            first_boot_s=first_at,
            first_done=resumed + 1,
            first_tokens=(resumed + 1) * 1000,
            last_boot_s=first_at + gap_s * (batches - 1),
        )
        frames.append(frame(moment, stages={"extract": attempt(progress=state)}))
        moment += 1.0
    return frames


def fed(frames: list[dict]) -> Store:
    store = Store()
    for one in frames:
        assert store.fold(one)
    return store


@pytest.mark.parametrize("resumed", [0, 5000])
@pytest.mark.parametrize("gap_s", [0.5, 4.0, 90.0])
def test_steady_work_shows_its_true_speed_whatever_was_resumed(resumed: int, gap_s: float) -> None:
    store = fed(steady(20, gap_s=gap_s, resumed=resumed))
    one = store.attempt("extract")
    assert one
    now, mean = store.rate_now(one), store.rate_mean(one)
    assert now.units_per_s == pytest.approx(8 / gap_s)
    assert now.tokens_per_s == pytest.approx(8000 / gap_s)
    assert mean.units_per_s == pytest.approx(8 / gap_s, rel=0.02)
    assert now.over_s <= max(60.0, 2 * gap_s) + gap_s


def test_one_frame_of_a_running_job_is_enough_for_both_rates() -> None:
    """A console that comes back has no history of its own."""
    store = fed(steady(10)[-1:])
    one = store.attempt("extract")
    assert one
    assert store.rate_mean(one).units_per_s == pytest.approx(79 / 36)
    assert store.rate_now(one).units_per_s == pytest.approx(79 / 36)
    early = fed(steady(1))
    one = early.attempt("extract")
    assert one
    assert early.rate_mean(one).units_per_s == early.rate_now(one).units_per_s == pytest.approx(2.0)


def test_part_of_a_first_burst_is_no_speed() -> None:
    """Four samples written within two seconds after 20 s of work are not two a second."""
    store = Store()
    for moment, done in ((100.0, 1), (102.0, 4), (104.0, 4)):
        state = progress(
            done=done, tokens=done * 1000, phase_boot_s=80.0, first_boot_s=100.0, last_boot_s=min(moment, 102.0), total_tokens=40_000
        )
        store.fold(frame(moment, stages={"extract": attempt(progress=state)}))
    one = store.attempt("extract")
    assert one
    assert store.rate_now(one).units_per_s == store.rate_mean(one).units_per_s == pytest.approx(4 / 22)
    assert store.eta(one).seconds == pytest.approx(36 / (4 / 22))


def test_a_slow_first_batch_is_outlived() -> None:
    early, late = fed(steady(8, first_gap_s=40.0)), fed(steady(15, first_gap_s=40.0))
    one, other = early.attempt("extract"), late.attempt("extract")
    assert one and other
    assert early.rate_mean(one).units_per_s == pytest.approx(64 / 68)
    assert late.rate_mean(other).units_per_s == late.rate_now(other).units_per_s == pytest.approx(2.0)


def test_the_last_minute_forgets_what_came_before() -> None:
    slow = steady(10, gap_s=8.0)
    last = slow[-1]["stages"]["extract"]["progress"]
    store = fed(slow)
    for second in range(1, 121):
        state = {
            **last,
            "done": last["done"] + 8 * second,
            "tokens": last["tokens"] + 8000 * second,
            "last_boot_s": slow[-1]["boot_s"] + second,
        }
        store.fold(frame(slow[-1]["boot_s"] + second, stages={"extract": attempt(progress=state)}))
    one = store.attempt("extract")
    assert one
    assert store.rate_now(one).units_per_s == pytest.approx(8.0, rel=0.02)
    assert store.rate_mean(one).units_per_s == pytest.approx((72 + 960) / (72 + 120), rel=0.02)


def test_silence_lowers_the_speed_and_ends_at_zero_and_moves_the_end_away() -> None:
    frames = steady(10)
    state = frames[-1]["stages"]["extract"]
    store = fed(frames)
    one = store.attempt("extract")
    assert one
    before_speed, before_left = store.rate_now(one).units_per_s, store.eta(one).seconds
    store.fold(frame(frames[-1]["boot_s"] + 30, stages={"extract": state}))
    later_speed, later_left = store.rate_now(one).units_per_s, store.eta(one).seconds
    assert before_speed and later_speed and later_speed < before_speed
    assert before_left and later_left and later_left > before_left
    store.fold(frame(frames[-1]["boot_s"] + 300, stages={"extract": state}))
    assert store.rate_now(one) == Rate(0.0, 0.0, 300.0)


def test_a_stage_whose_server_is_gone_waits_and_has_no_speed_and_no_end() -> None:
    frames = steady(10)
    last = frames[-1]["stages"]["extract"]["progress"]
    store = fed(frames)
    well, gone = ["server", "up", "ok"], ["server", "gone for 40 s: connection refused", "bad"]
    for fact, word in ((well, "STEADY"), (gone, "WAITING")):
        store.fold(frame(frames[-1]["boot_s"], stages={"extract": attempt(progress={**last, "facts": [fact]})}))
        one = store.attempt("extract")
        assert one and state_words(one) == word
        assert (store.eta(one).seconds is None, store.rate_now(one) == NO_RATE) == ((word == "WAITING"),) * 2
    assert store.eta(one).why == "server gone for 40 s: connection refused"


def test_an_attempt_that_ended_keeps_the_speed_it_had() -> None:
    frames = steady(10)
    store = fed(frames)
    crashed = {**frames[-1]["stages"]["extract"], "state": "CRASHED"}
    store.fold(frame(frames[-1]["boot_s"] + 3600, stages={"extract": crashed}))
    one = store.attempt("extract")
    assert one
    assert store.rate_mean(one).units_per_s == pytest.approx(2.0)
    assert store.eta(one).seconds is None
    assert "CRASHED" in store.eta(one).why


def test_a_new_attempt_or_a_new_boot_starts_anew() -> None:
    store = fed(steady(10))
    loading = progress(phase="loading", done=80, first_boot_s=None, first_done=None, first_tokens=None, last_boot_s=None)
    store.fold(frame(500.0, stages={"extract": attempt(attempt="20260102-000000-aaaaaaaaaaaa", progress=loading)}))
    one = store.attempt("extract")
    assert one
    assert store.rate_now(one) == store.rate_mean(one) == NO_RATE
    assert store.fold(frame(5.0, boot_id="boot-b", stages={}))
    assert store.view and store.view.boot_s == 5.0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"phase": "loading"}, "loading"),
        ({"phase": "verifying"}, "verifying"),
        ({"first_boot_s": None}, "before the first unit of this attempt"),
        ({"done": None}, "the stage does not say how much is done"),
        ({"total_tokens": None, "total": None}, "the stage does not say how much there is"),
        ({"done": 1, "tokens": 1000}, "no rate yet"),
    ],
)
def test_no_time_left_without_a_basis(change: dict, why: str) -> None:
    store = fed([frame(stages={"extract": attempt(progress=progress(**change))})])
    one = store.attempt("extract")
    assert one
    assert store.eta(one) == eta.Eta(None, why=why)


def test_time_left_by_tokens_and_by_samples_when_tokens_are_unknown() -> None:
    by_tokens = fed([frame(140.0, stages={"extract": attempt(progress=progress(total_tokens=800_000))})])
    one = by_tokens.attempt("extract")
    assert one
    assert by_tokens.eta(one).basis == "tokens"
    assert by_tokens.eta(one).seconds == pytest.approx(720_000 / (79_000 / 36))
    by_samples = fed([frame(140.0, stages={"extract": attempt(progress=progress(total_tokens=None))})])
    one = by_samples.attempt("extract")
    assert one
    assert by_samples.eta(one).basis == "samples"
    assert by_samples.eta(one).seconds == pytest.approx(120 / (79 / 36))


@given(st.lists(st.tuples(st.floats(0, 30), st.integers(-3, 20)), max_size=60))
def test_no_history_raises_or_gives_a_negative_speed(steps: list[tuple[float, int]]) -> None:
    store, moment, done = Store(), 100.0, 8
    for gap_s, more in steps:
        moment, done = moment + gap_s, max(done + more, 0)
        store.fold(frame(moment, stages={"extract": attempt(progress=progress(done=done, tokens=done * 7, last_boot_s=moment))}))
        one = store.attempt("extract")
        assert one
        for rate in (store.rate_now(one), store.rate_mean(one)):
            assert rate.units_per_s is None or rate.units_per_s >= 0
            assert rate.tokens_per_s is None or rate.tokens_per_s >= 0
