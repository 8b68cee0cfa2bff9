"""Ages by clocks, and lines out of a byte stream."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.remote.ages import MAX_DRIFT, ClockOffset
from console.remote.lines import Lines

NONCE = "0123456789abcdef"


def marked(value: object) -> bytes:
    return b"\x1e" + NONCE.encode() + json.dumps(value).encode() + b"\n"


# Ages


def test_a_frame_that_waited_is_as_old_as_it_is() -> None:
    offset = ClockOffset()
    assert offset.age_s(100.0, 1000.0) is None
    offset.sample(900.0, 900.01, 100.0)
    assert offset.age_s(100.0, 940.01) == pytest.approx(40.0)
    offset.sample(905.0, 940.0, 105.0)  # the answer to a ping that lay unread for 35 s
    assert offset.age_s(140.0, 940.01) == pytest.approx(0.0, abs=0.02)


def test_clocks_that_drift_apart_do_not_age_every_frame() -> None:
    """50 ppm for two days, pings with 20 to 60 ms of round trip."""
    for drift in (5e-5, -5e-5):
        offset, noise = ClockOffset(), random.Random(1)
        worst = 0.0
        for step in range(0, 2 * 86400, 60):
            sent, trip = 1000.0 + step, 0.02 + 0.04 * noise.random()
            host = step * (1.0 + drift)
            offset.sample(sent, sent + trip, host + trip / 2)
            age = offset.age_s(host, sent)
            assert age is not None
            worst = max(worst, age)
        assert worst < 0.1


def test_a_host_clock_that_stood_still_is_noticed_at_the_next_ping() -> None:
    offset = ClockOffset()
    offset.sample(10.0, 10.01, 5.0)
    offset.sample(710.0, 710.01, 105.0)  # the virtual machine was paused for 10 minutes
    assert offset.age_s(105.0, 710.01) == pytest.approx(0.0, abs=0.02)


def test_another_boot_forgets_the_offset() -> None:
    offset = ClockOffset()
    offset.host("a")
    offset.sample(10.0, 10.0, 5.0)
    offset.host("a")
    assert offset.offset_s is not None
    offset.host("b")
    assert offset.age_s(5.0, 10.0) is None


@given(st.lists(st.tuples(st.floats(0.001, 60.0), st.floats(0.0, 50.0)), min_size=1, max_size=40), st.floats(-1e6, 1e6))
def test_delay_never_makes_a_frame_younger_than_it_is_by_more_than_the_best_ping(delays: list[tuple[float, float]], truth: float) -> None:
    """However late answers are read, the age is never more than one (best) round trip and the drift allowance too small."""
    offset, now, best, began = ClockOffset(), 1e6, float("inf"), 1e6
    for wait, late in delays:
        now += wait
        received = now + late
        best = min(best, late)
        offset.sample(now, received, now - truth)
        now = received
        age = offset.age_s(now - truth, now + 40.0)
        assert age is not None
        assert 40.0 - best - MAX_DRIFT * (now - began) - 0.01 <= age <= 40.01


# Lines


def test_login_noise_is_told_from_messages() -> None:
    lines = Lines(NONCE)
    data = b"Welcome!\r\nlast login \xff\nprompt> " + marked({"boot": "have"}) + b"stray\n" + marked({"re": 1})
    assert list(lines.feed(data)) == [{"boot": "have"}, {"re": 1}]
    assert lines.noise == b"Welcome!\r\nlast login \xff\nprompt> "
    assert lines.dropped == 0


def test_the_newest_noise_is_kept_and_bounded() -> None:
    lines = Lines(NONCE)
    for number in range(10000):
        assert list(lines.feed(b"noise %d\n" % number)) == []
    list(lines.feed(b"and the reason"))
    assert lines.noise.endswith(b"noise 9999\nand the reason") and len(lines.noise) <= 4096


def test_what_is_no_object_is_dropped_and_counted() -> None:
    lines = Lines(NONCE, max_line_bytes=1000)
    mark = b"\x1e" + NONCE.encode()
    bad = [mark + b"[1]\n", mark + b"{broken\n", mark + b"[" * 900 + b"\n", mark + b"1" * 3000 + b"\n", b"\x1ewrongnonce{}\n"]
    assert list(lines.feed(b"".join(bad) + marked({"ok": 1}))) == [{"ok": 1}]
    assert lines.dropped == 4


def test_an_endless_line_takes_no_memory() -> None:
    lines = Lines(NONCE, max_line_bytes=10000)
    for _ in range(100):
        assert list(lines.feed(b"x" * 65536)) == []
        assert len(lines._rest) <= 10000 + 65536
    assert list(lines.feed(b"end\n" + marked({"a": 1}))) == [{"a": 1}]
    assert lines.dropped == 1


@given(st.lists(st.integers(1, 200), max_size=50), st.integers(0, 2**32))
def test_however_the_bytes_are_cut_the_messages_are_the_same(cuts: list[int], seed: int) -> None:
    messages = [{"n": number, "text": "\u00e9\n\r" * (number % 5)} for number in range(20)]
    data = b"motd\n" + b"".join(marked(message) + b"junk \xff\n" * (number % 2) for number, message in enumerate(messages))
    lines, found, at = Lines(NONCE), [], 0
    for size in [*cuts, len(data)]:
        found += lines.feed(data[at : at + size])
        at += size
    assert found == messages
