"""The action that frees GPUs: survey, compare with what was confirmed, stop services, end processes, wait, verify, and say what is proven.

It runs as an attempt, so neither the link nor the console can cut it in half. Each step is on disk before it acts; a stop is heeded at
every wait and never takes back a signal. Nothing is signalled that was not confirmed, or is another process by now: what came after the
confirmation goes back to the next plan.
"""

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set

from pipeline.contract import events, free, layout
from pipeline.contract.clock import boot_s
from pipeline.host import (
    action_entry,
    audit,
    baseline,
    free_order,
    free_plan,
    free_release,
    free_survey,
    holders,
    locks,
    procs,
)
from pipeline.host.forked import CancelledError
from pipeline.host.free_ending import Ending
from pipeline.host.free_report import Report, shown
from pipeline.host.free_steps import Steps
from pipeline.host.nvml_session import FULL, Session


class Times(NamedTuple):
    """Seconds. Those in a request may be changed by the operator; tests change the others too."""

    grace_s: float = free.GRACE_S
    service_s: float = free.SERVICE_S
    release_s: float = free.RELEASE_S
    """Without any progress."""
    leaders_s: float = 10.0
    settle_s: float = 1.0
    kill_s: float = free.KILL_S
    interval_s: float = 1.0
    poll_s: float = 0.1


class Freeing:
    """One run of the action. ``order`` is checked (``free_order.check_order``)."""

    def __init__(
        self,
        directory: str,
        data_dir: str,
        order: Dict[str, Any],
        by: str,
        nvml: Session,
        times: Times = Times(),  # noqa: B008 - a constant
        cancelled: Callable[[], bool] = lambda: False,
        report: Optional[Report] = None,
    ):
        self.directory, self.data_dir, self.order, self.by, self.nvml, self.times, self.cancelled = (
            directory, data_dir, order, by, nvml, times, cancelled
        )  # fmt: skip
        self.plan: free_order.Plan = order["plan"]
        self.run_name: Optional[str] = self.plan["run"]
        self.expected = free_order.expected(self.plan)
        self.report = report or Report(directory)
        self.curve = free_release.Curve()
        self.report.curve, self.report.indices = self.curve.points, self.curve.indices
        self.known: Set[str] = set()
        """Holders that the plan or the first survey showed, whether they were selected or not."""
        self.new: Dict[str, Dict[str, Any]] = {}
        self.stopped: List[Dict[str, Any]] = []
        self.killed: List[List[Any]] = []
        self.before: List[Dict[str, Any]] = []
        self.selected: List[Dict[str, Any]] = []
        """The confirmed rows, as the survey at the start saw them; ``got`` and ``ended`` say what became of each."""
        self.last_look: Optional[holders.Holders] = None
        self.began_boot_s = round(boot_s(), 3)
        self.ending = Ending(self)

    def run(self) -> int:
        """Do it all; returns the exit code."""
        try:
            return self._run()
        except CancelledError:
            return self.ending.cancelled()
        except OSError as error:  # what cannot be recorded is not done
            return self.ending.nothing_done(free.BROKEN, "%s: %s" % (error.filename or "the host", error.strerror), free.EXIT_FAILED)

    def _run(self) -> int:
        selection = self.order["selection"]
        self.report.begin("SURVEY", must=True)
        now, _, self.last_look = free_survey.survey(self.nvml, self.data_dir, self.plan, self.cancelled)
        self.check()
        self.before = now["gpus"]
        self.report.end("%d GPUs, %d processes" % (len(now["gpus"]), len(now["rows"])), trouble=now["trouble"])
        self.report.begin("PLAN", digest=self.plan["digest"], now=now["digest"])
        differs = free_plan.difference(self.plan, selection, now)
        self.report.end("differs" if differs else "as confirmed", difference=differs[:20])
        if now["trouble"]:
            return self.ending.nothing_done(free.REFUSED, now["trouble"], free.EXIT_CANNOT_TELL)
        if differs:
            return self.ending.nothing_done(free.PLAN_CHANGED, "; ".join(differs[:5]), free.EXIT_FAILED, differs)
        rows = self.selected = free.select(now["rows"], selection)
        self.known = {str(free.key(row)) for row in [*self.plan["rows"], *now["rows"]]}
        self.report.begin("CONFIRMED", must=True, phrase=self.order["phrase"], who=self.by, processes=shown(rows))
        line = {"what": free.ACTION, "by": self.by, "run": self.run_name, "attempt": os.path.basename(self.directory)}
        audit.append(self.data_dir, dict(line, phrase=self.order["phrase"], digest=self.plan["digest"], processes=shown(rows)))
        self.report.end("%d processes" % len(rows))
        if rows:
            Steps(self).run(rows)
        self._wait_release()
        return self.ending.verify()

    def look(self, step: str) -> None:
        """A new look at everything: who holds a GPU now and was in no plan is never signalled."""
        self.report.begin(step)
        reading, why = self.nvml.read(FULL, self.cancelled)
        look = holders.look(reading, self.data_dir, self.run_name, free_survey.device_root(), self.cancelled)
        self.check()
        self.note_new(look)
        self.report.end(why or "%d processes" % len(look.rows), new=shown(list(self.new.values())), incomplete=look.why_incomplete())
        self.last_look = look

    def note_new(self, look: holders.Holders) -> None:
        for row in look.rows:
            key = str(free.key(row))
            if key not in self.known and row["uses_memory"] and not row["daemon"]:
                self.new.setdefault(key, row)

    def new_keys(self) -> List[List[Any]]:
        return [free.key(row) for row in self.new.values()]

    def _wait_release(self) -> None:
        self.report.begin("WAIT_RELEASE", patience_s=self.times.release_s)

        def held() -> Set[Any]:
            rows = self.last_look.rows if self.last_look else []
            stay = [row for row in rows if row["uses_memory"] and not row["daemon"] and (row["start_ticks"] is None or procs.alive(row))]
            return {one["uuid"] for row in stay for one in row["gpus"]}

        done = free_release.wait(
            self.nvml,
            self.curve,
            self.expected.judged,
            held,
            baseline.load(self.data_dir),
            self.times.release_s,
            self.times.interval_s,
            self.cancelled,
            lambda left, words: self.report.progress(left, words, force=True),
        )
        self.report.end(done.result, falling=done.falling)
        self.check()

    def check(self) -> None:
        if self.cancelled():
            raise CancelledError


def main(arguments: List[str]) -> int:
    """``free-gpus``, as the shim starts it. Exit codes: ``contract.free``."""
    entry = action_entry.enter(free.ACTION, free_order.check_order)
    if entry is None:
        return free.EXIT_USAGE
    directory, path = entry.directory, os.path.join(entry.data_dir, layout.FREE_LOCK)
    try:
        lock = locks.take(path, locks.holder_line(os.path.basename(directory), entry.by))
    except OSError as error:
        message = "%s: cannot lock: %s; nothing was done" % (path, error.strerror)
        events.append_event(directory, "stage", events.ERROR, message=message, exit_code=free.EXIT_FAILED)
        return free.EXIT_FAILED
    if lock is None:
        holder = locks.read_holder(path)
        message = "GPUs of this host are being freed already, by %s" % locks.describe_holder(holder)
        events.append_event(directory, "stage", events.REFUSED, message=message, exit_code=free.EXIT_USAGE, holder=holder)
        return free.EXIT_USAGE
    nvml, times = Session(entry.data_dir), Times()._replace(**entry.order["times"])
    try:
        return Freeing(directory, entry.data_dir, entry.order, entry.by, nvml, times, entry.cancelled).run()
    finally:
        nvml.close()
        lock.release()
