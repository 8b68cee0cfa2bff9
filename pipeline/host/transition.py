"""The action that goes from one stage to the next: each step is proven before the one after it, and it stops at the first that is not.

It runs as an attempt, so that no console and no link is needed once it was confirmed. Each step is on disk before it acts, a stop is
heeded at every wait, and what was proven is looked at again, not done again, by the next transition of the run.
"""

import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from pipeline.contract import events, layout, transition
from pipeline.contract.clock import boot_s
from pipeline.host import action_entry, audit, free_gpus, procs, transition_armed, transition_checks, transition_order
from pipeline.host.forked import CancelledError
from pipeline.host.free_report import Report
from pipeline.host.nvml_session import Session
from pipeline.host.transition_errors import NotProvenError
from pipeline.host.transition_steps import Steps


class Times(NamedTuple):
    """Seconds, at most, of what the steps wait for; ``free`` are those of freeing GPUs."""

    preflight_s: float = 900.0
    stage_s: float = 86400.0
    first_unit_s: float = 7200.0
    unseen_s: float = 600.0  # while the stage that an armed one waits for cannot be looked at
    sure_s: float = 3.0  # over which looks must agree that a stage ended unverified, or that settings cannot be read
    free: free_gpus.Times = free_gpus.Times()
    poll_s: float = 0.5


class Transition:
    """One run of the action. ``order`` is checked (``transition_order.check_order``)."""

    def __init__(
        self,
        directory: str,
        data_dir: str,
        order: Dict[str, Any],
        by: str,
        nvml: Session,
        code_dir: str,
        times: Times = Times(),  # noqa: B008 - a constant
        cancelled: Callable[[], bool] = lambda: False,
    ):
        self.directory, self.data_dir, self.order, self.by, self.nvml, self.code_dir = directory, data_dir, order, by, nvml, code_dir
        self.times, self.cancelled = times, cancelled
        self.plan: transition_order.Plan = order["plan"]
        self.run_name = str(self.plan["run"])
        self.run_directory = layout.run_dir(data_dir, self.run_name)
        self.report = Report(directory, transition.ACTION)
        self.launched: Dict[str, str] = {}
        """{stage: attempt} that this transition launched."""
        self.freed: Optional[Dict[str, Any]] = None
        """What freeing the GPUs came to: its receipt."""
        self.preflight: List[Dict[str, Any]] = []
        """What it told of the next stage, both parts."""
        self.alert = ""
        """Who else holds the GPUs, when that is why it stopped."""
        self.unheld: List[Dict[str, Any]] = []
        """[{index, uuid, mib}] of the GPUs with memory that no process seen here holds, when that is why."""
        self.done: List[Dict[str, Any]] = []
        """{step, stage, state, line, seconds} so far."""
        self._began_boot_s = round(boot_s(), 3)
        self._armed = bool(order["armed"])
        self._steps = Steps(self)

    def run(self) -> int:
        """Do it all; returns the exit code."""
        try:
            self._confirm()
            if self._armed:
                self._wait_armed()
            for one in transition.steps(self.plan["from"], transition_order.names(self.plan), transition_order.service_name(self.plan)):
                self._step(one)
        except NotProvenError as error:
            return self._finish(error.outcome, str(error), error.exit_code)
        except CancelledError:
            return self._cancelled()
        except OSError as error:  # what cannot be recorded is not done
            return self._finish(transition.BROKEN, "%s: %s" % (error.filename or "the host", error.strerror), transition.EXIT_FAILED)
        finally:
            self._steps.close()
        goal = self.plan["stages"][-1]["stage"]
        return self._finish(transition.DONE, "%s: %s" % (goal, self.done[-1]["line"]), transition.EXIT_DONE)

    def check(self) -> None:
        if self.cancelled():
            raise CancelledError

    def wait(self, seconds: float) -> None:
        """Raises CancelledError as soon as a stop is asked for."""
        end = time.monotonic() + seconds
        while True:
            self.check()
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(0.1, left))

    def told(self, note: str, left_s: Optional[float] = None, **fields: Any) -> None:
        """Publish where it is, at most four times a second."""
        self.report.progress(left_s, note, **fields)

    def _confirm(self) -> None:
        confirmed = {
            "phrase": self.order["phrase"],
            "digest": self.plan["digest"],
            "armed": self._armed,
            "override": self.order["override"],
            "untested": self.plan["untested"],
        }
        self.report.begin("CONFIRMED", must=True, who=self.by, **confirmed)
        audit.append(self.data_dir, dict(self._line(transition.ACTION), **confirmed))
        if self.plan["boot_id"] != procs.this_boot():
            raise NotProvenError("the host was restarted since it was planned", transition.EXIT_FAILED)
        self.same_settings()
        self.report.end("as planned")

    def same_settings(self) -> None:
        end = time.monotonic() + self.times.sure_s
        now = transition_checks.settings_digest(self.run_directory)
        while now is None and self.plan["settings_sha256"] is not None and time.monotonic() < end:  # one look may fail
            self.wait(self.times.poll_s)
            now = transition_checks.settings_digest(self.run_directory)
        if now is None and self.plan["settings_sha256"] is not None:
            raise NotProvenError("the run's settings cannot be read now", transition.EXIT_CANNOT_TELL)
        if now != self.plan["settings_sha256"]:
            raise NotProvenError("the run's settings are others than those that were confirmed", transition.EXIT_FAILED)

    def _wait_armed(self) -> None:
        self.report.begin(transition.ARMED, must=True, stage=self.plan["from"], attempt=self.plan["from_attempt"])
        try:
            line = transition_armed.wait(self)
        except NotProvenError:
            self.report.end("disarmed")
            raise
        self.report.end(line)
        self.same_settings()
        self._armed = False

    def _step(self, one: Dict[str, Any]) -> None:
        self.check()
        name, stage = one["step"], one["stage"]
        attempt = layout.new_attempt_id() if name in (transition.STAGE, transition.LAUNCH) else None
        fields = {} if attempt is None else {"attempt": attempt}  # known before it is launched
        self.report.begin(name, must=True, stage=stage, does=one["does"], **fields)
        began = boot_s()
        entry = {"step": name, "stage": stage, "state": transition.NOT_PROVEN, "line": "", "seconds": 0.0}
        self.done.append(entry)
        try:
            if name != transition.FIRST_UNIT:  # of what was launched, whatever the settings are by now
                self.same_settings()
            entry["line"] = self._steps.do(name, stage, attempt)
            entry["state"] = transition.PROVEN
        except NotProvenError as error:
            entry["line"] = str(error)
            raise
        except CancelledError:
            entry["line"] = "cancelled"
            raise
        finally:
            entry["seconds"] = round(boot_s() - began, 3)
            self.report.resume(name, began)
            self.report.end(entry["line"][:2000], state=entry["state"], stage=stage)

    def _cancelled(self) -> int:
        if self._armed:
            return self._finish(transition.DISARMED, "disarmed; nothing was done", transition.EXIT_FAILED)
        step = self.done[-1]["step"] if self.done else "CONFIRMED"
        runs = [stage for stage, attempt in self.launched.items() if transition_checks.standing(self.run_directory, stage, attempt).runs]
        goes_on = "; %s, and it goes on" % ", ".join("%s was launched" % stage for stage in runs) if runs else ""
        return self._finish(transition.CANCELLED, "cancelled in %s%s" % (step, goes_on), transition.EXIT_FAILED)

    def _line(self, what: str) -> Dict[str, Any]:
        return {"what": what, "by": self.by, "run": self.run_name, "attempt": os.path.basename(self.directory)}

    def _finish(self, outcome: str, line: str, code: int) -> int:
        proven = outcome == transition.DONE
        at = None if proven or not self.done or self.done[-1]["state"] == transition.PROVEN else self.done[-1]["step"]
        told = line if at is None or outcome != transition.STOPPED else "stopped at %s: %s" % (at, line)
        receipt: Dict[str, Any] = {"verified": proven, "bad": 0 if proven else 1, "outcome": outcome, "exit_code": code}
        receipt.update(line=told[:2000], stopped_at=at, alert=self.alert, run=self.run_name, by=self.by, label=self.plan["label"])
        receipt.update({name: self.order[name] for name in ("phrase", "armed", "override")}, digest=self.plan["digest"])
        receipt.update(launched=self.launched, steps=self.done, preflight=self.preflight, free=self.freed, unheld=self.unheld)
        receipt.update(goal=self.plan["stages"][-1]["stage"], simulated=bool((self.plan["free"] or {}).get("simulated")))
        receipt.update(seconds=self.report.times, began_boot_s=self._began_boot_s, took_s=round(boot_s() - self._began_boot_s, 2))
        if not self.report.receipt(receipt) and proven:
            code = transition.EXIT_CANNOT_TELL  # a proof that cannot be kept is none
        if code:
            kind = events.INTERRUPTED if outcome in (transition.CANCELLED, transition.DISARMED) and self.cancelled() else events.ERROR
            self.report.event(kind, message=told[:2000], exit_code=code)
        try:
            audit.append(self.data_dir, dict(self._line(transition.ACTION + " result"), outcome=outcome, exit_code=code, line=told[:2000]))
        except OSError as error:
            print("the result cannot be written to the audit log: %s" % error, flush=True)
        print(told, flush=True)
        return code


def main(arguments: List[str]) -> int:
    """``transition``, as the shim starts it."""
    entry = action_entry.enter(transition.ACTION, transition_order.check_order)
    if entry is None:
        return transition.EXIT_USAGE
    nvml, code_dir, times = Session(entry.data_dir), str(entry.spec["code_dir"]), _times(entry.order["times"])
    try:
        return Transition(entry.directory, entry.data_dir, entry.order, entry.by, nvml, code_dir, times, entry.cancelled).run()
    finally:
        nvml.close()


def _times(asked: Dict[str, float]) -> Times:
    own = {name: value for name, value in asked.items() if name in Times._fields}
    freeing = {name: value for name, value in asked.items() if name in free_gpus.Times._fields}
    return Times(free=free_gpus.Times(**freeing), **own)
