"""What the processes of a job show between two walks of its tree: CPU time, bytes to and from storage, memory, and states.

Only two different walks can be compared: the same walk seen twice says nothing new.
"""

from typing import NamedTuple, Optional

from pipeline.contract.signals import Signals
from pipeline.contract.stall_gpus import BUSY, GROWTH_BYTES, IDLE, UNREAD
from pipeline.contract.stall_limits import STEP_S

LOW = "low"
"""Less than a tenth of what is usual here, and more than nothing: threads that poll in a job that hangs, perhaps."""
OLD_WALK_S = 45.0
"""A host with many processes walks their tree every half minute."""
IDLE_CORES = 0.02
_LOW_SHARE, _LOW_CORES = 0.1, 0.25
_USUAL_WEIGHT = 0.02
"""Of one step in the mean of those in which units came."""
_BURST_CORES = 0.2
"""A watchdog that wakes now and then may use so much for one step, as long as the whole stretch stays idle on average."""
IDLE_BYTES_S = 128 << 10
"""Heartbeats and log lines of eight ranks write less; work writes and reads megabytes."""
_STOPPED = ("T", "t")


class _Mark(NamedTuple):
    boot_s: float
    cpu_s: Optional[float]
    read_bytes: Optional[int]
    write_bytes: Optional[int]


class Processes:
    """The newest walk, and what changed since the one before."""

    def __init__(self, scale: float = 1.0) -> None:
        self._step_s = STEP_S * min(scale, 1.0)
        self._mark: Optional[_Mark] = None
        self.walk_boot_s: Optional[float] = None
        self.fresh = False
        """This look brought a new walk."""
        self.read = False
        """There is a walk that is not too old, with states."""
        self.cpu = self.io = UNREAD
        self.cores: Optional[float] = None
        """Over the newest step; None: not measured."""
        self.bytes_s: Optional[float] = None
        self.step_s = 0.0
        """Length of the step that ended at this look; 0: none did."""
        self.grew = False
        """Resident memory beyond any before."""
        self.blocked = self.blocked_before = False
        """State D at the newest walk, and at the one before it."""
        self.stopped = self.zombies = 0
        self._idle_cpu_s = self._idle_s = 0.0
        self.usual_cores: Optional[float] = None
        """While units come; None: not learned."""
        self._most_rss_bytes: Optional[int] = None

    def look(self, signals: Signals) -> None:
        self.fresh, self.step_s, self.grew = False, 0.0, False
        walk_s = signals.tree_boot_s
        if walk_s is None or not -1.0 <= signals.boot_s - walk_s <= OLD_WALK_S:
            self.read, self.cpu, self.io, self.cores, self.bytes_s = False, UNREAD, UNREAD, None, None
            self.blocked = self.blocked_before = False
            self.stopped = self.zombies = 0
            return
        if self.walk_boot_s is not None and walk_s <= self.walk_boot_s and self.read:
            return
        self.fresh, self.walk_boot_s = self.walk_boot_s is None or walk_s > self.walk_boot_s, walk_s
        self._states(signals)
        self._step(_Mark(walk_s, signals.cpu_s, signals.read_bytes, signals.write_bytes))
        if signals.rss_bytes is not None:
            before = self._most_rss_bytes
            if before is None or signals.rss_bytes >= before + GROWTH_BYTES:
                self.grew, self._most_rss_bytes = before is not None, signals.rss_bytes

    def _states(self, signals: Signals) -> None:
        states = signals.states
        self.read = states is not None
        states = states or {}
        self.blocked_before, self.blocked = self.blocked, states.get("D", 0) > 0
        self.stopped = sum(states.get(state, 0) for state in _STOPPED)
        self.zombies = states.get("Z", 0)

    def _step(self, now: _Mark) -> None:
        before = self._mark
        if before is None:
            self._mark = now
            return
        step_s = now.boot_s - before.boot_s
        if step_s < self._step_s:
            return
        self._mark, self.step_s = now, step_s
        cpu_s = _gain(before.cpu_s, now.cpu_s)
        self.cores = None if cpu_s is None else cpu_s / step_s
        self.cpu = UNREAD if cpu_s is None else self._cpu(cpu_s, step_s)
        read, written = _gain(before.read_bytes, now.read_bytes), _gain(before.write_bytes, now.write_bytes)
        known = (read or 0) + (written or 0)
        self.bytes_s = None if read is None or written is None else known / step_s
        self.io = BUSY if known >= IDLE_BYTES_S * step_s else UNREAD if self.bytes_s is None else IDLE

    def _cpu(self, cpu_s: float, step_s: float) -> str:
        whole_cpu_s, whole_s = self._idle_cpu_s + cpu_s, self._idle_s + step_s
        idle = cpu_s < IDLE_CORES * step_s
        spared = self._idle_s > 0 and cpu_s < _BURST_CORES * step_s and whole_cpu_s < IDLE_CORES * whole_s
        if idle or spared:
            self._idle_cpu_s, self._idle_s = whole_cpu_s, whole_s
            return IDLE
        self._idle_cpu_s = self._idle_s = 0.0
        low_cores = min(_LOW_SHARE * (self.usual_cores or 0.0), _LOW_CORES)
        return LOW if cpu_s < low_cores * step_s else BUSY

    def worked(self) -> None:
        """Units came during the newest step: that is what it usually takes."""
        if self.step_s and self.cores is not None:
            usual = self.cores if self.usual_cores is None else self.usual_cores
            self.usual_cores = usual + _USUAL_WEIGHT * (self.cores - usual)


def _gain(before: Optional[float], after: Optional[float]) -> Optional[float]:
    """A count that went back was measured of something else: nothing is known."""
    return None if before is None or after is None or after < before else after - before
