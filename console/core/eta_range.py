"""Between which times the work will probably end: a bootstrap over blocks of five minutes.

Each draw makes up another past of the blocks that were seen, and a future of as many as are left; four in five draws lie in the range.
Every other pair of draws takes neighbours together, half an hour of them where that much was seen: a throughput that drifts does so for
longer than a block. And every other draw hardly believes what is assumed of the cost of a unit.
The seed is fixed: the same blocks give the same range.
"""

import random
from collections.abc import Sequence

from console.core.eta_work import BLOCK_S, FEWEST_BLOCKS, PULL, Block, cost, fixed_share

_DRAWS = 100
_MOST_FUTURE = 72
_RUNS = (1, 1, 6, 6)
_PULLS = (PULL, PULL / 10)
_LEAST_RUNS = 4
_LOW, _HIGH = 0.1, 0.9


def spread(blocks: Sequence[Block], left_units: int, left_tokens: int, mean_tokens: float, seconds: float) -> tuple[float, float] | None:
    """(low, high) of the seconds left, around the estimate ``seconds``; None with too little evidence."""
    whole = [block for block in blocks if block.seconds >= BLOCK_S / 2 and block.units > 0]
    if len(whole) < FEWEST_BLOCKS or seconds <= 0:
        return None
    share = fixed_share(whole, mean_tokens)
    work = [cost(share, block.units, block.tokens, mean_tokens) for block in whole]
    if min(work) <= 0:
        return None
    paces = [block.seconds / done for block, done in zip(whole, work, strict=True)]
    pace = sum(block.seconds for block in whole) / sum(work)
    future = min(max(round(seconds / BLOCK_S), 1), _MOST_FUTURE)
    randoms = random.Random(0)
    count = len(whole)
    drawn = []
    for draw in range(_DRAWS):
        run = max(min(_RUNS[draw % len(_RUNS)], count // _LEAST_RUNS), 1)
        past = [whole[index] for index in _drawn(randoms, count, count, run)]
        other = fixed_share(past, mean_tokens, _PULLS[draw % len(_PULLS)])
        elapsed = sum(block.seconds for block in past)
        done = sum(cost(other, block.units, block.tokens, mean_tokens) for block in past)
        ahead = sum(paces[index] for index in _drawn(randoms, count, future, run)) / future
        drawn.append(elapsed / done * cost(other, left_units, left_tokens, mean_tokens) * ahead / pace)
    drawn.sort()
    centre = pace * cost(share, left_units, left_tokens, mean_tokens)
    if centre <= 0:
        return None
    # What was drawn spreads around what these blocks alone say; the estimate also knows the time since the newest of them.
    low, high = (drawn[round(quantile * (_DRAWS - 1))] / centre * seconds for quantile in (_LOW, _HIGH))
    return min(low, seconds), max(high, seconds)


def _drawn(randoms: random.Random, count: int, wanted: int, run: int) -> list[int]:
    """Indices of as many blocks as are wanted, in runs of neighbours; after the last one comes the first."""
    indices: list[int] = []
    while len(indices) < wanted:
        begin = int(randoms.random() * count)
        indices += [(begin + step) % count for step in range(min(run, wanted - len(indices)))]
    return indices
