"""The plan of batches."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.batches import WINDOW_BATCHES, batches_with, plan_batches

lengths_lists = st.lists(st.integers(1, 5000), max_size=300)


@given(lengths_lists, st.integers(1, 9), st.integers(1, 20000))
def test_every_sample_once_within_the_bounds(lengths: list[int], batch_samples: int, batch_tokens: int) -> None:
    batches = plan_batches(lengths, batch_samples, batch_tokens)
    assert sorted(index for batch in batches for index in batch.indices) == list(range(len(lengths)))
    for batch in batches:
        assert batch.padded_tokens == max(lengths[index] for index in batch.indices)
        assert len(batch.indices) <= batch_samples
        assert len(batch.indices) == 1 or len(batch.indices) * batch.padded_tokens <= batch_tokens


@given(lengths_lists, st.integers(1, 9), st.integers(1, 20000), st.integers(0, 300))
def test_a_prefix_is_planned_as_in_the_whole(lengths: list[int], batch_samples: int, batch_tokens: int, limit: int) -> None:
    """Rows after a window never move its batches, and the first N rows need at most the window that the last of them is in."""
    window = WINDOW_BATCHES * batch_samples
    whole = plan_batches(lengths, batch_samples, batch_tokens)
    cut = len(lengths) // window * window
    assert plan_batches(lengths[:cut], batch_samples, batch_tokens) == [batch for batch in whole if max(batch.indices) < cut]
    wanted = batches_with(whole, range(min(limit, len(lengths))))
    assert all(index < -(-limit // window) * window for batch in wanted for index in batch.indices)


def test_what_is_done_never_moves_a_batch() -> None:
    batches = plan_batches([5, 9, 3, 7, 5, 1], 2, 100)
    assert [batch.indices for batch in batches] == [(1, 3), (0, 4), (2, 5)]
    assert batches_with(batches, {4}) == [batches[1]]
    assert batches_with(batches, set()) == []
