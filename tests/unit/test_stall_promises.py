"""What the stall rules promise whatever they are told: no exception, no verdict that gets better because something was not read,
and no red that rests on what was not read.
"""

import math
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.contract import signals
from pipeline.contract.signals import AMBER, RED, SEVERITIES, GapStats, GpuSignal, RankSignal, Signals
from pipeline.contract.stall import Judge
from tests.fakes.stall_job import BLOCKED, COMPILES, IDLE, SPINS, STOPPED, WORKS, Job
from tests.host.host_launches import find_pythons

NUMBER = st.one_of(st.none(), st.integers(-(2**63), 2**63), st.floats(-1e18, 1e18), st.sampled_from([0, 1, 5.0, 1e9]))
TIME = st.one_of(st.none(), st.floats(9_900, 10_100), st.floats(-1e18, 1e18))
GPU = st.builds(GpuSignal, st.integers(-1, 9), NUMBER, NUMBER, NUMBER)
RANK = st.builds(RankSignal, st.integers(0, 9), st.one_of(st.none(), st.booleans()), NUMBER, TIME, TIME)
LOOK = st.builds(
    Signals,
    boot_s=st.one_of(st.floats(10_000, 10_100), st.floats(-1e18, 1e18)),
    phase=st.sampled_from(["", "loading", "steady", "verifying", "finishing", "of its own"]),
    phase_boot_s=TIME,
    live=st.booleans(),
    units=st.booleans(),
    pause=st.sampled_from(["", "", "checkpoint"]),
    waits=st.sampled_from(["", "", "server gone"]),
    done=NUMBER,
    total=NUMBER,
    last_boot_s=TIME,
    files=NUMBER,
    bytes=NUMBER,
    load_done=NUMBER,
    load_total=NUMBER,
    states=st.one_of(st.none(), st.dictionaries(st.sampled_from("RSDTtZX?"), st.integers(0, 9))),
    tree_boot_s=TIME,
    cpu_s=NUMBER,
    read_bytes=NUMBER,
    write_bytes=NUMBER,
    rss_bytes=NUMBER,
    beat_boot_s=TIME,
    log_bytes=NUMBER,
    log_boot_s=TIME,
    gpus=st.one_of(st.none(), st.lists(GPU, max_size=3).map(tuple)),
    gpus_boot_s=TIME,
    ranks=st.lists(RANK, max_size=3).map(tuple),
    ranks_seen=st.one_of(st.none(), st.integers(0, 9)),
    ranks_expected=st.one_of(st.none(), st.integers(0, 9)),
)
LEVELS = {
    signals.FINE, signals.QUIET, signals.IDLE, signals.STALLED_IDLE, signals.STALLED_SPIN, signals.BLOCKED_IO, signals.BUSY_NO_PROGRESS,
    signals.STOPPED_BY_SIGNAL, signals.RANK_DEAD,
}  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(LOOK, min_size=1, max_size=12), st.sampled_from([1.0, 0.01]))
def test_any_looks_give_a_sound_verdict(looks: list[Signals], scale: float) -> None:
    judge = Judge(scale, {"steady": GapStats(40, 5.0, 9.0, 20.0)}, {0: 400.0})
    for look in looks:
        verdict = judge.look(look)
        assert verdict.level in LEVELS and verdict.severity in SEVERITIES and verdict.line
        assert verdict.gap_s is None or (math.isfinite(verdict.gap_s) and verdict.gap_s >= 0)
        assert all(isinstance(row.value, str) and row.verdict for row in verdict.rows)
        assert verdict.severity != RED or len(looks) > 1, "red needs two looks"
        told = judge.no_data(look.boot_s)
        assert (told.level, told.severity) == (signals.NO_DATA, signals.GREY)


HIDDEN = ("states", "tree_boot_s", "cpu_s", "read_bytes", "write_bytes", "rss_bytes", "gpus", "gpus_boot_s", "power", "util")
SPELLS = st.lists(st.tuples(st.sampled_from([IDLE, SPINS, BLOCKED, COMPILES, WORKS]), st.integers(1, 60)), min_size=1, max_size=6)


def look(job: Job, does: dict[str, Any], hidden: set[str], units: bool = False) -> signals.Verdict:
    job.hides = tuple(hidden - {"power", "util"})
    known = {"power_w": None} if "power" in hidden else {}
    known.update({"util_pct": None} if "util" in hidden else {})
    return job.look({**does, **known}, units)


@settings(max_examples=60, deadline=None)
@given(SPELLS, st.sets(st.sampled_from(HIDDEN), min_size=1, max_size=4), st.booleans())
def test_what_is_not_read_makes_no_verdict_better_and_no_red(
    spells: list[tuple[dict, int]], hidden: set[str], from_the_begin: bool
) -> None:
    whole, partial = Job(every_s=10.0), Job(every_s=10.0)
    for _ in range(90):
        look(whole, WORKS, set(), units=True)
        look(partial, WORKS, hidden if from_the_begin else set(), units=True)
    for does, looks in spells:
        for _ in range(looks):
            all_told, some_told = look(whole, does, set()), look(partial, does, hidden)
            at_least = min(SEVERITIES.index(all_told.severity), SEVERITIES.index(AMBER))
            assert SEVERITIES.index(some_told.severity) >= at_least, (all_told, some_told)
            assert some_told.severity != RED or all_told.severity == RED, (all_told, some_told)
            if some_told.severity == AMBER and all_told.severity != AMBER:
                assert "not read" in some_told.line or some_told.level == all_told.level


@pytest.mark.parametrize(("does", "hidden"), [(STOPPED, {"states"}), (STOPPED, {"tree_boot_s"}), (SPINS, {"gpus"}), (SPINS, {"states"})])
def test_a_certain_end_that_is_not_seen_any_more_is_no_all_clear(does: dict[str, Any], hidden: set[str]) -> None:
    job = Job().works(600)
    gone: dict[str, Any] = {} if does is STOPPED else {"ranks": (RankSignal(0, True), RankSignal(1, False))}
    assert [job.look(does, **gone).severity for _ in range(3)][-1] == RED
    job.hides = tuple(hidden)
    for _ in range(4):
        verdict = job.look(does, ranks=())
        assert verdict.severity == AMBER and "not read" in verdict.line
    job.hides = ()
    assert job.look({**IDLE, "states": {"S": 9}}, ranks=()).severity in (signals.OK, signals.GREY), "seen to be over"
    job.during(does, 15, **gone)
    job.hides = tuple(hidden)
    job.done, job.last_s = job.done + 1, job.now_s + job.step_s
    assert job.look(does).severity == signals.OK, "it moves on"


@settings(max_examples=40, deadline=None)
@given(SPELLS, st.sampled_from([IDLE, SPINS, BLOCKED, STOPPED]))
def test_an_advance_clears_whatever_was_said(spells: list[tuple[dict, int]], last: dict) -> None:
    job = Job(every_s=10.0)
    job.during(WORKS, 450, units=True)
    for does, looks in [*spells, (last, 40)]:
        job.during(does, looks * job.step_s)
    job.done, job.last_s = job.done + 1, job.now_s + job.step_s
    assert job.look(WORKS).severity == signals.OK


IDLES = """
import sys
sys.path.insert(0, sys.argv[1])
from pipeline.contract.signals import Signals
from pipeline.contract.stall import Judge
judge = Judge()
for now in range(0, 400, 5):
    told = judge.look(Signals(1000.0 + now, "loading", 1000.0, states={"S": 9}, tree_boot_s=1000.0 + now, cpu_s=1.0, read_bytes=0,
                              write_bytes=0, gpus=(), ranks_seen=1, ranks_expected=8))
print(told.level, told.severity, len(told.rows))
"""


@pytest.mark.parametrize("python", find_pythons())
def test_the_rules_run_on_every_python_of_a_host_and_with_nothing_installed(python: str) -> None:
    root = str(Path(__file__).parents[2])
    done = subprocess.run([python, "-s", "-S", "-c", IDLES, root], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("STALLED red 10\n", "")
