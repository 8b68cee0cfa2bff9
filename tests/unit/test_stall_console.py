"""The console's way to the stall rules: signals out of frames, one judge an attempt, the host's own lookout beside it, and no data."""

from typing import Any

import pytest

from console.core import stall, views
from console.core.store import Store
from console.core.views import HostView
from pipeline.contract import signals, telemetry
from pipeline.contract.signals import Signals
from tests.fakes.frames import ATTEMPT, attempt, frame, gpu, progress

LOOKOUT = {
    "level": signals.STALLED_IDLE, "severity": signals.RED, "line": "as the host saw it", "since_boot_s": 50.0, "phase": "steady",
    "gaps": {"steady": {"count": 400, "median_s": 2.0, "q99_s": 2.5, "longest_s": 9.0}}, "power_w": {"0": 410.0}, "ranks_seen": 8,
}  # fmt: skip


def seen(stage: str = "extract", frame_changes: dict[str, Any] | None = None, **changes: Any) -> tuple[HostView, Signals]:
    view = views.parse(frame(138.0, **{**(frame_changes or {}), "stages": {stage: attempt(stage=stage, **changes)}}))
    assert view and view.stages
    return view, stall.signals(view, view.stages[stage])


def test_signals_are_what_the_frame_says() -> None:
    tree = {"procs": 9, "cpu_s": 3.5, "rss_bytes": 7, "states": {"S": 8, "D": 1}, "boot_s": 136.5, "read_bytes": 11, "write_bytes": 12}
    ranks = [{"rank": rank, "phase": "steady", "done": 5, "last_boot_s": 130.0 + rank, "beat_boot_s": 136.0} for rank in range(2)]
    _, look = seen(tree=tree, rank_progress=ranks, ranks_expected=8, lookout={**LOOKOUT, "boot_s": 137.0})
    assert (look.boot_s, look.phase, look.done, look.total, look.last_boot_s) == (138.0, "steady", 80, 200, 136.0)
    assert (look.states, look.tree_boot_s, look.cpu_s, look.read_bytes, look.write_bytes) == ({"S": 8, "D": 1}, 136.5, 3.5, 11, 12)
    assert look.gpus is not None and len(look.gpus) == 8 and look.gpus_boot_s == pytest.approx(137.6)
    assert look.gpus[3] == signals.GpuSignal(3, 98.0, 410.0, 82_604 << 20)
    assert (look.files, look.ranks_seen, look.ranks_expected) == (80, 8, 8)
    assert [(rank.rank, rank.last_boot_s) for rank in look.ranks] == [(0, 130.0), (1, 131.0)]


def test_what_is_not_told_is_not_read() -> None:
    view = views.parse({"boot_s": 138.0, "boot_id": "a", "stages": {"extract": {"attempt": ATTEMPT, "state": telemetry.RUNNING}}})
    assert view and view.stages
    look = stall.signals(view, view.stages["extract"])
    unread = (look.done, look.states, look.tree_boot_s, look.cpu_s, look.read_bytes, look.gpus, look.gpus_boot_s, look.ranks_seen)
    assert unread == (None,) * 8 and look.phase == ""
    _, look = seen(frame_changes={"gpus": [gpu(0, util_pct="not-supported", power_w="error: x")]})
    assert look.gpus == (signals.GpuSignal(0, None, None, 82_604 << 20),)


def test_the_gpus_of_a_job() -> None:
    assert seen("prepare")[1].gpus == ()
    others = [gpu(0), gpu(1, procs=[{"pid": 9, "bytes": 1, "kind": "C", "here": True, "name": "other"}])]
    assert [one.index for one in seen("train", {"gpus": others})[1].gpus or ()] == [0]
    assert [one.index for one in seen("train", {"gpus": others}, pid=7)[1].gpus or ()] == [0, 1], "its own pid is not seen: all of them"
    assert seen("generate")[1].gpus is None, "its server is not seen here: idle GPUs here say nothing of it"
    server = {"pid": 5, "start_ticks": 1, "engine": "vllm", "argv": [], "port": 8000, "up_s": 9.0}
    assert len(seen("generate", {"servers": [server]})[1].gpus or ()) == 8


def test_while_it_verifies_its_units_are_files_verified() -> None:
    told = progress(phase="verifying", done=200, total=200, verified=17, verify_total=200)
    _, look = seen(progress=told)
    assert (look.done, look.total, look.last_boot_s, look.phase) == (17, 200, None, "verifying")
    assert seen(state=telemetry.STOPPING)[1].phase == "finishing"
    assert not seen("serve")[1].units and seen()[1].units


class Console:
    """Folds a frame a second of an extraction that does nothing any more, with a walk of its tree every five."""

    def __init__(self) -> None:
        self.store, self.now_s = Store(), 1000.0

    def watch(self, seconds: int, done: int = 80, **changes: Any) -> signals.Verdict:
        for _ in range(seconds):
            self.now_s += 1.0
            tree = {
                "procs": 9,
                "cpu_s": 3.5,
                "rss_bytes": 7,
                "states": {"S": 9},
                "boot_s": self.now_s // 5 * 5,
                "read_bytes": 1,
                "write_bytes": 2,
            }
            told = progress(phase_boot_s=990.0, last_boot_s=995.0 + (done - 80), done=done, beat_boot_s=self.now_s)
            lookout = changes.get("lookout")
            one = attempt(progress=told, tree=tree, **{**changes, "lookout": lookout and {**lookout, "boot_s": self.now_s - 2}})
            idle = [gpu(index, util_pct=0, power_w=90.0) for index in range(2)]
            nvml = {**frame()["nvml"], "boot_s": self.now_s - 0.4}
            assert self.store.fold(frame(self.now_s, gpus=idle, nvml=nvml, stages={"extract": one}))
        return self.verdict()

    def verdict(self, age_s: float | None = 0.5) -> signals.Verdict:
        one = self.store.attempt("extract")
        assert one is not None
        return self.store.verdict(one, age_s)


def test_a_console_judges_by_itself_where_the_host_has_no_lookout() -> None:
    console = Console()
    assert console.watch(280).severity != signals.RED
    verdict = console.watch(40)
    assert (verdict.level, verdict.severity, verdict.phase) == (signals.STALLED_IDLE, signals.RED, signals.WARMUP)
    assert {row.name for row in verdict.rows} >= {"units", "processes", "processor", "storage I/O", "GPU use", "GPU power", "log"}


def test_a_console_that_comes_late_believes_the_host_that_has_watched() -> None:
    console = Console()
    verdict = console.watch(2, lookout=LOOKOUT)
    assert (verdict.level, verdict.severity, verdict.line) == (signals.STALLED_IDLE, signals.RED, "as the host saw it")
    assert verdict.since_boot_s == 50.0 and verdict.rows and verdict.gaps.median_s == 2.0
    assert console.watch(2, lookout={**LOOKOUT, "level": signals.FINE, "severity": signals.OK}).severity == signals.OK


@pytest.mark.parametrize(("looked_s", "red"), [(1016.0, False), (1018.0, True)], ids=["before it", "after it"])
def test_what_the_host_said_before_the_newest_unit_is_over(looked_s: float, red: bool) -> None:
    own = Console().watch(3)._replace(gap_s=3.0)
    view = views.parse(frame(1020.0, stages={"extract": attempt(lookout={**LOOKOUT, "boot_s": looked_s})}))
    assert view and view.stages
    told = stall.with_lookout(own, view.stages["extract"].lookout, 1020.0)
    assert (told.severity == signals.RED) is red


@pytest.mark.parametrize("boot_s", [None, 100.0, 1e9])
def test_a_lookout_that_does_not_look_says_nothing(boot_s: float | None) -> None:
    console = Console()
    verdict = console.watch(3)
    one = console.store.attempt("extract")
    assert one is not None and one.lookout is None
    view = views.parse(frame(1003.0, stages={"extract": attempt(lookout={**LOOKOUT, "boot_s": boot_s})}))
    assert view and view.stages
    assert stall.with_lookout(verdict, view.stages["extract"].lookout, 1003.0) == verdict


def test_floors_are_scaled_as_the_run_says() -> None:
    console = Console()
    verdict = console.watch(25, lookout={**LOOKOUT, "level": signals.FINE, "severity": signals.OK, "scale": 0.1, "gaps": {}})
    assert dict(verdict.limits)[signals.STALLED_IDLE] == pytest.approx(30.0)
    quiet = {**LOOKOUT, "level": signals.FINE, "severity": signals.OK, "scale": 0.1, "gaps": {}}
    assert console.watch(20, lookout=quiet).level == signals.STALLED_IDLE


def test_no_data_is_told_by_the_age_of_the_frame() -> None:
    console = Console()
    verdict = console.watch(60)
    assert console.verdict(15.0) == verdict
    for age_s in (15.5, 1e6, None):
        told = console.verdict(age_s)
        assert (told.level, told.severity, told.gap_s) == (signals.NO_DATA, signals.GREY, verdict.gap_s) and told.rows
    assert "no data for 26 s" in console.verdict(26.0).line


def test_another_boot_and_another_attempt_begin_anew() -> None:
    console = Console()
    assert console.watch(330).severity == signals.RED
    assert console.watch(1, attempt="20260101-000000-aaaaaaaaaaaa").severity == signals.OK
    one = console.store.attempt("extract")
    assert one is not None
    console.store.stalls.clear()
    assert console.store.verdict(one, 0.0).level == signals.NO_DATA


def test_an_attempt_that_ended_is_not_judged_any_more() -> None:
    console = Console()
    assert console.watch(330).severity == signals.RED
    verdict = console.watch(1, state=telemetry.CRASHED, exit={"code": 137, "signal": 9, "boot_s": 1300.0})
    assert (verdict.level, verdict.severity) == (signals.FINE, signals.OK)
