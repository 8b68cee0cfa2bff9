"""Which tokens the drafter's vocabulary holds: speculators' own choice by frequency, with the special tokens forced in."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pipeline.errors import UserError
from pipeline.vocabulary.counting import TokenCounts


@dataclass(frozen=True)
class Mapping:
    """d2t and t2d as speculators' trainer caches and loads them."""

    d2t: Any
    """int64 numpy [draft vocabulary]: the verifier's id of draft id i is i + d2t[i]."""
    t2d: Any
    """bool numpy [verifier vocabulary]: whether the drafter has the token."""
    padded: int
    """Tokens that never occur, taken by lowest id because fewer occur than the draft vocabulary holds."""


def build_mapping(counts: TokenCounts, forced: Collection[int], draft_size: int) -> Mapping:
    """Raises UserError for a draft vocabulary that is larger than the verifier's, or cannot hold the forced tokens."""
    from speculators.train.vocab_mapping import build_vocab_mappings_from_distribution

    vocab_size = len(counts.learnt)
    if draft_size > vocab_size:
        raise UserError(f"vocab.draft_vocab_size: {draft_size} is more than the verifier's vocabulary of {vocab_size}; lower it")
    if draft_size < len(forced):
        raise UserError(
            f"vocab.draft_vocab_size: {draft_size} cannot hold the {len(forced)} special tokens that the drafter needs; raise it"
        )
    frequencies = counts.frequencies()
    above_all = max(frequencies.values(), default=0) + 1
    wanted = {**frequencies, **dict.fromkeys(forced, above_all)}  # a copy: the frequencies that are kept stay the true ones
    d2t, t2d = build_vocab_mappings_from_distribution(wanted, draft_size, vocab_size)
    return Mapping(d2t.cpu().numpy(), t2d.cpu().numpy(), max(0, draft_size - len(wanted)))


def coverage(counts: TokenCounts, t2d: Any) -> float:
    """Share of the learnt token occurrences that are in the drafter's vocabulary."""
    total = int(counts.learnt.sum())
    return int(counts.learnt[t2d].sum()) / total if total else 0.0


def problems_of(d2t: Any, t2d: Any, draft_size: int, vocab_size: int, forced: Collection[int]) -> list[str]:
    """What is wrong with a mapping (numpy arrays): shapes, types, and whether the two say the same."""
    import numpy

    if d2t.dtype != numpy.int64 or d2t.shape != (draft_size,):
        return [f"d2t is {d2t.dtype} {list(d2t.shape)}, not int64 [{draft_size}]"]
    if t2d.dtype != numpy.bool_ or t2d.shape != (vocab_size,):
        return [f"t2d is {t2d.dtype} {list(t2d.shape)}, not bool [{vocab_size}]"]
    targets = d2t + numpy.arange(draft_size)
    if targets[0] < 0 or targets[-1] >= vocab_size or (numpy.diff(targets) <= 0).any():
        return [f"d2t does not point at {draft_size} different tokens of {vocab_size}, in order"]
    if not numpy.array_equal(numpy.flatnonzero(t2d), targets):
        return [f"d2t and t2d do not name the same tokens ({int(t2d.sum())} in t2d, {draft_size} in d2t)"]
    lacking = [token for token in forced if not t2d[token]]
    return [f"the special tokens {lacking[:10]} are not in it"] if lacking else []
