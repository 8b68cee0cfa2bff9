"""How often each token of the verifier's vocabulary is learnt from in the prepared rows."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipeline.checks_data import ROWS_AT_ONCE
from pipeline.errors import UserError
from pipeline.visible import error_line


@dataclass(frozen=True)
class TokenCounts:
    """int64 numpy arrays [verifier vocabulary]."""

    learnt: Any
    """Occurrences with loss_mask 1: in responses."""
    anywhere: Any
    """Occurrences, prompts included."""
    rows: int
    fingerprint: str
    """Of the rows' token ids, as pipeline.checks_data computes it."""

    @property
    def distinct(self) -> int:
        """Tokens that are learnt from at all."""
        return int((self.learnt > 0).sum())

    def frequencies(self) -> dict[int, int]:
        """{token id: occurrences}, as speculators keeps them: only those that occur."""
        return {int(token): int(self.learnt[token]) for token in self.learnt.nonzero()[0]}


def count_tokens(path: str, vocab_size: int, counted: Callable[[int, int], None]) -> TokenCounts:
    """Count over the Arrow buffers, some rows at a time. ``counted`` is called with rows and learnt tokens so far.

    Raises UserError for a dataset that cannot be read, has no loss mask, or holds ids outside the vocabulary.
    """
    import datasets
    import numpy
    import pyarrow.compute

    compute: Any = pyarrow.compute
    try:
        data: Any = datasets.load_from_disk(path)
        rows = data.select_columns(["input_ids", "loss_mask"]).with_format("arrow")
    except Exception as error:  # a damaged dataset raises whatever pyarrow, json or the features' parser happen to raise
        raise UserError(f"prepare.output: {path} cannot be read as prepared data: {error_line(error)}; run prepare again") from None
    learnt, anywhere = numpy.zeros(vocab_size, "int64"), numpy.zeros(vocab_size, "int64")
    digest = hashlib.sha256()
    total = 0
    for start in range(0, len(rows), ROWS_AT_ONCE):
        table = rows[start : start + ROWS_AT_ONCE].combine_chunks()
        ids, mask = (compute.list_flatten(table.column(name)).to_numpy() for name in ("input_ids", "loss_mask"))
        if len(ids) != len(mask) or (len(ids) and (ids.min() < 0 or ids.max() >= vocab_size)):
            raise UserError(
                f"prepare.output: {path}: rows {start} to {start + len(table) - 1} hold ids outside the vocabulary of {vocab_size}, "
                "or masks of other lengths; python -m pipeline prepare --verify names them"
            )
        digest.update(compute.list_value_length(table.column("input_ids")).to_numpy().astype("<i8").tobytes())
        digest.update(ids.astype("<i8").tobytes())
        chosen = ids[mask == 1]
        learnt += numpy.bincount(chosen, minlength=vocab_size)
        anywhere += numpy.bincount(ids, minlength=vocab_size)
        total += len(chosen)
        counted(start + len(table), total)
    return TokenCounts(learnt, anywhere, len(rows), digest.hexdigest())
