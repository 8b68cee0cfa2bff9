"""What a job's health is judged by, and the judgement: the shapes that host and console share.

Every time is host seconds since boot (``clock.boot_s``). None means not measured, which is never the same as nothing.
"""

from typing import Dict, NamedTuple, Optional, Tuple

# Severities, worst last. Grey says that something is noteworthy and nothing is wrong.
OK, GREY, AMBER, RED = "ok", "grey", "amber", "red"
SEVERITIES = (OK, GREY, AMBER, RED)

# Levels: the word that an operator reads.
FINE = "OK"
"""Progress within its usual gaps, or a start within its time."""
QUIET = "QUIET"
"""Busy, and no new unit for longer than usual."""
IDLE = "IDLE"
STALLED_IDLE = "STALLED"
"""Nothing happens at all: no CPU, no GPU, no I/O, no unit."""
STALLED_SPIN = "STALLED-SPIN"
"""Busy at low power without a unit: a collective that waits for one rank, most likely."""
BLOCKED_IO = "BLOCKED-IO"
"""In state D at every look: waiting for a disk or a network file system."""
BUSY_NO_PROGRESS = "BUSY, NO PROGRESS"
STOPPED_BY_SIGNAL = "STOPPED BY SIGNAL"
"""State T or t: somebody sent SIGSTOP, or a debugger holds it."""
RANK_DEAD = "RANK DEAD"
NO_DATA = "NO DATA"
"""Nobody looked: the state is frozen and no clock runs."""

# Phases, beside telemetry's loading, steady, verifying and finishing.
LAUNCHING = "launching"
WARMUP = "warmup"
"""The first units of an attempt; gaps are not learned from them."""
PAUSED = "paused"
"""The job announces a checkpoint, an evaluation or an upload."""


class GpuSignal(NamedTuple):
    """One GPU that the job works on."""

    index: int
    util_pct: Optional[float] = None
    power_w: Optional[float] = None
    used_bytes: Optional[int] = None


class RankSignal(NamedTuple):
    """One rank, by its own progress file."""

    rank: int
    alive: Optional[bool] = None
    done: Optional[int] = None
    last_boot_s: Optional[float] = None
    beat_boot_s: Optional[float] = None


class Signals(NamedTuple):
    """One look at a job. Counters only grow within an attempt."""

    boot_s: float
    """When this look was made."""
    phase: str = ""
    """Empty: not told."""
    phase_boot_s: Optional[float] = None
    live: bool = True
    units: bool = True
    """False: once it is loaded it owes nobody a unit (a service), so that no clock runs."""
    pause: str = ""
    """What the job announced that it does instead of units; empty: nothing."""
    waits: str = ""
    """What it says that it waits for."""
    done: Optional[int] = None
    """Units finished; while verifying: units verified, with ``total`` to match."""
    total: Optional[int] = None
    tokens: Optional[int] = None
    last_boot_s: Optional[float] = None
    """When the newest unit was finished, by whoever tells it most exactly."""
    files: Optional[int] = None
    bytes: Optional[int] = None
    load_done: Optional[int] = None
    """Weights or shards loaded."""
    load_total: Optional[int] = None
    states: Optional[Dict[str, int]] = None
    """Process states of the whole tree, e.g. {"S": 8, "D": 1}."""
    tree_boot_s: Optional[float] = None
    """When the tree was walked: an older walk is no second look."""
    cpu_s: Optional[float] = None
    """CPU time of the tree."""
    read_bytes: Optional[int] = None
    write_bytes: Optional[int] = None
    """Of the tree, by /proc/PID/io: to and from storage. A model in the page cache shows in neither."""
    rss_bytes: Optional[int] = None
    beat_boot_s: Optional[float] = None
    """The process could still run Python. Proves no progress."""
    log_bytes: Optional[int] = None
    log_boot_s: Optional[float] = None
    gpus: Optional[Tuple[GpuSignal, ...]] = None
    """Empty: the job uses none. None: not read."""
    gpus_boot_s: Optional[float] = None
    ranks: Tuple[RankSignal, ...] = ()
    ranks_seen: Optional[int] = None
    """By progress files, worker names in the log, or GPUs held: whichever shows most."""
    ranks_expected: Optional[int] = None


class GapStats(NamedTuple):
    """Seconds between units, learned while steady over the newest 2,000; ``longest_s`` of all."""

    count: int = 0
    median_s: Optional[float] = None
    q99_s: Optional[float] = None
    longest_s: Optional[float] = None


class Row(NamedTuple):
    """One signal as the evidence screen shows it."""

    name: str
    value: str
    changed_boot_s: Optional[float]
    """When it last changed; None: not known."""
    usual: str
    """Its usual range in words; empty: not learned."""
    verdict: str
    """``moves``, ``quiet``, ``low``, ``D``, ``not read`` and the like; one word or two."""


class Verdict(NamedTuple):
    """How a job stands at one look."""

    level: str
    severity: str
    line: str
    """One line for people: what is so, since when, and what is usual."""
    phase: str
    since_boot_s: Optional[float]
    """When this level began; None with NO DATA before any look."""
    gap_s: Optional[float] = None
    """Since the newest unit (before the first: since the phase began)."""
    gaps: GapStats = GapStats()
    """Of this phase."""
    rows: Tuple[Row, ...] = ()
    limits: Tuple[Tuple[str, float], ...] = ()
    """(level, seconds of gap) at which each level would begin now, for the evidence screen."""
