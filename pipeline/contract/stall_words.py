"""What a verdict says in one line: what is so, since when, what is usual, and what could not be read."""

from typing import List, Optional

from pipeline.contract import signals
from pipeline.contract.signals import LAUNCHING, WARMUP, GapStats, Signals
from pipeline.contract.stall_gpus import BUSY, NONE, STALE, UNREAD, Gpus
from pipeline.contract.stall_limits import LEARNED_GAPS
from pipeline.contract.stall_processes import Processes
from pipeline.contract.stall_stretches import UNWATCHED_S
from pipeline.contract.telemetry import LOADING, STEADY, VERIFYING

_UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def span(seconds: Optional[float]) -> str:
    """``0.4 s``, ``41 s``, ``9 min 12 s``, ``7 h 12 min``."""
    if seconds is None:
        return "-"
    seconds = max(seconds, 0.0)
    if seconds < 9.95:
        return "%.1f s" % seconds
    whole = int(seconds + 0.5)
    if whole < 60:
        return "%d s" % whole
    big, big_name, small, small_name = next(unit for unit in _UNITS if whole >= unit[0])
    rest = whole % big // small
    return "%d %s" % (whole // big, big_name) + (" %d %s" % (rest, small_name) if rest else "")


def usual(gaps: GapStats) -> str:
    """``usual 20 s, longest 1 min 50 s``; empty while nothing is known."""
    if gaps.count < LEARNED_GAPS or gaps.median_s is None:
        return ""
    longest = "" if gaps.longest_s is None else ", longest " + span(gaps.longest_s)
    return "usual " + span(gaps.median_s) + longest


def unread(processes: Processes, gpus: Gpus, look: Signals) -> List[str]:
    """What is not measured now, though a verdict would rest on it."""
    found = []
    if not processes.read:
        found.append("processes")
    if processes.cpu == UNREAD:
        found.append("processor")
    if processes.io == UNREAD:
        found.append("storage I/O")
    if gpus.work in (UNREAD, STALE):
        found.append("GPUs" if look.gpus is None or gpus.work == STALE else "GPU use")
    elif gpus.work != NONE and any(gpu.power_w is None for gpu in look.gpus or ()):
        found.append("GPU power")
    return found


def line(
    level: str,
    look: Signals,
    phase: str,
    gap_s: float,
    gaps: GapStats,
    processes: Processes,
    gpus: Gpus,
    unwatched_s: float,
    unit_seen: bool = True,
) -> str:
    """The line of a verdict on a running job. ``unit_seen``: it has finished a unit in this attempt."""
    if level == signals.FINE and not unit_seen and look.units and phase in (STEADY, WARMUP, VERIFYING):
        watched_s = gap_s - unwatched_s if unwatched_s > UNWATCHED_S else gap_s
        return "no %sunit yet, watched for %s" % ("new " if look.done else "", span(watched_s))
    gap = "%s %s" % ("no new unit for" if phase in (STEADY, WARMUP, VERIFYING) else "no advance for", span(gap_s))
    known = usual(gaps)
    gap += " (%s)" % known if known else ""
    text = _WORDS[level](look, phase, gap, gap_s, known, processes, gpus)
    if unwatched_s > UNWATCHED_S and level != signals.FINE:
        text += "; nobody looked for %s of it" % span(unwatched_s)
    missing = unread(processes, gpus, look) if level not in (signals.FINE, signals.STOPPED_BY_SIGNAL) else []
    return text + ("; not read: " + ", ".join(missing) if missing else "")


def _stopped(look: Signals, phase: str, gap: str, gap_s: float, known: str, processes: Processes, gpus: Gpus) -> str:
    total = sum((look.states or {}).values())
    return "%d of %d processes are stopped by a signal (state T); SIGCONT lets them go on" % (processes.stopped, total)


def _rank_dead(look: Signals, phase: str, gap: str, gap_s: float, known: str, processes: Processes, gpus: Gpus) -> str:
    dead = [str(rank.rank) for rank in look.ranks if rank.alive is False]
    if dead:
        return "rank %s is gone while others run; %s" % (", ".join(dead), gap)
    return "GPU %s lost its memory and a process is a zombie, while other GPUs hold theirs: its rank is dead; %s" % (gpus.lost, gap)


def _stalled(look: Signals, phase: str, gap: str, gap_s: float, known: str, processes: Processes, gpus: Gpus) -> str:
    signs = ["processor %.1f %% of a core" % (100 * (processes.cores or 0.0))]
    signs += ["GPUs idle"] if gpus.work != NONE else []
    return "nothing happens: %s; %s, no I/O" % (gap, ", ".join(signs))


def _idle(look: Signals, phase: str, gap: str, gap_s: float, known: str, processes: Processes, gpus: Gpus) -> str:
    if look.waits:
        return "waits: %s; %s" % (look.waits, gap)
    return "looks idle: " + gap


def _spin(look: Signals, phase: str, gap: str, gap_s: float, known: str, processes: Processes, gpus: Gpus) -> str:
    watts = [(gpu.power_w, gpus.power.medians.get(gpu.index)) for gpu in look.gpus or () if gpu.power_w is not None]
    pairs = [(now, usually) for now, usually in watts if usually]
    power = ", %.0f W a GPU where %.0f W is usual" % tuple(sum(column) / len(pairs) for column in zip(*pairs)) if pairs else ""
    late = min((rank for rank in look.ranks if rank.last_boot_s is not None), key=lambda rank: rank.last_boot_s or 0.0, default=None)
    who = "; heard of last: rank %d" % late.rank if late is not None and len(look.ranks) > 1 else ""
    return "%s; GPUs in use at low power%s: one rank that the others wait for, most likely%s" % (gap, power, who)


def _blocked(look: Signals, phase: str, gap: str, gap_s: float, known: str, processes: Processes, gpus: Gpus) -> str:
    return "waits for storage: %d processes in state D at every look; %s" % ((look.states or {}).get("D", 0), gap)


def _busy(look: Signals, phase: str, gap: str, gap_s: float, known: str, processes: Processes, gpus: Gpus) -> str:
    return "%s; it is not idle, and slow cannot be told from stuck" % gap


def _quiet(look: Signals, phase: str, gap: str, gap_s: float, known: str, processes: Processes, gpus: Gpus) -> str:
    return "busy, " + gap if BUSY in (processes.cpu, processes.io, gpus.work) else gap


def _fine(look: Signals, phase: str, gap: str, gap_s: float, known: str, processes: Processes, gpus: Gpus) -> str:
    if phase in (LAUNCHING, LOADING):
        parts = [phase]
        if look.load_done is not None:
            parts.append("%d%s loaded" % (look.load_done, "" if look.load_total is None else " of %d" % look.load_total))
        if look.ranks_expected and look.ranks_seen is not None and look.ranks_seen < look.ranks_expected:
            parts.append("%d of %d ranks have shown up" % (look.ranks_seen, look.ranks_expected))
        return ", ".join(parts)
    if phase in (STEADY, WARMUP, VERIFYING) and look.units:
        return "newest unit %s ago" % span(gap_s) + (" (%s)" % known if known else "")
    return phase + (": " + look.pause if look.pause else "")


_WORDS = {
    signals.STOPPED_BY_SIGNAL: _stopped,
    signals.RANK_DEAD: _rank_dead,
    signals.STALLED_IDLE: _stalled,
    signals.STALLED_SPIN: _spin,
    signals.BLOCKED_IO: _blocked,
    signals.BUSY_NO_PROGRESS: _busy,
    signals.IDLE: _idle,
    signals.QUIET: _quiet,
    signals.FINE: _fine,
}
