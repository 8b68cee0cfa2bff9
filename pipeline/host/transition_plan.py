"""The plan of a transition: each step with how it stands now, what would be stopped, who else is in the way. Nothing is touched.

``transition-plan`` is the agent's way to it: a child with a deadline.
"""

import json
import os
import sys
from typing import Any, Callable, Dict, List, Optional

from pipeline.contract import layout, transition
from pipeline.contract.clock import boot_s
from pipeline.host import (
    asked_child,
    free_survey,
    procs,
    server_users,
    spawn,
    transition_checks,
    transition_holders,
    transition_order,
    transition_preflight,
)
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
            raise RequestError(USAGE, found["no_service"], "name one of those, or none")
        return found


def make(
    data_dir: str, what: Dict[str, Any], nvml: Optional[Session], code_dir: str, cancelled: Callable[[], bool] = lambda: False
) -> Plan:
    """The plan, as of now. ``what`` is ``transition_order.asked``'s; ``nvml`` is needed where the next stage needs GPUs.

    ``untested`` in it are versions that the next stage would work with: whoever confirms the plan confirms those, and no others.

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
        kept = ("driver", "simulated", "gpus_ok", "trouble", "gpus", "services", "unreadable", "complete", "failed", "notes", "rows")
        plan["free"] = {name: found[name] for name in kept}
        plan["service"] = _service(what["service"], found["services"], transition_checks.live_service(run_directory, what["run"]))
    plan["untested"], unknown = [], ""
    if stages[-1]["now"] == transition.NOT_PROVEN:  # else no preflight is made
        plan["untested"], unknown = transition_preflight.untested(stages[-1], plan, run_directory, code_dir, cancelled)
    through = server_users.through(data_dir, plan["service"], (plan["run"], plan["from"])) if plan["service"] else ""
    plan["steps"] = [dict(one, **_now(one, plan, before, unknown, through)) for one in _steps(plan)]
    plan["trouble"] = [one["line"] for one in plan["steps"] if one["state"] == transition.NOT_PROVEN]
    plan.update(phrase=transition_order.phrase(plan, False), phrase_armed=transition_order.phrase(plan, True))
    plan["digest"] = transition_order.digest(plan)
    return plan


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


def _now(one: Dict[str, Any], plan: Plan, before: transition_checks.Standing, unknown: str, through: str) -> Dict[str, Any]:
    """{state, line} of a step before anything is done: what is not known before it is done is ``open``.

    ``unknown``: why the versions are not known. ``through``: what works through the service now.
    """
    goal = plan["stages"][-1]
    if one["step"] == transition.OUTPUT:
        return {"state": before.word, "line": before.line}
    if one["step"] == transition.STAGE:
        (stage,) = [found for found in plan["stages"] if found["stage"] == one["stage"]]
        word = transition.PROVEN if stage["now"] == transition.PROVEN else transition.OPEN
        return {"state": word, "line": stage["line"]}
    if one["step"] == transition.PREFLIGHT:
        texts = ", ".join(plan["untested"])
        return {"state": transition.OPEN, "line": "not tested, and let through if you confirm: %s" % texts if texts else unknown}
    if one["step"] == transition.HOLDERS:
        return _holders(plan)
    if one["step"] == transition.STOP_SERVER and through and goal["now"] != transition.OPEN:
        return {"state": transition.NOT_PROVEN, "line": through}
    if one["step"] == transition.LAUNCH and goal["now"] in (transition.OPEN, transition.PROVEN):
        return {"state": transition.PROVEN, "line": goal["line"]}
    return {"state": transition.OPEN, "line": ""}


def _holders(plan: Plan) -> Dict[str, Any]:
    if plan["free"] is None:
        return {"state": transition.NOT_PROVEN, "line": "the GPUs were not looked at"}
    if plan["stages"][-1]["now"] == transition.OPEN and not plan["free"]["trouble"]:
        return {"state": transition.PROVEN, "line": "not needed: the GPUs are the next stage's"}
    found = transition_holders.look(plan, plan["service"], plan["free"])
    return {"state": transition.NOT_PROVEN if found.exit_code else transition.PROVEN, "line": found.line}


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
        plan = make(arguments[0], what, nvml, spawn.code_root())
    except LookupError as error:
        asked_child.answer({"no_service": str(error.args[0])})
        return 0
    finally:
        if nvml is not None:
            nvml.close()
    asked_child.answer({"plan": plan})
    return 0
