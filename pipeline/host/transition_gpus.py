"""The steps of a transition that concern the GPUs: who else is on them, stopping the named server, freeing, and the last look."""

import os
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from pipeline.contract import free, layout, transition
from pipeline.host import (
    free_release,
    free_survey,
    free_verdict,
    gpu_claim,
    gpu_gate,
    locks,
    server_users,
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
        self._nobody_begins()
        began, lowest = time.monotonic(), None  # what is just being released is nobody's for a while
        patience = min(free_release.SETTLE_S, of.times.free.release_s)
        while True:
            found = transition_holders.look(of.plan, of.plan["service"], self._survey())
            if not found.exit_code:
                return found.line
            if lowest is None or found.unaccounted_bytes <= lowest - free.MIB:
                began, lowest = time.monotonic(), found.unaccounted_bytes
            if not found.unaccounted_bytes or time.monotonic() - began >= patience:
                of.alert, of.unheld = found.line, list(found.unheld)
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
            word = services.idle_word(service)
            if word:
                return "%s is on no GPU, and its manager says: %s" % (service["name"], word)
        through = server_users.through(of.data_dir, service)  # another console may have begun it
        if through:
            raise NotProvenError(through + "; nothing is stopped", transition.EXIT_FAILED)
        of.check()
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
            plan = self._without_ending()
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
            of.unheld = _unheld(report.told)
            nobody = of.unheld and not any(gpu["holders"] for gpu in report.told["gpus"])
            of.alert = free.unheld(of.unheld) if nobody else line
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

    def _without_ending(self) -> Dict[str, Any]:
        """The plan once no supervisor of an ended attempt of this run is at work any more: a second SIGTERM would cut a clean end short."""
        of, deadline = self._of, time.monotonic() + services.SUPERVISOR_S
        while True:
            plan = self._survey()
            rows = transition_holders.ending(plan["rows"])
            if not rows:
                return plan
            line = "the supervisor of an ended attempt is still ending %s" % ", ".join(str(row["pid"]) for row in rows[:20])
            if time.monotonic() > deadline:
                raise NotProvenError(line, free.EXIT_HELD)
            of.told(line, deadline - time.monotonic())
            of.wait(of.times.free.interval_s)

    def _nobody_begins(self) -> None:
        """A stage that was given these GPUs has them, though it may have no memory on them yet."""
        of, service = self._of, self._of.plan["service"] or {}
        kept = [(service.get("run"), service.get("stage")), (of.run_name, transition_order.names(of.plan)[-1])]
        for run, stage, view in gpu_claim.takers(of.data_dir, {"wanted": of.plan["wanted"] or []}):
            if (run, stage) not in kept:
                of.alert = gpu_claim.taken_by(run, stage, view)
                raise NotProvenError(of.alert + _UNTOUCHED, free.EXIT_HELD)

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


def _unheld(receipt: Dict[str, Any]) -> List[Dict[str, Any]]:
    """[{index, uuid, mib}] of the GPUs that hold memory with nobody seen on them."""
    gpus = [gpu for gpu in receipt.get("gpus") or [] if gpu["kind"] == free.UNSEEN]
    return [{"index": gpu["index"], "uuid": gpu["uuid"], "mib": free.mib(max(gpu["used_bytes"]))} for gpu in gpus]
