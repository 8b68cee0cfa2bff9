"""Which samples share a forward pass: planned from the lengths alone, never from what is already done.

The dataset is taken in windows of WINDOW_BATCHES * batch_samples rows in index order. Within a window samples of like length go
together, longest first, so that little is padding. A batch never crosses a window: whoever wants the first N rows (``--limit``)
runs only the batches that hold one of them, and the same batches are run by a full pass later. A batch is always run whole, with the
same padding, even when only one of its samples is missing: the bits of a sample depend on its batch's shape.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

WINDOW_BATCHES = 8


@dataclass(frozen=True)
class Batch:
    """Samples that run together."""

    indices: tuple[int, ...]
    """Dataset rows, longest sample first."""
    padded_tokens: int
    """Tokens of the longest sample: the width that all are padded to."""


def plan_batches(lengths: Sequence[int], batch_samples: int, batch_tokens: int) -> list[Batch]:
    """All batches of a dataset. At most ``batch_samples`` samples and ``batch_tokens`` padded tokens each (one sample may have more)."""
    window = WINDOW_BATCHES * batch_samples
    batches = []
    for start in range(0, len(lengths), window):
        rows = sorted(range(start, min(start + window, len(lengths))), key=lambda row: (-lengths[row], row))
        while rows:
            width = lengths[rows[0]]
            count = max(1, min(batch_samples, batch_tokens // width))
            batches.append(Batch(tuple(rows[:count]), width))
            rows = rows[count:]
    return batches


def batches_with(batches: Sequence[Batch], missing: Collection[int]) -> list[Batch]:
    """The batches that hold at least one of the missing samples, in the plan's order."""
    return [batch for batch in batches if any(index in missing for index in batch.indices)]
