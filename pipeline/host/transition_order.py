"""What a transition is asked for, what makes a plan that plan, and whether an order confirms one: all without looking at anything."""

import os
from typing import Any, Dict, List, Optional

from pipeline.contract import layout, transition
from pipeline.contract.stages import STAGES
from pipeline.contract.telemetry import number
from pipeline.host import free_order, manager_kinds, settings_store
from pipeline.host.errors import USAGE, RequestError
from pipeline.host.free_order import canonical
from pipeline.host.launch_words import check_arguments, find_interpreter

Plan = Dict[str, Any]
GPU_FIELDS = ("expected_gpus", "gpu_uuids", "wanted")
_MOST_S = 7 * 86400.0
TIMES = ("grace_s", "service_s", "release_s", "preflight_s", "stage_s", "first_unit_s")


def asked(request: Dict[str, Any]) -> Dict[str, Any]:
    """What a ``transition.plan`` request asks for, checked: {label, run, from, stages, service, expected_gpus, gpu_uuids, wanted}.

    ``service`` stays None (this run's server, if one is live), "" (none) or a name. The three of the GPUs are None where the last stage
    needs none. Raises RequestError.
    """
    before, stages, service = request.get("from"), request.get("stages"), request.get("service")
    try:
        layout.check_name(request.get("run"))  # type: ignore[arg-type]
    except ValueError as error:
        raise RequestError(USAGE, str(error)) from None
    if request["run"] == layout.HOST_RUN:
        raise RequestError(USAGE, "a transition is of a run")
    _stage(before, "from")
    if not isinstance(stages, list) or not 1 <= len(stages) <= len(STAGES):
        raise RequestError(USAGE, "stages: a list of {stage, interpreter, args, env}, the last of them the next stage")
    checked = [_launched(one, last=at == len(stages) - 1) for at, one in enumerate(stages)]
    names = [one["stage"] for one in checked]
    if len({before, *names}) != len(names) + 1:
        raise RequestError(USAGE, "stages: %s after %s: each stage once" % (", ".join(names), before))
    if service is not None and not (isinstance(service, str) and len(service) <= 300 and service.isprintable() and " " not in service):
        raise RequestError(USAGE, "service %r: the name of what is stopped before the GPUs are freed" % (service,))
    gpus: Dict[str, Any] = dict.fromkeys(GPU_FIELDS)
    label = request.get("label") or os.uname().nodename
    if transition.needs_gpus(names[-1]):
        what = free_order.asked(request)
        gpus = {name: what[name] for name in GPU_FIELDS}
    elif service:
        raise RequestError(USAGE, "%s needs no GPUs: nothing is stopped for it" % names[-1])
    if not isinstance(label, str) or not 1 <= len(label) <= 100 or not label.isprintable() or " " in label:
        raise RequestError(USAGE, "label %r: a word of at most 100 characters, what the operator calls this host" % (label,))
    return dict(gpus, label=label, run=request["run"], **{"from": before}, stages=checked, service=service)


def names(plan: Plan) -> List[str]:
    return [one["stage"] for one in plan["stages"]]


def service_name(plan: Plan) -> Optional[str]:
    return plan["service"]["name"] if plan["service"] else None


def phrase(plan: Plan, armed: bool) -> str:
    return transition.phrase(plan["label"], plan["run"], names(plan), service_name(plan), armed)


def same_service(one: Optional[Dict[str, Any]], other: Optional[Dict[str, Any]], run: str) -> bool:
    """Whether both are the service that was confirmed. The run's own server may be another attempt by now: it is still this run's."""
    return _service(one, run) == _service(other, run)


def is_own_server(service: Dict[str, Any], run: str) -> bool:
    """Whether it is the server of this run, whichever attempt: any other attempt is confirmed as that one and no other."""
    stage = STAGES.get(str(service.get("stage")))
    return service["how"] == manager_kinds.ATTEMPT and service.get("run") == run and stage is not None and stage.service


def digest(plan: Plan) -> str:
    """Over all that decides what is done; not over how things stand."""
    fields = ("label", "run", "boot_id", "from", "from_attempt", "settings_sha256", *GPU_FIELDS)
    stages = [[one[name] for name in ("stage", "interpreter", "args", "env")] for one in plan["stages"]]
    content = [[plan[name] for name in fields], stages, _service(plan["service"], plan["run"]), plan["untested"]]
    return settings_store.digest(canonical(content).encode())[:16]


def check_order(order: Any) -> Dict[str, Any]:
    """A confirmed order, checked as far as it can be without a look: {plan, phrase, armed, override, times}. Raises RequestError.

    ``override`` lets through what a preflight found, and nothing else.
    """
    if not isinstance(order, dict) or not isinstance(order.get("plan"), dict):
        raise RequestError(USAGE, "transition takes `order`: {plan (as transition.plan gave it), phrase, armed}")
    plan, armed, override, times = order["plan"], order.get("armed", False), order.get("override"), order.get("times") or {}
    try:
        asked(dict(plan, service=service_name(plan)))
        if plan["service"] is not None and not manager_kinds.is_manager(plan["service"]):
            raise KeyError("service")
        intact = digest(plan) == plan.get("digest")
        wanted = phrase(plan, bool(armed))
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        raise RequestError(USAGE, "the plan in the order is not whole", "send it as transition.plan gave it") from None
    if not intact:
        raise RequestError(USAGE, "the plan in the order does not fit its digest %r" % (plan.get("digest"),), "plan again")
    if not isinstance(armed, bool):
        raise RequestError(USAGE, "armed: true or false")
    if override is not None and not (isinstance(override, str) and override.strip()):
        raise RequestError(USAGE, "override: the reason, as text: it is logged")
    if armed and STAGES[plan["from"]].service:
        raise RequestError(USAGE, "%s is a service: it never ends verified, so nothing can wait for that" % plan["from"])
    if armed and not plan["from_attempt"]:
        raise RequestError(USAGE, "no attempt of %s to wait for" % plan["from"], "launch it first")
    if order.get("phrase") != wanted:
        raise RequestError(USAGE, "the phrase is not the one to type, which is: %s" % wanted, "nothing was done")
    for name, value in times.items() if isinstance(times, dict) else [("times", None)]:
        seconds = number(value)
        if name not in TIMES or seconds is None or not 0 <= seconds <= _MOST_S:
            raise RequestError(USAGE, "times: %s; seconds from 0 to %.0f" % (", ".join(TIMES), _MOST_S))
    reason = " ".join(override.split())[:500] if override else None
    return {"plan": plan, "phrase": wanted, "armed": armed, "override": reason, "times": times}


def free_what(plan: Plan) -> Dict[str, Any]:
    """The same GPUs, as ``free.plan`` is asked for them."""
    return free_order.asked({name: plan[name] for name in ("label", "run", *GPU_FIELDS)})


def _service(manager: Optional[Dict[str, Any]], run: str) -> Optional[Dict[str, Any]]:
    """What of a service must be as it was confirmed."""
    if not manager:
        return None
    moves = ("pids", "attempt") if is_own_server(manager, run) else ("pids",)
    return {name: manager[name] for name in sorted(manager) if name not in moves}


def _stage(stage: Any, what: str) -> str:
    if not isinstance(stage, str) or stage not in STAGES:
        raise RequestError(USAGE, "%s: no stage %r; the stages are %s" % (what, stage, ", ".join(STAGES)))
    if not STAGES[stage].built:
        raise RequestError(USAGE, "stage %s is catalogued, but this version cannot run it yet" % stage)
    return stage


def _launched(one: Any, last: bool) -> Dict[str, Any]:
    if not isinstance(one, dict):
        raise RequestError(USAGE, "stages: each is {stage, interpreter, args, env}")
    stage = _stage(one.get("stage"), "stages")
    if not last and (STAGES[stage].service or transition.needs_gpus(stage)):
        raise RequestError(USAGE, "%s needs the GPUs for itself: only the last stage of a transition may" % stage)
    args, env = one.get("args") or [], one.get("env") or {}
    check_arguments(args, env)
    return {"stage": stage, "interpreter": find_interpreter(one.get("interpreter")), "args": args, "env": env}
