"""Signs of an end that need no clock: processes that a signal has stopped, ranks that are gone. Each needs two looks with new evidence."""

from typing import Optional, Tuple

from pipeline.contract.signals import RANK_DEAD, STOPPED_BY_SIGNAL, Signals
from pipeline.contract.stall_gpus import Gpus
from pipeline.contract.stall_limits import STEP_S
from pipeline.contract.stall_processes import Processes

_HARMLESS_S = 60.0
"""A job that still finishes units after so long does not need the processes that are stopped."""
_ROUNDING_S = 0.01

_Evidence = Tuple[Optional[float], Optional[float], float]


class Stops:
    def __init__(self, scale: float = 1.0) -> None:
        self._apart_s = STEP_S * min(scale, 1.0)
        self._harmless_s = _HARMLESS_S * scale
        self._stopped_s: Optional[float] = None
        """The first walk since the newest unit that showed a stopped process."""
        self._since_s: Optional[float] = None
        """The first walk of all that did, without one since that did not."""
        self._harmless = self._zombies = 0
        self._dead: Optional[_Evidence] = None

    def look(self, look: Signals, processes: Processes, gpus: Gpus, advanced_boot_s: float, advanced: bool) -> str:
        """STOPPED BY SIGNAL or RANK DEAD once it is certain; else empty."""
        if self._is_stopped(processes, advanced_boot_s, advanced):
            return STOPPED_BY_SIGNAL
        return RANK_DEAD if self._rank_is_dead(look, processes, gpus, advanced) else ""

    def _is_stopped(self, processes: Processes, advanced_boot_s: float, advanced: bool) -> bool:
        walk_s = processes.walk_boot_s
        if not processes.read or walk_s is None:
            self._stopped_s = None
            return False
        if not processes.stopped:
            self._stopped_s = self._since_s = None
            self._harmless = 0
            return False
        if self._since_s is None:
            self._since_s = walk_s
        if advanced:
            self._stopped_s = None
            if advanced_boot_s - self._since_s >= self._harmless_s:
                self._harmless = max(self._harmless, processes.stopped)
        if processes.stopped <= self._harmless or walk_s < advanced_boot_s:
            return False
        if self._stopped_s is None:
            self._stopped_s = walk_s
        return walk_s - self._stopped_s >= self._apart_s - _ROUNDING_S and walk_s > self._stopped_s

    def _rank_is_dead(self, look: Signals, processes: Processes, gpus: Gpus, advanced: bool) -> bool:
        if advanced:
            self._zombies = processes.zombies
            self._dead = None
        gone = any(rank.alive is False for rank in look.ranks)
        lost = gpus.lost is not None and processes.zombies > self._zombies
        if not gone and not lost:
            self._dead = None
            return False
        seen = (processes.walk_boot_s, gpus.round_boot_s, look.boot_s)
        if self._dead is None:
            self._dead = seen
        first = self._dead
        if lost:
            return _later(first[0], seen[0]) and _later(first[1], seen[1])
        return _later(first[0], seen[0]) if seen[0] is not None else seen[2] > first[2]


def _later(first: Optional[float], now: Optional[float]) -> bool:
    return first is not None and now is not None and now > first
