"""Numbers as they are printed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.core import fmt


def test_sizes_are_decimal_and_have_three_digits() -> None:
    assert [fmt.size(value) for value in (0, 999, 1000, 999_999, 147e9, 2.65e12, 999.7e9, None)] == [
        "0 B", "999 B", "1 kB", "1 MB", "147 GB", "2.65 TB", "1 TB", "-"
    ]  # fmt: skip


def test_memory_that_is_held_never_reads_as_zero() -> None:
    assert [fmt.mib(value) for value in (0, 1, 1 << 20, 97_253 << 20, None)] == ["0", "1", "1", "97,253", "-"]


def test_durations_and_ages() -> None:
    assert [fmt.duration(value) for value in (0, 41, 59.7, 552, 3599.7, 25_920, 183_600, None)] == [
        "0 s", "41 s", "1 min", "9 min 12 s", "1 h", "7 h 12 min", "2 d 3 h", "-"
    ]  # fmt: skip
    assert [fmt.age(value) for value in (-0.01, 0.44, 9.94, 9.96, 552)] == ["0.0 s", "0.4 s", "9.9 s", "10 s", "9 min 12 s"]
    assert fmt.age(None) == "age unknown"


def test_counts_tokens_and_rates() -> None:
    assert fmt.share(1480, 10_000) == "1,480/10,000"
    assert fmt.share(1480, None) == "1,480"
    assert [fmt.tokens(value) for value in (0, 300, 999_950, 2_560_000, None)] == ["0 tok", "300 tok", "1.00 Mtok", "2.56 Mtok", "-"]
    assert [fmt.rate(value) for value in (0, 0.0123, 2.5, 4333.3, None)] == ["0.0", "0.012", "2.5", "4,333", "-"]


@pytest.mark.parametrize("shape", [fmt.size, fmt.tokens, fmt.rate, fmt.duration, fmt.age, fmt.mib, fmt.count])
@given(value=st.floats(0, 1e18))
def test_any_size_has_a_short_text(shape, value: float) -> None:
    assert 0 < len(shape(value)) <= 30
