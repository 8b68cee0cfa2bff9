"""What a plan is asked for, what makes it that plan, and whether an order is a confirmed part of it: all without looking at anything."""

import hashlib
import json
import os
from typing import Any, Dict, List

from pipeline.contract import free, layout
from pipeline.contract.telemetry import number
from pipeline.host import manager_kinds
from pipeline.host.errors import USAGE, RequestError
from pipeline.host.expected_gpus import Expected, is_uuid

Plan = Dict[str, Any]
_MAX_GPUS = 64


def asked(request: Dict[str, Any]) -> Dict[str, Any]:
    """What a ``free.plan`` request asks for, checked: {label, run, expected_gpus, gpu_uuids, wanted}. Raises RequestError."""
    run, label = request.get("run"), request.get("label") or os.uname().nodename
    count, uuids, wanted = request.get("expected_gpus"), request.get("gpu_uuids") or [], request.get("wanted") or []
    if run == layout.HOST_RUN:
        run = None
    if run is not None:
        try:
            layout.check_name(run)
        except ValueError as error:
            raise RequestError(USAGE, str(error)) from None
    if not isinstance(label, str) or not 1 <= len(label) <= 100 or not label.isprintable() or " " in label:
        raise RequestError(USAGE, "label %r: a word of at most 100 characters, what the operator calls this host" % (label,))
    if type(count) is not int or not 1 <= count <= _MAX_GPUS:
        raise RequestError(USAGE, "expected_gpus %r: how many GPUs this host must have" % (count,), "see expected_gpus in hosts.toml")
    for name, value in (("gpu_uuids", uuids), ("wanted", wanted)):
        if not isinstance(value, list) or len(value) > _MAX_GPUS or not all(is_uuid(one) for one in value):
            raise RequestError(USAGE, "%s: a list of GPU UUIDs, as `nvidia-smi -L` prints them" % name)
    return {"label": label, "run": run, "expected_gpus": count, "gpu_uuids": sorted(uuids), "wanted": sorted(wanted)}


def expected(what: Dict[str, Any]) -> Expected:
    return Expected(what["expected_gpus"], what["gpu_uuids"], what["wanted"])


def digest(plan: Plan) -> str:
    """Over all that decides what is done; not over what moves by itself (memory, states)."""
    names = ("label", "run", "boot_id", "expected_gpus", "gpu_uuids", "wanted", "trouble")
    rows = sorted(canonical(essence(row)) for row in plan["rows"] if row["uses_memory"] or row["killable"])
    content = [[plan[name] for name in names], [[one["index"], one["uuid"]] for one in plan["gpus"]], rows]
    return hashlib.sha256(canonical(content).encode()).hexdigest()[:16]


def check_order(order: Any) -> Dict[str, Any]:
    """A confirmed order, checked as far as it can be without a survey: {plan, selection, phrase, times}. Raises RequestError."""
    if not isinstance(order, dict) or not isinstance(order.get("plan"), dict):
        raise RequestError(USAGE, "free-gpus takes `order`: {plan (as free.plan gave it), selection, phrase}")
    plan, selection, times = order["plan"], order.get("selection"), order.get("times") or {}
    try:
        what = asked(plan)
        intact = digest(plan) == plan.get("digest")
        rows = {canonical(free.key(row)): row for row in plan["rows"]}
        if not all(row["manager"] is None or manager_kinds.is_manager(row["manager"]) for row in plan["rows"]):
            raise KeyError("manager")
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        raise RequestError(USAGE, "the plan in the order is not whole", "send it as free.plan gave it") from None
    if not intact:
        raise RequestError(USAGE, "the plan in the order does not fit its digest %r" % (plan.get("digest"),), "plan again")
    if not isinstance(selection, list) or len({canonical(one) for one in selection}) != len(selection):
        raise RequestError(USAGE, "selection: a list of [pid, start_ticks], each once")
    for one in selection:
        row = rows.get(canonical(one))
        if row is None or not row["killable"]:
            why = "is not in the plan" if row is None else row["why_not"]
            raise RequestError(USAGE, "process %s cannot be selected: %s" % (one[0] if isinstance(one, list) and one else one, why))
    _check_whole(plan["rows"], free.select(plan["rows"], selection))
    wanted = free.phrase(what["label"], free.select(plan["rows"], selection))
    if order.get("phrase") != wanted:
        raise RequestError(USAGE, "the phrase is not the one to type, which is: %s" % wanted, "nothing was done")
    for name, value in times.items() if isinstance(times, dict) else [("times", None)]:
        seconds = number(value)
        if name not in ("grace_s", "service_s", "release_s") or seconds is None or not 0 <= seconds <= 3600:
            raise RequestError(USAGE, "times: grace_s, service_s, release_s; seconds from 0 to 3600")
    return {"plan": plan, "selection": selection, "phrase": wanted, "times": times}


def _check_whole(rows: List[Dict[str, Any]], selected: List[Dict[str, Any]]) -> None:
    """Raises RequestError when more would be ended than is selected: stopping a service ends every process of it."""
    chosen = {canonical(free.key(row)) for row in selected}
    stopped = {canonical(row["manager"]) for row in selected if row["manager"] is not None}
    for row in rows:
        if row["killable"] and canonical(row["manager"]) in stopped and canonical(free.key(row)) not in chosen:
            why = "process %s is not selected, and %s, which is to be stopped, keeps it too" % (row["pid"], row["manager"]["name"])
            raise RequestError(USAGE, why, "select all of a service or nothing of it; nothing was done")


def essence(row: Dict[str, Any]) -> Dict[str, Any]:
    """What of a row decides what is done."""
    names = ("pid", "start_ticks", "boot_id", "pid_ns", "uid", "exe", "relation", "manager", "killable")
    return dict({name: row[name] for name in names}, image=row.get("image"), gpus=sorted(str(one["uuid"]) for one in row["gpus"]))


def canonical(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)
