"""The plan of a transition: each step with how it stands now, what would be stopped, who else is in the way. Nothing is touched.

``transition-plan`` is the agent's way to it: a child with a deadline.
"""

import json
import os
import sys
from typing import Any, Callable, Dict, List, Optional

from pipeline.contract import layout, transition
from pipeline.contract.clock import boot_s
from pipeline.host import asked_child, free_survey, free_verdict, procs, transition_checks, transition_order
from pipeline.host.asked_child import AskedChild
from pipeline.host.errors import MISSING, USAGE, RequestError
from pipeline.host.nvml_session import Session
from pipeline.host.transition_order import Plan


class PlanRequest(AskedChild):
    """``transition.plan`` under way; raises RequestError for a request that makes no sense."""

    def __init__(self, data_dir: str, request: Dict[str, Any], code_dir: str):
        what = transition_order.asked(request)
        if not os.path.isdir(layout.run_dir(data_dir, what["run"])):
            raise RequestError(MISSING, "no run %r in %s" % (what["run"], data_dir), "send its settings first")
        super().__init__("the look at stages and GPUs", code_dir, ["transition-plan", data_dir, json.dumps(what)])

    def poll(self) -> Optional[Dict[str, Any]]:
        """{plan}, or None: ask again in some 50 ms. Raises RequestError when there will be none."""
        found = super().poll()
        if found is not None and found.get("no_service"):
            raise RequestError(USAGE, found["no_service"], "see `services` of free.plan")
        return found


def make(data_dir: str, what: Dict[str, Any], nvml: Optional[Session], cancelled: Callable[[], bool] = lambda: False) -> Plan:
    """The plan, as of now. ``what`` is ``transition_order.asked``'s; ``nvml`` is needed where the next stage needs GPUs.

    Raises LookupError when the service that was named is none here, forked.CancelledError.
    """
    run_directory = layout.run_dir(data_dir, what["run"])
    plan: Plan = dict(what, host=os.uname().nodename, boot_id=procs.this_boot(), surveyed_boot_s=round(boot_s(), 3))
    before = transition_checks.standing(run_directory, what["from"])
    stages = [dict(one, **_told(transition_checks.standing(run_directory, one["stage"]))) for one in what["stages"]]
    plan.update(from_attempt=before.attempt, from_state=before.state, from_line=before.line, stages=stages)
    plan.update(settings_sha256=transition_checks.settings_digest(run_directory), free=None, service=None)
    if nvml is not None and transition.needs_gpus(stages[-1]["stage"]):
        found, _, _ = free_survey.survey(nvml, data_dir, transition_order.free_what(plan), cancelled)
        kept = ("driver", "simulated", "gpus_ok", "trouble", "gpus", "services", "unreadable", "complete", "notes", "rows")
        plan["free"] = {name: found[name] for name in kept}
        plan["service"] = _service(what["service"], found["services"], transition_checks.live_service(run_directory, what["run"]))
    plan["steps"] = [dict(one, **_now(one, plan, before)) for one in _steps(plan)]
    plan["trouble"] = [one["line"] for one in plan["steps"] if one["state"] == transition.NOT_PROVEN]
    plan.update(phrase=transition_order.phrase(plan, False), phrase_armed=transition_order.phrase(plan, True))
    plan["digest"] = transition_order.digest(plan)
    return plan


def others(plan: Plan, service: Optional[Dict[str, Any]], rows: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Holders that are neither the named service's nor left by this run: nothing on the way may touch them."""
    holding = [row for row in rows if row["uses_memory"] and not row["daemon"]]
    if plan["wanted"]:
        holding = [row for row in holding if row["any_gpu"] or any(one["uuid"] in plan["wanted"] for one in row["gpus"])]
    return [row for row in holding if not _may_go(row, service)]


def left(rows: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """What ended attempts of this run left: the only processes that are signalled on the way."""
    return [row for row in rows if row["killable"] and row["manager"] is None and row["relation"] == "ours, this run"]


def _may_go(row: Dict[str, Any], service: Optional[Dict[str, Any]]) -> bool:
    if row["killable"] and row["manager"] is None:
        return row["relation"] == "ours, this run"
    return bool(row["killable"] and service and transition_order.same_service(row["manager"], service))


def _service(asked: Optional[str], found: List[Dict[str, Any]], ours: Optional[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
    """What would be stopped: {how, name, ...}. None: this run's server, if one lives. Raises LookupError."""
    if asked is None:
        return ours
    known = [dict(one) for one in found] + ([ours] if ours else [])
    for one in known:
        if one["name"] == asked:
            one.pop("pids", None)
            return one
    if asked:
        names = ", ".join(sorted({str(one["name"]) for one in known})) or "none"
        raise LookupError("no service %r holds a GPU here; there is: %s" % (asked, names))
    return None


def _steps(plan: Plan) -> List[Dict[str, Any]]:
    return transition.steps(plan["from"], transition_order.names(plan), transition_order.service_name(plan))


def _now(one: Dict[str, Any], plan: Plan, before: transition_checks.Standing) -> Dict[str, Any]:
    """{state, line} of a step before anything is done: what is not known before it is done is ``open``."""
    goal = plan["stages"][-1]
    if one["step"] == transition.OUTPUT:
        return {"state": before.word, "line": before.line}
    if one["step"] == transition.STAGE:
        (stage,) = [found for found in plan["stages"] if found["stage"] == one["stage"]]
        word = transition.PROVEN if stage["now"] == transition.PROVEN else transition.OPEN
        return {"state": word, "line": stage["line"]}
    if one["step"] == transition.HOLDERS:
        return _holders(plan)
    if one["step"] == transition.LAUNCH and goal["now"] in (transition.OPEN, transition.PROVEN):
        return {"state": transition.PROVEN, "line": goal["line"]}
    return {"state": transition.OPEN, "line": ""}


def _holders(plan: Plan) -> Dict[str, Any]:
    free = plan["free"]
    if free is None or free["trouble"]:
        return {"state": transition.NOT_PROVEN, "line": free["trouble"] if free else "the GPUs were not looked at"}
    rows = others(plan, plan["service"], free["rows"])
    if rows and plan["stages"][-1]["now"] != transition.OPEN:
        return {"state": transition.NOT_PROVEN, "line": free_verdict.held_by(rows, [])}
    return {"state": transition.PROVEN, "line": "nobody else is on the GPUs"}


def _told(found: transition_checks.Standing) -> Dict[str, Any]:
    return {"now": found.word, "line": found.line, "attempt": found.attempt, "state": found.state}


def main(arguments: List[str]) -> int:
    """``transition-plan DATA WHAT``: print {plan} as one line of JSON."""
    if len(arguments) != 2:
        print("use: transition-plan DATA WHAT", file=sys.stderr)
        return 2
    what = json.loads(arguments[1])
    nvml = Session(arguments[0]) if what["expected_gpus"] else None
    try:
        plan = make(arguments[0], what, nvml)
    except LookupError as error:
        asked_child.answer({"no_service": str(error.args[0])})
        return 0
    finally:
        if nvml is not None:
            nvml.close()
    asked_child.answer({"plan": plan})
    return 0
