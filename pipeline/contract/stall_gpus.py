"""What the GPUs of a job show: at work, idle, or spinning at low power.

A collective that waits for a lost rank keeps its GPU at 100 % use, at not much more than idle power (47 of 250 W in
horovod/horovod#3611), so utilisation alone says nothing: power does, against what this run itself usually draws while it works.
"""

from bisect import bisect_left, insort
from collections import deque
from typing import Deque, Dict, List, Optional

from pipeline.contract.signals import GpuSignal, Signals

BUSY, IDLE, UNREAD, STALE, NONE = "busy", "idle", "not read", "read too long ago", "none"
SPIN, MAY_SPIN, NO_SPIN = "low power", "power not known", "no"
STALE_S, UNREAD_S = 20.0, 120.0
"""A reading that is older says nothing of now; a host that reads seldom will read again before the second, or cannot."""
IDLE_UTIL_PCT, BUSY_UTIL_PCT = 5.0, 50.0
LOW_POWER = 0.6
"""Of this run's own median."""
LEARNED_ROUNDS = 10
GROWTH_BYTES = 64 << 20
_LOST_SHARE, _HELD_SHARE = 0.3, 0.7
"""A GPU whose memory fell below the first share of what it held, while another holds the second, has lost its process."""
_WORKERS_BYTES = 1 << 30
"""A process that works on a GPU holds more."""
_MAX_ROUNDS = 300
_LEARN_EVERY_S = 5.0


class PowerMeter:
    """Median power of each GPU over its newest 300 readings at work."""

    def __init__(self, learned: Optional[Dict[int, float]] = None, scale: float = 1.0) -> None:
        self._every_s = _LEARN_EVERY_S * min(scale, 1.0)
        self._learned: Dict[int, float] = {}
        self._rounds: Dict[int, Deque[float]] = {}
        self._ordered: Dict[int, List[float]] = {}
        self._taken_s = float("-inf")
        self.medians: Dict[int, float] = {}
        """{GPU index: W} of all that are known."""
        self.learn(learned or {})

    def learn(self, medians: Dict[int, float]) -> None:
        """Take what somebody else has learned: it counts where this meter knows too little itself."""
        self._learned = dict(medians)
        self._tell()

    def observe(self, gpus: Optional["tuple[GpuSignal, ...]"], boot_s: float) -> None:
        """Take a round of readings, made while units came as usual."""
        if boot_s - self._taken_s < self._every_s:
            return
        self._taken_s = boot_s
        for gpu in gpus or ():
            if gpu.power_w is None or gpu.util_pct is None or gpu.util_pct < BUSY_UTIL_PCT:
                continue
            rounds, ordered = self._rounds.setdefault(gpu.index, deque()), self._ordered.setdefault(gpu.index, [])
            if len(rounds) == _MAX_ROUNDS:
                del ordered[bisect_left(ordered, rounds.popleft())]
            rounds.append(gpu.power_w)
            insort(ordered, gpu.power_w)
        self._tell()

    def _tell(self) -> None:
        known = {index: ordered[len(ordered) // 2] for index, ordered in self._ordered.items() if len(ordered) >= LEARNED_ROUNDS}
        self.medians = {**self._learned, **known}


class Gpus:
    """The newest round of readings, and what it says."""

    def __init__(self, power_w: Optional[Dict[int, float]] = None, scale: float = 1.0) -> None:
        self.power = PowerMeter(power_w, scale)
        self.work = UNREAD
        self.spin = MAY_SPIN
        self.round_boot_s: Optional[float] = None
        self.busy_boot_s: Optional[float] = None
        """Newest round that spoke against idleness."""
        self.worked_boot_s: Optional[float] = None
        """Newest round that spoke against spinning."""
        self.fresh = False
        """This look brought a new round."""
        self.grew = False
        self.lost: Optional[int] = None
        """GPU that lost the memory that it had held, while another kept its own."""
        self._most_bytes = 0
        self._held: Dict[int, int] = {}

    def look(self, signals: Signals) -> None:
        self.fresh = self.grew = False
        gpus, taken_s = signals.gpus, signals.gpus_boot_s
        if gpus is not None and not gpus:
            self.work, self.spin, self.lost = NONE, NO_SPIN, None
            return
        if gpus is None or taken_s is None:
            self.work, self.spin, self.lost = UNREAD, MAY_SPIN, None
            return
        if not -1.0 <= signals.boot_s - taken_s <= STALE_S:
            near = STALE_S < signals.boot_s - taken_s <= UNREAD_S
            self.work, self.lost = STALE if near else UNREAD, None
            self.spin = SPIN if near and self.spin == SPIN else MAY_SPIN
            return
        if self.round_boot_s is not None and taken_s <= self.round_boot_s and self.work not in (NONE, UNREAD, STALE):
            return
        self.fresh, self.round_boot_s = self.round_boot_s is None or taken_s > self.round_boot_s, taken_s
        self.work, self.spin = _work(gpus), self._spin(gpus)
        if self.work == BUSY:
            self.busy_boot_s = taken_s
        if self.spin == NO_SPIN:
            self.worked_boot_s = taken_s
        self._memory(gpus)

    def _spin(self, gpus: "tuple[GpuSignal, ...]") -> str:
        unknown, spinning, medians = False, False, self.power.medians
        for gpu in gpus:
            usual = medians.get(gpu.index)
            if usual is None and medians and gpu.util_pct is not None and gpu.util_pct < IDLE_UTIL_PCT:
                continue  # it has not worked in this run: none of the job's
            if gpu.power_w is None or usual is None:
                unknown = True
            elif gpu.power_w >= LOW_POWER * usual:
                return NO_SPIN
            if gpu.util_pct is None:
                unknown = True
            elif gpu.util_pct >= BUSY_UTIL_PCT:
                spinning = True
        if spinning:
            return MAY_SPIN if unknown else SPIN
        return MAY_SPIN if any(gpu.util_pct is None for gpu in gpus) else NO_SPIN

    def _memory(self, gpus: "tuple[GpuSignal, ...]") -> None:
        total, self.lost = 0, None
        for gpu in gpus:
            if gpu.used_bytes is None:
                return
            total += gpu.used_bytes
            if gpu.used_bytes > self._held.get(gpu.index, -1):
                self._held[gpu.index] = gpu.used_bytes
        if total >= self._most_bytes + GROWTH_BYTES:
            self.grew, self._most_bytes = bool(self._most_bytes), total
        if total > self._most_bytes - GROWTH_BYTES:
            return  # none has lost anything
        held = self._held
        shares = {gpu.index: (gpu.used_bytes or 0) / held[gpu.index] for gpu in gpus if held.get(gpu.index, 0) >= _WORKERS_BYTES}
        if shares and min(shares.values()) < _LOST_SHARE and max(shares.values()) > _HELD_SHARE:
            self.lost = min(shares, key=lambda index: shares[index])


def _work(gpus: "tuple[GpuSignal, ...]") -> str:
    unread = False
    for gpu in gpus:
        if gpu.util_pct is None:
            unread = True
        elif gpu.util_pct >= IDLE_UTIL_PCT:
            return BUSY
    return UNREAD if unread else IDLE
