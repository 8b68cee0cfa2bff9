"""The time of day that is shown for an estimate, which stands still while the estimate only trembles."""

import math
from typing import NamedTuple

MOVED_SHARE = 0.03
_LEAST_MOVE_S = 2.0
_ROUGH_FROM_S, _ROUGH_S, _FINE_S = 3600.0, 300.0, 60.0


class Clock(NamedTuple):
    """Wall times, rounded: to five minutes when more than an hour is left, else as a clock reads."""

    end_s: float
    low_s: float | None = None
    high_s: float | None = None


class Shown:
    """``at`` with each estimate: the times to show. They change only when the estimate moved by more than 3 % of what is left."""

    def __init__(self) -> None:
        self._end, self._low, self._high = _Held(), _Held(), _Held()

    def at(self, wall_s: float, seconds: float, low_s: float | None = None, high_s: float | None = None) -> Clock:
        """``wall_s``: the clock now; the others are from now. Where the range rounds to less than its end, it is as wide as that."""
        end = self._end.at(wall_s + seconds, seconds)
        if low_s is None or high_s is None:
            self._low, self._high = _Held(), _Held()
            return Clock(end)
        low, high = self._low.at(wall_s + low_s, seconds), self._high.at(wall_s + high_s, seconds)
        return Clock(end, min(low, end), max(high, end))


class _Held:
    def __init__(self) -> None:
        self._exact_s: float | None = None
        self._shown_s = 0.0
        self._rough = False

    def at(self, exact_s: float, left_s: float) -> float:
        rough = left_s > _ROUGH_FROM_S
        least_s = max(MOVED_SHARE * left_s, _LEAST_MOVE_S)
        moved = self._exact_s is None or abs(exact_s - self._exact_s) > least_s
        # Held as five minutes and told by the minute now: only where that is off by more than the estimate may be.
        coarse = self._rough and not rough and abs(exact_s - self._shown_s) > max(least_s, _FINE_S)
        if moved or coarse:
            shown_s = _ROUGH_S * round(exact_s / _ROUGH_S) if rough else _FINE_S * math.floor(exact_s / _FINE_S)  # as a clock reads
            self._exact_s, self._shown_s, self._rough = exact_s, shown_s, rough
        return self._shown_s
