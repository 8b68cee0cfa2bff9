"""The stall rules on simulated 6-hour runs, through the console's own way to them: the benchmark's traces, fewer, and with one GPU."""

from itertools import pairwise

import pytest

from benchmarks import stall_looks, stall_traces
from benchmarks.stall import WORDS, judge, most_s
from benchmarks.stall_looks import BEGAN_S
from benchmarks.stall_traces import DEADLOCK, FAULTS, STEP_S
from console.core.stall import Stalls
from pipeline.contract import signals, telemetry


@pytest.mark.parametrize("first", range(1, 201, 25))
def test_no_healthy_run_is_ever_red(first: int) -> None:
    for seed in range(first, first + 25):
        trace = stall_traces.healthy(seed)
        trace.gpus = 1
        outcome = judge(trace)
        assert outcome.red_s is None, f"seed {seed}: {outcome.level} at {outcome.red_s:.0f} s"
        assert outcome.fixed_s[0] is not None, "a fixed timeout of 300 s cries wolf in each of them"


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_told_in_its_time(fault: str) -> None:
    for seed in range(1, 13):
        trace = stall_traces.faulty(seed, fault)
        trace.gpus, trace.end_s = 1, trace.fault_s + most_s(trace) + STEP_S
        outcome = judge(trace)
        assert outcome.red_s is None
        assert outcome.told_s is not None, f"seed {seed}: no {WORDS[fault]}"
        assert outcome.told_s - trace.fault_s <= most_s(trace), f"seed {seed}"


def test_a_trace_is_what_it_says() -> None:
    trace = stall_traces.healthy(2)
    assert trace.median_s == 20.0 and trace.usual_s == pytest.approx(20.0, rel=0.15)
    assert all(before[1] <= after[0] for before, after in pairwise(trace.spans))
    views = list(stall_looks.looks(trace))
    assert len(views) == 6 * 3600 / STEP_S
    attempts = [(view.stages or {})["extract"] for view in views]
    cpu_s = [attempt.cpu_s or 0.0 for attempt in attempts]
    assert cpu_s == sorted(cpu_s) and cpu_s[-1] > 0
    last = attempts[-1].progress
    assert last is not None and last.done == sum(unit_s <= views[-1].boot_s - BEGAN_S for unit_s in trace.units_s)
    assert stall_traces.healthy(2) == trace, "the seed says it all"
    assert stall_traces.faulty(2, DEADLOCK).fault_s != stall_traces.faulty(3, DEADLOCK).fault_s


def test_what_is_learned_is_the_run() -> None:
    trace, stalls = stall_traces.healthy(2), Stalls()
    trace.gpus = 1
    for view in stall_looks.looks(trace):
        stalls.observe(view)
    judged = stalls.judge((view.stages or {})["extract"])
    assert judged is not None and judged.severity in (signals.OK, signals.GREY)
    assert judged.gaps[telemetry.STEADY].median_s == pytest.approx(trace.usual_s, rel=0.03)
    assert judged.power_w[0] == pytest.approx(400.0, rel=0.06)
