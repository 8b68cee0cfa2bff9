"""The time of day for an estimate: rounded, still while it only trembles, and in words."""

import math
import random
from itertools import pairwise

import pytest

from console.core import eta_words
from console.core.eta import Eta
from console.core.eta_shown import Shown
from console.core.eta_words import Done, Here
from console.core.store import Store
from tests.fakes.frames import attempt, frame, progress

NOON = 1_700_049_600.0
"""12:00 UTC."""


def test_the_time_moves_only_when_the_estimate_moved_by_more_than_3_percent_of_the_rest() -> None:
    shown = Shown()
    first = shown.at(NOON, 10_000).end_s
    assert first % 300 == 0 and abs(first - NOON - 10_000) <= 150
    assert shown.at(NOON, 10_290).end_s == shown.at(NOON, 9_710).end_s == first
    assert shown.at(NOON, 10_320).end_s == first + 300
    assert shown.at(NOON, 9_000).end_s < first


def test_an_estimate_that_trembles_changes_its_text_seldom() -> None:
    shown, randoms, texts = Shown(), random.Random(0), []
    for second in range(0, 6000, 5):
        texts.append(shown.at(NOON + second, (7200 - second) * randoms.uniform(0.985, 1.015)).end_s)
    assert sum(one != other for one, other in pairwise(texts)) <= 12
    assert abs(texts[-1] - NOON - 7200) <= 60


def test_below_an_hour_it_is_told_to_the_minute_as_a_clock_reads() -> None:
    assert Shown().at(NOON, 3500).end_s == NOON + 3480
    assert Shown().at(NOON, 3700).end_s == NOON + 3600


def test_held_five_minutes_give_way_where_they_are_further_off_than_the_estimate_may_be() -> None:
    shown = Shown()
    assert shown.at(NOON, 7640).end_s == NOON + 7500
    assert shown.at(NOON + 4500, 3140).end_s == NOON + 7620


def test_the_range_is_never_narrower_than_its_end() -> None:
    times = Shown().at(NOON, 7200, 7190, 7210)
    assert times.low_s is not None and times.high_s is not None and times.low_s <= times.end_s <= times.high_s


def steady(**changes: object) -> Store:
    """A run with 50 minutes behind it and an hour ahead, in blocks that differ."""
    store = Store()
    for seconds in range(0, 3001, 20):
        done = 1 + int(2 * seconds + 100 * math.sin(seconds / 190))
        state = progress(
            done=done, tokens=1000 * done, total=13_000, total_tokens=13_000_000, phase_boot_s=99.0, last_boot_s=100.0 + seconds,
            beat_boot_s=100.0 + seconds, boot_s=100.0 + seconds,
        )  # fmt: skip
        store.fold(frame(100.0 + seconds, stages={"extract": attempt(progress=state, **changes)}))
    return store


@pytest.mark.parametrize(
    ("wall_s", "offset_s", "host_s", "words"),
    [
        (NOON, 0.0, 0.0, "12:58 (12:"),
        (NOON + 11.5 * 3600, 0.0, 0.0, "tomorrow 00:28 (00:"),
        (NOON, 7200.0, 0.0, "14:58 (14:"),
    ],
)
def test_the_words_name_the_day_after_midnight_and_whose_clock_it_is(wall_s: float, offset_s: float, host_s: float, words: str) -> None:
    store = steady()
    one = store.attempt("extract")
    assert one
    told = eta_words.done(store, one, Here(wall_s, offset_s, 0.0, host_s))
    assert told and told.words.startswith(words)
    assert told.words.endswith(" local") == (offset_s != host_s)


def test_the_age_of_the_frame_is_time_that_has_gone_by() -> None:
    store = steady()
    one = store.attempt("extract")
    assert one
    fresh = eta_words.done(store, one, Here(NOON, 0.0, 0.0))
    assert fresh == eta_words.done(store, one, Here(NOON + 600, 0.0, 600.0))


def test_words() -> None:
    assert eta_words.paused(Eta(None, paused="STALLED")) == "ETA paused: STALLED"
    assert eta_words.by(Eta(5.0, "samples")) == "by samples" and eta_words.by(Eta(5.0, "tokens")) == ""
    assert Done("14:10", "14:04-14:18", " local").words == "14:10 (14:04-14:18) local"
    assert eta_words.about(5430) == "1 h 30 min"
