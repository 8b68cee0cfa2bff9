"""How long a gap may be before it means something, by what is usual for the job.

Factors and floors: calibrated on 1,000 simulated healthy runs, and held against 10,000 more by ``benchmarks/stall.py``. m: median gap, q99,
mx: longest gap, all learned of this attempt while steady.
"""

from typing import NamedTuple, Optional, Tuple

from pipeline.contract import signals
from pipeline.contract.signals import PAUSED, GapStats
from pipeline.contract.telemetry import STEADY, VERIFYING

LEARNED_GAPS = 5
"""Fewer say nothing of what is usual."""
STEP_S = 3.5
"""CPU and I/O are measured between walks that far apart."""
_SPIN_LONGER = 2.0
"""Than the longest spin that this run came out of by itself."""

_BUSY_RED = 3.0
"""Times the limit of amber. Twice called 20 of 10,000 healthy runs stalled: single units that took an hour (median gap 60 s)."""


class Limits(NamedTuple):
    """Seconds without a unit, all of them watched, at which each level begins. None: that level cannot begin now."""

    quiet_s: float
    idle_s: float
    stalled_s: float
    spin_s: Optional[float]
    blocked_s: float
    blocked_red_s: float
    busy_s: float
    busy_red_s: float
    least_s: float
    """Before it nothing begins."""

    def told(self) -> Tuple[Tuple[str, float], ...]:
        """(level, seconds), for people."""
        pairs = (
            (signals.QUIET, self.quiet_s), (signals.IDLE, self.idle_s), (signals.STALLED_IDLE, self.stalled_s),
            (signals.STALLED_SPIN, self.spin_s), (signals.BLOCKED_IO, self.blocked_s), (signals.BUSY_NO_PROGRESS, self.busy_s),
        )  # fmt: skip
        return tuple((level, seconds) for level, seconds in pairs if seconds is not None)


def limits(phase: str, gaps: GapStats, scale: float = 1.0, longest_spin_s: float = 0.0) -> Limits:
    """The limits in ``phase`` for a job with these gaps. ``scale`` multiplies the floors alone."""
    known = gaps.count >= LEARNED_GAPS and gaps.median_s is not None
    m, q99, mx = (gaps.median_s or 0.0, gaps.q99_s or 0.0, gaps.longest_s or 0.0) if known else (0.0, 0.0, 0.0)
    if phase in (STEADY, VERIFYING) and known:
        quiet_s, idle_s, stalled_s = 30.0, 60.0, 180.0
    elif phase == PAUSED:
        quiet_s, idle_s, stalled_s = 300.0, 300.0, 900.0
    else:  # starting, ending, or nothing learned yet: work of a kind that has no units
        quiet_s, idle_s, stalled_s = 120.0, 120.0, 300.0
    spin_s = max(180.0 * scale, 10 * m, _SPIN_LONGER * longest_spin_s) if phase == STEADY and known else None
    busy_s = max(900.0 * scale, 30 * m, 4 * mx)
    quiet_s = max(quiet_s * scale, min(3 * q99, busy_s))
    idle_s, blocked_s = max(idle_s * scale, 6 * m), max(120.0 * scale, 6 * m)
    return Limits(
        quiet_s=quiet_s,
        idle_s=idle_s,
        stalled_s=max(stalled_s * scale, 10 * m, 3 * mx if phase == PAUSED else 0.0),
        spin_s=spin_s,
        blocked_s=blocked_s,
        blocked_red_s=max(900.0 * scale, 20 * m, 3 * mx),
        busy_s=busy_s,
        busy_red_s=_BUSY_RED * busy_s,
        least_s=min(quiet_s, idle_s, blocked_s),
    )
