"""How well ``console.core.stall`` tells a stalled run from one that only looks like it, beside fixed timeouts on the same traces.

``python -m benchmarks.stall [--traces N] [--faults N] [--seed N] [--processes N]``: so many healthy 6-hour runs (400; the bound is meant
for 10,000, which take some 25 minutes on two cores) and runs with each fault (100). Simulated traces: ``benchmarks/stall_traces.py``.
"""

import argparse
import math
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

from benchmarks import stall_looks, stall_traces
from benchmarks.report import report
from benchmarks.stall_looks import BEGAN_S, STAGE
from benchmarks.stall_traces import DEADLOCK, FAULTS, LOAD_DEADLOCK, SPIN, STOP, Trace
from console.core.stall import Stalls
from pipeline.contract import signals

FIXED_S = (300.0, 600.0, 1800.0)
MOST_RED_PCT = 0.1
WORDS = {
    STOP: signals.STOPPED_BY_SIGNAL,
    DEADLOCK: signals.STALLED_IDLE,
    SPIN: signals.STALLED_SPIN,
    LOAD_DEADLOCK: signals.STALLED_IDLE,
}
_NAMES = {STOP: "sigstop", DEADLOCK: "idle_deadlock", SPIN: "spin_deadlock", LOAD_DEADLOCK: "load_deadlock"}


class Outcome(NamedTuple):
    """What was said of one run. Seconds since its launch; None: never."""

    red_s: float | None
    """First red of a healthy run, or before the fault."""
    level: str
    told_s: float | None
    """First red of the right word after the fault."""
    fixed_s: tuple[float | None, ...]
    """When each fixed timeout since the newest unit, or the launch, would have told: first, or first after the fault."""
    most_s: float
    """By when the fault must have been told, after it."""
    cried: tuple[bool, ...] = ()
    """Which of the fixed timeouts were over when the fault came, with nothing wrong until then."""


def judge(trace: Trace) -> Outcome:
    """Let the console look at a whole run."""
    stalls, red_s, level, told_s = Stalls(), None, "", None
    fixed: list[float | None] = [None] * len(FIXED_S)
    for view in stall_looks.looks(trace):
        stalls.observe(view)
        attempt = (view.stages or {})[STAGE]
        judged = stalls.judge(attempt)
        assert judged is not None
        now_s = view.boot_s - BEGAN_S
        after = now_s >= trace.fault_s
        if judged.severity == signals.RED:
            if not after:
                red_s, level = (now_s, judged.level) if red_s is None else (red_s, level)
            elif told_s is None and judged.level == WORDS[trace.fault]:
                told_s = now_s
        last_s = attempt.progress.last_boot_s if attempt.progress else None
        quiet_s = view.boot_s - (BEGAN_S if last_s is None else last_s)
        for at, timeout_s in enumerate(FIXED_S):
            if fixed[at] is None and quiet_s > timeout_s and (after or not trace.fault):
                fixed[at] = now_s
        if told_s is not None and None not in fixed:
            break
    quiet_s = trace.fault_s - (trace.units_s[-1] if trace.units_s else 0.0)
    cried = tuple(trace.fault != "" and quiet_s > timeout_s for timeout_s in FIXED_S)
    return Outcome(red_s, level, told_s, tuple(fixed), most_s(trace), cried)


def most_s(trace: Trace) -> float:
    """Within which a fault is to be told."""
    usual_s = 10 * trace.usual_s + 10
    return {STOP: 15.0, DEADLOCK: max(185.0, usual_s), SPIN: max(190.0, usual_s), LOAD_DEADLOCK: 310.0}.get(trace.fault, math.inf)


def _healthy(seed: int) -> Outcome:
    return judge(stall_traces.healthy(seed))


def _faulty(fault: str, seed: int) -> tuple[float, Outcome]:
    trace = stall_traces.faulty(seed, fault)
    return trace.fault_s, judge(trace)


def main(traces: int = 400, faults: int = 100, seed: int = 1, processes: int | None = None) -> int:
    """Measure, print, and return 1 when a bound is missed."""
    with ProcessPoolExecutor(processes or os.cpu_count()) as pool:
        healthy = list(pool.map(_healthy, range(seed, seed + traces), chunksize=4))
        broken = {fault: list(pool.map(partial(_faulty, fault), range(seed, seed + faults), chunksize=4)) for fault in FAULTS}
    missed = _tell_healthy(healthy)
    for fault, told in broken.items():
        missed |= _tell_fault(_NAMES[fault], told)
    return missed


def _tell_healthy(outcomes: list[Outcome]) -> int:
    count = len(outcomes)
    by_level = Counter(outcome.level for outcome in outcomes if outcome.red_s is not None)
    beside = [
        f"fixed_{timeout_s:.0f}_s {100 * sum(one.fixed_s[at] is not None for one in outcomes) / count:.3g}"
        for at, timeout_s in enumerate(FIXED_S)
    ]
    reds = ", ".join(f"{number} {level}" for level, number in by_level.most_common()) or "none"
    print(f"healthy runs of 6 h: {count}; with a red: {reds}", flush=True)
    return report("stall_healthy_red", 100 * sum(by_level.values()) / count, "%", MOST_RED_PCT, " vs ".join(beside))


def _tell_fault(name: str, told: list[tuple[float, Outcome]]) -> int:
    """Latencies after the fault; one that was never told counts as infinite."""
    ours = sorted(_after(outcome.told_s, fault_s) for fault_s, outcome in told)
    over_s = max(_after(outcome.told_s, fault_s) - outcome.most_s for fault_s, outcome in told)
    most = max(outcome.most_s for _, outcome in told)
    missed = 0
    cried = [f"{timeout_s:.0f} s in {sum(one.cried[at] for _, one in told)}" for at, timeout_s in enumerate(FIXED_S)]
    print(f"{name}: {len(told)} runs; fixed timeouts that were over before the fault: {', '.join(cried)}", flush=True)
    for word, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0)):
        beside = [
            f"fixed_{timeout_s:.0f}_s {_at(sorted(_after(one.fixed_s[at], fault_s) for fault_s, one in told), share):.3g}"
            for at, timeout_s in enumerate(FIXED_S)
        ]
        missed |= report(f"stall_{name}_{word}", _at(ours, share), "s", most, " vs ".join(beside))
    return missed | report(f"stall_{name}_over_own_bound", over_s, "s", 0.0)


def _after(told_s: float | None, fault_s: float) -> float:
    return math.inf if told_s is None else told_s - fault_s


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--traces", type=int, default=400, help="healthy runs (400)")
    parser.add_argument("--faults", type=int, default=100, help="runs with each fault (100)")
    parser.add_argument("--seed", type=int, default=1, help="of the first run (1)")
    parser.add_argument("--processes", type=int, default=None, help="that work at the same time (one a core)")
    options = parser.parse_args()
    sys.exit(main(options.traces, options.faults, options.seed, options.processes))
