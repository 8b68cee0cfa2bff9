"""The steps of a transition that concern the GPUs: who else is on them, stopping the named server, freeing, and the last look."""

import os
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from pipeline.contract import free, layout, transition
from pipeline.host import (
    free_release,
    free_survey,
    free_verdict,
    gpu_gate,
    locks,
    services,
    transition_checks,
    transition_holders,
    transition_order,
)  # fmt: skip
from pipeline.host.free_gpus import Freeing
from pipeline.host.free_report import Report
from pipeline.host.transition_errors import NotProvenError

if TYPE_CHECKING:
    from pipeline.host.transition import Transition

_TRIES = 3
"""Looks in a row between which processes that are allowed to end have ended."""
_UNTOUCHED = "; nothing of theirs is touched"


class Gpus:
    """These steps of one run of the action, whose facts are in ``of``; the lock of the host's GPUs is held from the first to ``close``."""

    def __init__(self, of: "Transition"):
        self._of = of
        self._lock: Optional[locks.Lock] = None

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def holders(self) -> str:
        """Whoever else is on the GPUs is told while the server still runs: then nothing has been stopped in vain."""
        of = self._of
        self._take_lock()
        began, lowest = time.monotonic(), None  # what is just being released is nobody's for a while
        patience = min(free_release.SETTLE_S, of.times.free.release_s)
        while True:
            found = transition_holders.look(of.plan, of.plan["service"], self._survey())
            if not found.exit_code:
                return found.line
            if lowest is None or found.unaccounted_bytes <= lowest - free.MIB:
                began, lowest = time.monotonic(), found.unaccounted_bytes
            if not found.unaccounted_bytes or time.monotonic() - began >= patience:
                of.alert = found.line
                raise NotProvenError(found.line + _UNTOUCHED, found.exit_code)
            of.told(found.line, patience - (time.monotonic() - began))
            of.wait(of.times.free.interval_s)

    def stop_server(self) -> str:
        of, service = self._of, dict(self._of.plan["service"])
        if service["how"] == services.ATTEMPT:
            directory = layout.run_dir(of.data_dir, service["run"])
            live = transition_checks.live_service(directory, service["run"], service["stage"])
            if live is None:
                return "%s does not run" % service["name"]
            if not transition_order.same_service(live, service, of.run_name):
                told = "%s is another attempt now (%s) than the one that was confirmed (%s); plan again"
                raise NotProvenError(told % (service["name"], live["attempt"], service["attempt"]), transition.EXIT_FAILED)
            service = live
        elif not any(transition_order.same_service(row["manager"], service, of.run_name) for row in self._survey()["rows"]):
            return "%s is on no GPU" % service["name"]
        of.told("stopping %s" % service["name"], of.times.free.service_s)
        done = services.stop_manager(service, of.times.free.service_s, of.data_dir, of.by, of.cancelled)
        of.check()
        if not done.ok:
            raise NotProvenError("%s was asked to stop: %s" % (service["name"], done.said[:500]), transition.EXIT_FAILED)
        return "%s has stopped: %s" % (service["name"], done.said[:500])

    def free(self) -> str:
        """Verify; what ended attempts of this run left is ended before. Nobody else is signalled, whoever it is."""
        of = self._of
        self._take_lock()
        for _ in range(_TRIES):
            plan = self._survey()
            self._nobody_else(plan)
            selection = [free.key(row) for row in transition_holders.left(plan["rows"])]
            order = {"plan": plan, "selection": selection, "phrase": of.order["phrase"], "times": {}}
            report = Report(of.directory, free.ACTION, layout.FREE_RECEIPT)
            code = Freeing(of.directory, of.data_dir, order, of.by, of.nvml, of.times.free, of.cancelled, report).run()
            of.freed = {name: value for name, value in report.told.items() if name not in ("curve", "indices", "readings", "before")}
            outcome = report.told.get("outcome")
            if outcome == free.CANCELLED:
                of.check()
            if report.told.get("usable"):
                return str(report.told["line"])
            if outcome != free.PLAN_CHANGED:
                break
        line = str(report.told.get("line") or "the GPUs could not be verified")
        if report.told.get("new") or _somebody(report.told, selection):
            of.alert = line
        raise NotProvenError(line, code or transition.EXIT_CANNOT_TELL)

    def verify(self) -> Dict[str, Any]:
        """Evidence that they are free now."""
        of = self._of
        self._take_lock()
        what = dict(transition_order.free_what(of.plan), override=None)
        evidence = gpu_gate.verify(of.nvml, of.data_dir, what, of.cancelled, of.times.free.interval_s)
        of.check()
        if not evidence["free"]:
            if evidence["holders"]:
                of.alert = evidence["line"]
            raise NotProvenError(evidence["line"], evidence["exit_code"] or transition.EXIT_CANNOT_TELL)
        return evidence

    def _survey(self) -> Dict[str, Any]:
        of = self._of
        plan, _, _ = free_survey.survey(of.nvml, of.data_dir, transition_order.free_what(of.plan), of.cancelled)
        of.check()
        if plan["trouble"]:
            raise NotProvenError(plan["trouble"], transition.EXIT_CANNOT_TELL)
        return plan

    def _nobody_else(self, plan: Dict[str, Any]) -> None:
        rows = transition_holders.others(self._of.plan, self._of.plan["service"], plan["rows"])
        if rows:
            self._of.alert = free_verdict.held_by(rows, [])
            raise NotProvenError(self._of.alert + _UNTOUCHED, free.EXIT_HELD)

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        path = os.path.join(self._of.data_dir, layout.FREE_LOCK)
        self._lock = locks.take(path, locks.holder_line(os.path.basename(self._of.directory), self._of.by))
        if self._lock is None:
            holder = locks.describe_holder(locks.read_holder(path))
            raise NotProvenError("GPUs of this host are being freed already, by %s" % holder, transition.EXIT_FAILED)


def _somebody(receipt: Dict[str, Any], selection: List[List[Any]]) -> bool:
    """Whether a GPU is held by anybody but what was to be ended, in sight or not."""
    gpus = receipt.get("gpus") or []
    return any(gpu["kind"] == free.UNSEEN or any(one not in selection for one in gpu["holders"]) for gpu in gpus)
