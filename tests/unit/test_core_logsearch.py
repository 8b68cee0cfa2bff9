"""Search: any pattern that an operator can type gives an answer or a reason, in bounded time."""

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.core.logring import LogRing
from console.core.logsearch import MAX_PATTERN_CHARS, Pattern, PatternError, Search


def ring_of(*lines: str) -> LogRing:
    ring = LogRing()
    ring.feed("".join(f"{line}\n" for line in lines))
    return ring


LINES = ring_of("zero", "ERROR one", "two", "error three", "four").freeze()


@pytest.mark.parametrize(
    ("pattern", "start", "step", "found", "wrapped"),
    [
        ("error", 4, -1, 3, False),
        ("error", 2, -1, 1, False),
        ("error", 0, -1, 3, True),
        ("error", 4, 1, 1, True),
        ("ERROR", 4, -1, 1, False),
        ("^f", 0, 1, 4, False),
        ("zero|two", 2, 1, 2, False),
        ("zero|two", 3, 1, 0, True),
        ("five", 2, -1, None, False),
        ("o", 99, -1, 4, False),
    ],
)
def test_finds_the_next_line(pattern: str, start: int, step: int, found: int | None, wrapped: bool) -> None:
    search = Search(Pattern(pattern), LINES, start, step)
    assert search.run() == found
    assert search.wrapped is wrapped
    assert search.looked == 5 if found is None else search.looked <= 5


def test_nothing_to_look_at() -> None:
    assert Search(Pattern("x"), LogRing().freeze(), 0, -1).run() is None


@pytest.mark.parametrize(
    "bad", ["", "[", "(", "*", "(?P<", "a{1001}", "(?=a)", r"(a)\1", r"\p{Foo}", "x" * (MAX_PATTERN_CHARS + 1), "\ud800"]
)
def test_what_is_no_pattern_says_why_in_one_short_line(bad: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PatternError) as caught:
        Pattern(bad)
    assert 0 < len(str(caught.value)) <= 120 and "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", ""), "the library must not write to the terminal"


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab.*+?()[]{}|^$\\1,0=!<>:é-", max_size=20))
def test_any_text_is_a_pattern_or_a_reason(text: str) -> None:
    try:
        pattern = Pattern(text)
    except PatternError:
        return
    for line in ("", "aab", "é(1)"):
        assert all(0 <= start < end <= len(line) for start, end in pattern.spans(line))
        assert not pattern.spans(line) or pattern.matches(line)


@pytest.mark.parametrize("nasty", ["(a+)+$", "(a|aa)+$", "(.*)(.*)(.*)(.*)x", "((a?){30}){30}b"])
def test_no_pattern_takes_for_ever(nasty: str) -> None:
    try:
        pattern = Pattern(nasty)
    except PatternError:
        return
    started = time.process_time()
    assert not pattern.matches("a" * 200 + "!")
    assert time.process_time() - started < 5


def test_spans_are_in_characters_and_leave_empty_matches_out() -> None:
    assert Pattern("x*").spans("✓xx é x") == [(1, 3), (6, 7)]


def test_a_search_that_was_cancelled_returns() -> None:
    search = Search(Pattern("nothing"), ring_of(*(["line"] * 20_000)).freeze(), 0, 1)
    thread = threading.Thread(target=search.run)
    search.cancel()
    thread.start()
    thread.join(10)
    assert not thread.is_alive() and search.looked == 0 and search.found is None
