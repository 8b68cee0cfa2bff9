"""How long a job usually takes from one unit to the next, and the longest that it took.

Units of a batch are published in one burst, so a gap lies between two advances of the count, however many units each brought.
"""

from bisect import bisect_left, insort
from collections import deque
from typing import Deque, List, Optional, Tuple

from pipeline.contract.signals import GapStats

MAX_GAPS = 2000
"""Gaps that median and q99 are taken over; the longest is of all."""
DENSE_S, NEAR_S = 3.0, 6.0
"""Between looks up to the first, several units count as one advance. Between looks up to the second they are taken as spread evenly, unless
they came as a burst; further apart it is hidden how they were spread.
"""
_SPREAD = 1.5
"""Units that came within so many steps between looks were spread over them; after a longer gap they were a burst."""
_NEAR_FUTURE_S = 1.0


class GapMeter:
    """The gaps of one attempt in one phase; ``observe`` at every look. The gap that is open now is in none of the figures."""

    def __init__(self) -> None:
        self._gaps: Deque[float] = deque()
        self._ordered: List[float] = []
        self.longest_s: Optional[float] = None
        self.count = 0
        self._done: Optional[int] = None
        self._last_boot_s: Optional[float] = None
        self._seen_boot_s = 0.0

    @property
    def usual_s(self) -> Optional[float]:
        """Median; None before the first gap."""
        ordered, middle = self._ordered, len(self._ordered) // 2
        if not ordered:
            return None
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

    @property
    def q99_s(self) -> Optional[float]:
        """99 % of the gaps are no longer; None before the first."""
        return self._ordered[min(int(len(self._ordered) * 0.99), len(self._ordered) - 1)] if self._ordered else None

    @property
    def recent(self) -> Tuple[float, ...]:
        """The newest gaps, oldest first."""
        return tuple(self._gaps)

    @property
    def stats(self) -> GapStats:
        return GapStats(self.count, self.usual_s, self.q99_s, self.longest_s)

    def observe(self, done: Optional[int], last_boot_s: Optional[float], seen_boot_s: float, learn: bool = True) -> None:
        """Take a count that was seen at ``seen_boot_s`` and the time of its newest unit. Counts that go back start anew, with what was
        learned kept. Without ``learn`` the gap that has just ended is left out: it was no gap of healthy work.
        """
        if done is None or last_boot_s is None or last_boot_s > seen_boot_s + _NEAR_FUTURE_S:
            return
        before_done, before_last, before_seen = self._done, self._last_boot_s, self._seen_boot_s
        self._done, self._last_boot_s, self._seen_boot_s = done, last_boot_s, seen_boot_s
        if before_done is None or before_last is None or done <= before_done or last_boot_s <= before_last or not learn:
            return
        gap_s, step_s = last_boot_s - before_last, seen_boot_s - before_seen
        if done == before_done + 1 or step_s <= DENSE_S or (step_s <= NEAR_S and gap_s > _SPREAD * step_s):
            self.add(gap_s)
        elif step_s <= NEAR_S:
            self.add(gap_s / (done - before_done))
        else:  # what was finished in between is not known; that nothing was until the look before is
            self._longer_than(before_seen - before_last)

    def add(self, gap_s: float) -> None:
        """Take a gap that was measured as such."""
        if len(self._gaps) == MAX_GAPS:
            del self._ordered[bisect_left(self._ordered, self._gaps.popleft())]
        self._gaps.append(gap_s)
        insort(self._ordered, gap_s)
        self.count += 1
        self._longer_than(gap_s)

    def _longer_than(self, gap_s: float) -> None:
        if gap_s > 0:
            self.longest_s = max(gap_s, self.longest_s or 0.0)


def merged(own: GapStats, learned: Optional[GapStats], enough: int) -> GapStats:
    """What was learned here, and while that rests on fewer than ``enough`` gaps what somebody else learned of the same attempt."""
    if learned is None or not learned.count:
        return own
    longest = max((value for value in (own.longest_s, learned.longest_s) if value is not None), default=None)
    base = own if own.count >= min(enough, learned.count) else learned
    return GapStats(max(own.count, learned.count), base.median_s, base.q99_s, longest)
