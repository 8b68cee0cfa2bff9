"""How long an attempt usually takes from one unit to the next, and the longest that it took, out of frames."""

from collections import deque

from console.core.attempt import Progress

MAX_GAPS = 2000
"""Gaps that the median is taken over; the longest is of all."""
DENSE_S = 3.0
"""Frames further apart than this hide how the units between them were spread."""


class GapMeter:
    """The gaps of one attempt. Units that finish between two frames count as one advance: the host tells when the newest one was."""

    def __init__(self) -> None:
        self._gaps: deque[float] = deque(maxlen=MAX_GAPS)
        self._longest_s: float | None = None
        self._usual_s: float | None = None
        self.count = 0
        self._done: int | None = None
        self._last_boot_s: float | None = None
        self._seen_boot_s = 0.0

    @property
    def usual_s(self) -> float | None:
        """Median; None before the first gap."""
        if self._usual_s is None and self._gaps:
            self._usual_s = _median(self._gaps)
        return self._usual_s

    @property
    def longest_s(self) -> float | None:
        return self._longest_s

    def observe(self, progress: Progress, frame_boot_s: float) -> None:
        """Fold in the progress of a frame made at ``frame_boot_s``. Counts that go back start anew, with what was learned kept."""
        done, last = progress.done, progress.last_boot_s
        if done is None or last is None or last > frame_boot_s + 1.0:
            return
        before_done, before_last, before_seen = self._done, self._last_boot_s, self._seen_boot_s
        self._done, self._last_boot_s, self._seen_boot_s = done, last, frame_boot_s
        if before_done is None or before_last is None or done <= before_done or last <= before_last:
            return
        if done == before_done + 1 or frame_boot_s - before_seen <= DENSE_S:
            self._add(last - before_last)
        else:  # what was finished in between is not known; that nothing was until the frame before is
            self._longer_than(before_seen - before_last)

    def _add(self, gap_s: float) -> None:
        self._gaps.append(gap_s)
        self._usual_s = None
        self.count += 1
        self._longer_than(gap_s)

    def _longer_than(self, gap_s: float) -> None:
        if gap_s > 0:
            self._longest_s = max(gap_s, self._longest_s or 0.0)


def _median(values: deque[float]) -> float:
    """The standard library's costs 5 ms of imports, at a start that an operator waits for."""
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
