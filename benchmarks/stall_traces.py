"""Simulated runs for the stall judgement: what a host would tell of a 6-hour job on eight GPUs, every five seconds, with what looks
like a stall and is none, and with faults put in.

Parameters: a load of 25 minutes from the page cache (nothing is read from storage, memory grows); gaps lognormal around medians of 2, 5, 20
and 60 s with sigma 0.4 to 0.9, 0.2 % of the units 5 to 15 times longer; a checkpoint of 60 to 120 s every 10 to 30 minutes, not
announced; in half of the runs storage that hangs for 1 to 10 minutes in state D, the GPUs idle or spinning meanwhile; in half of them
1 to 6 minutes of compiling (processor busy, GPUs idle) before the first unit, and in a quarter once more later. Each of these adds its
time to the gap that it falls into. Spells in which every signal looks idle, of a median of 5 s with sigma 0.9, come every 10 minutes and
lie over what goes on (units come when they come); in the load they come every 2 minutes, and nothing grows meanwhile.
"""

import random
from dataclasses import dataclass, field
from itertools import pairwise

from pipeline.contract.stall_progress import WARMUP_ADVANCES

HOURS, STEP_S = 6.0, 5.0
LOAD_S = 25 * 60.0
MEDIANS_S = (2.0, 5.0, 20.0, 60.0)
WORK, LOAD, IDLE, COMPILE, CHECKPOINT, BLOCKED, BLOCKED_SPIN = "work", "load", "idle", "compile", "checkpoint", "blocked", "blocked spin"
STOP, DEADLOCK, SPIN, LOAD_DEADLOCK = "SIGSTOP", "idle deadlock", "spin deadlock", "deadlock in the load"
FAULTS = (STOP, DEADLOCK, SPIN, LOAD_DEADLOCK)
_AFTER_UNITS = 60
"""A fault comes after what is usual is known."""


@dataclass
class Trace:
    """One run. Times are seconds since its launch."""

    seed: int
    median_s: float
    offset_s: float
    """Of the first look."""
    units_s: list[float] = field(default_factory=list)
    """When each unit was finished."""
    spans: list[tuple[float, float, str]] = field(default_factory=list)
    """(begin, end, what it does), in order, none of them overlapping; in between it loads or works."""
    end_s: float = HOURS * 3600
    fault: str = ""
    fault_s: float = float("inf")
    gpus: int = 8

    @property
    def usual_s(self) -> float:
        """Median of the newest 2,000 gaps between advances: units between two looks are one. The first ones are left out."""
        advances = {int((unit_s - self.offset_s) // STEP_S): unit_s for unit_s in self.units_s}
        gaps = sorted(after - before for before, after in pairwise(list(advances.values())[WARMUP_ADVANCES - 1 :][-2001:]))
        return gaps[len(gaps) // 2] if gaps else self.median_s


def healthy(seed: int) -> Trace:
    """A run without a fault."""
    draw = random.Random(seed)
    trace = Trace(seed, MEDIANS_S[seed % len(MEDIANS_S)], draw.uniform(0.0, STEP_S))
    sigma = draw.uniform(0.4, 0.9)
    for at_s in _times(draw, 0.0, LOAD_S, 120.0):
        _add(trace, at_s, _spell(draw), IDLE, LOAD_S)
    waits = _interruptions(draw, trace.end_s)
    now_s = LOAD_S
    while now_s < trace.end_s:
        left_s = trace.median_s * draw.lognormvariate(0.0, sigma) * (draw.uniform(5.0, 15.0) if draw.random() < 0.002 else 1.0)
        while waits and waits[-1][0] <= now_s + left_s:
            at_s, length_s, what = waits.pop()
            at_s = max(at_s, now_s)
            _add(trace, at_s, length_s, what, trace.end_s)
            left_s -= at_s - now_s
            now_s = at_s + length_s
        now_s += left_s
        trace.units_s.append(now_s)
    trace.spans = _overlaid(trace.spans, [(at_s, at_s + _spell(draw)) for at_s in _times(draw, LOAD_S, trace.end_s, 600.0)])
    return trace


def faulty(seed: int, fault: str) -> Trace:
    """The same run with a fault put in at a random time; the trace ends when the longest fixed timeout beside us would have told."""
    trace = healthy(seed)
    draw = random.Random(f"{seed} {fault}")
    trace.fault = fault
    known_s = max(trace.units_s[_AFTER_UNITS], trace.units_s[0] + _AFTER_UNITS * STEP_S)  # units between two looks are one
    begins_s = 300.0 if fault == LOAD_DEADLOCK else known_s
    trace.fault_s = draw.uniform(begins_s, LOAD_S if fault == LOAD_DEADLOCK else max(begins_s, 3 * 3600.0))
    trace.units_s = [unit_s for unit_s in trace.units_s if unit_s <= trace.fault_s]
    trace.end_s = trace.fault_s + 1900.0
    return trace


def _interruptions(draw: random.Random, end_s: float) -> list[tuple[float, float, str]]:
    """(when, how long, what), the last one first."""
    found = []
    at_s = LOAD_S + draw.uniform(600.0, 1800.0)
    while at_s < end_s:
        found.append((at_s, draw.uniform(60.0, 120.0), CHECKPOINT))
        at_s += draw.uniform(600.0, 1800.0)
    if draw.random() < 0.5:
        found.append((draw.uniform(LOAD_S, end_s), draw.uniform(60.0, 600.0), draw.choice((BLOCKED, BLOCKED_SPIN))))
    if draw.random() < 0.5:
        found.append((LOAD_S, draw.uniform(60.0, 360.0), COMPILE))
    if draw.random() < 0.25:
        found.append((draw.uniform(LOAD_S, end_s), draw.uniform(60.0, 360.0), COMPILE))
    return sorted(found, reverse=True)


def _overlaid(spans: list[tuple[float, float, str]], spells: list[tuple[float, float]]) -> list[tuple[float, float, str]]:
    """With idle spells wherever nothing else is."""
    found = list(spans)
    for begin_s, end_s in spells:
        for taken in sorted(span for span in found if span[1] > begin_s and span[0] < end_s):
            if taken[0] > begin_s:
                found.append((begin_s, taken[0], IDLE))
            begin_s = taken[1]
        if begin_s < end_s:
            found.append((begin_s, end_s, IDLE))
    return sorted(found)


def _times(draw: random.Random, begin_s: float, end_s: float, every_s: float) -> list[float]:
    found, at_s = [], begin_s + draw.expovariate(1 / every_s)
    while at_s < end_s:
        found.append(at_s)
        at_s += draw.expovariate(1 / every_s)
    return found


def _spell(draw: random.Random) -> float:
    return 5.0 * draw.lognormvariate(0.0, 0.9)


def _add(trace: Trace, at_s: float, length_s: float, what: str, end_s: float) -> None:
    at_s = max(at_s, trace.spans[-1][1]) if trace.spans else at_s
    if at_s < end_s:
        trace.spans.append((at_s, min(at_s + length_s, end_s), what))
