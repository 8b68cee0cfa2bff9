"""The work of an attempt in blocks of five minutes, and what a unit costs beside what its tokens cost.

Method: weighted least squares over blocks, ``seconds = a * units + b * tokens``, of which only the mix of a and b is used. How fast the
work goes is the mean since the first unit, because pauses belong in it.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

BLOCK_S = 300.0
_MAX_BLOCKS = 288
"""A day; after that two neighbours become one, so that the whole attempt stays in it."""
FIXED_SHARE = 0.05
"""What is assumed of a mean unit's cost to be the same for all, before there is evidence: opening, launching, writing."""
PULL = 0.15
"""How strongly that assumption pulls, as a share of the evidence. Chosen on traces (``benchmarks.eta``): without it a drift of the
throughput while lengths grow or shrink is taken for a cost of the units."""
FEWEST_BLOCKS = 4
_LEAST_S = 1.0


class Block(NamedTuple):
    """What was done in how many seconds."""

    seconds: float
    units: int
    tokens: int


class Point(NamedTuple):
    """How far the attempt was at a host time."""

    boot_s: float
    done: int
    tokens: int


class Work:
    """The blocks of one attempt since its first unit. ``add`` what each frame says; ``learn`` what the host kept of the time before."""

    def __init__(self) -> None:
        self._ends: list[Point] = []
        """Where blocks end; the first is where the first begins."""
        self._block_s = BLOCK_S
        self._newest: Point | None = None

    @property
    def empty(self) -> bool:
        return self._newest is None

    def add(self, point: Point) -> None:
        """Take a point. One that goes back in count begins anew; one that goes back in time changes nothing."""
        newest = self._newest
        if newest is not None and (point.done < newest.done or point.tokens < newest.tokens):
            self._ends.clear()
        elif newest is not None and point.boot_s <= newest.boot_s:
            return
        self._newest = point
        if not self._ends or point.boot_s - self._ends[-1].boot_s >= self._block_s:
            self._ends.append(point)
        if len(self._ends) > _MAX_BLOCKS:
            self._ends = self._ends[::2]
            self._block_s *= 2

    def learn(self, points: Iterable[Point]) -> None:
        """Take the attempt's course as its host kept it, in place of one that began later. What contradicts what was seen is left out."""
        newest = self._newest
        if newest is None:
            return
        told = [one for one in points if one.boot_s < newest.boot_s and one.done <= newest.done and one.tokens <= newest.tokens]
        seen = [*self._ends, newest]
        self._ends, self._newest, self._block_s = [], None, BLOCK_S
        last = None
        for point in sorted([*told, *seen]):
            if last is None or (point.boot_s > last.boot_s and point.done >= last.done and point.tokens >= last.tokens):
                self.add(point)
                last = point

    def blocks(self) -> list[Block]:
        """Whole ones, oldest first, and the one that is under way."""
        ends = self._ends if self._newest is None or self._newest == self._ends[-1] else [*self._ends, self._newest]
        return [Block(later.boot_s - one.boot_s, later.done - one.done, later.tokens - one.tokens) for one, later in pairwise(ends)]


def fixed_share(blocks: Sequence[Block], mean_tokens: float, pull: float = PULL) -> float:
    """The part of a unit's cost that does not depend on its tokens, 0 to 1, of a unit with ``mean_tokens``.

    Fitted are the pace of all work, freely, and the part, pulled towards what is assumed: where lengths hardly differ nothing is learned.
    """
    if len(blocks) < FEWEST_BLOCKS or mean_tokens <= 0:
        return FIXED_SHARE
    works = contrasts = both = by_work = by_contrast = scale = 0.0
    for seconds, units, tokens in blocks:
        if seconds < _LEAST_S:
            continue
        mean_units = tokens / mean_tokens
        work, contrast = FIXED_SHARE * units + (1 - FIXED_SHARE) * mean_units, units - mean_units
        works += work * work / seconds
        contrasts += contrast * contrast / seconds
        both += work * contrast / seconds
        by_work += work
        by_contrast += contrast
        scale += (units * units + mean_units * mean_units) / seconds
    contrasts += pull * scale / 2
    pace, more = by_work * contrasts - by_contrast * both, by_contrast * works - by_work * both
    return min(max(FIXED_SHARE + more / pace, 0.0), 1.0) if pace > 0 and math.isfinite(more / pace) else FIXED_SHARE


def cost(fixed: float, units: float, tokens: float, mean_tokens: float) -> float:
    """Of so many units with so many tokens together, in mean units."""
    return fixed * units + (1 - fixed) * tokens / mean_tokens
