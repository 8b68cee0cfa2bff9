"""The plan: who holds the GPUs, what could be ended and how, as one object with a digest; and what differs from it later.

A plan is only a proposal. What is confirmed is a selection of its rows; the action surveys again and does nothing if that differs.
"""

import os
from typing import Any, Dict, List, Optional

from pipeline.contract import free
from pipeline.contract.clock import boot_s
from pipeline.host import procs
from pipeline.host.free_order import Plan, canonical, digest, essence, expected
from pipeline.host.holder_rows import mib_of
from pipeline.host.holders import Holders, process_lists


def make(what: Dict[str, Any], reading: Optional[Dict[str, Any]], why_no_reading: str, holders: Holders) -> Plan:
    """The plan of one survey. Shape: docs/wire.md, ``free.plan``."""
    gpus = reading["gpus"] if reading is not None else []
    trouble = why_no_reading if reading is None else expected(what).trouble(reading)
    rows = _whole([_within(row, what["wanted"], holders.rows) for row in holders.rows])
    rows.sort(key=lambda row: (not row["killable"], row["pid"]))
    notes = process_lists(reading) if reading is not None else []
    if not holders.complete:
        notes.append(holders.why_incomplete())
    plan: Plan = dict(what, host=os.uname().nodename, boot_id=procs.this_boot(), surveyed_boot_s=round(boot_s(), 3), rows=rows, notes=notes)
    plan.update(
        gpus_ok=not trouble,
        trouble=trouble,
        driver=(reading or {}).get("driver"),
        simulated=(reading or {}).get("simulated"),
        gpus=[_gpu(one) for one in gpus],
        services=services_of(rows),
        unreadable={"count": holders.unreadable, "some": holders.some_unreadable},
        complete=holders.complete,
        failed=holders.failed,
        scan_s=holders.seconds,
        phrase=free.phrase(what["label"], free.select(rows, free.chosen(rows))),
        phrase_all=free.phrase(what["label"], free.select(rows, free.killable(rows))),
    )
    plan["digest"] = digest(plan)
    return plan


def services_of(rows: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """[{how, name, ..., pids}]: what would be stopped for these rows, each once."""
    found: Dict[str, Dict[str, Any]] = {}
    for row in rows:
        if row["killable"] and row["manager"] is not None:
            one = found.setdefault(canonical(row["manager"]), dict(row["manager"], pids=[]))
            one["pids"].append(row["pid"])
    return [found[name] for name in sorted(found)]


def difference(before: Plan, selection: List[List[Any]], now: Plan) -> List[str]:
    """A line for each way in which what would be done now is not what was confirmed; [] when nothing differs."""
    told = []
    if now["boot_id"] != before["boot_id"]:
        return ["the host was restarted since"]
    if now["trouble"]:
        told.append(now["trouble"])
    if [[one["index"], one["uuid"]] for one in now["gpus"]] != [[one["index"], one["uuid"]] for one in before["gpus"]]:
        told.append("the GPUs are not those of the plan")
    rows = {canonical(free.key(row)): row for row in now["rows"]}
    known = {canonical(free.key(row)) for row in before["rows"]}
    selected = free.select(before["rows"], selection)
    for row in selected:
        there = rows.get(canonical(free.key(row)))
        if there is None:
            told.append("process %s is gone (%s)" % (row["pid"], _title(row)))
        elif essence(there) != essence(row):
            fields = [name for name, value in essence(row).items() if essence(there)[name] != value]
            told.append("process %s changed: %s" % (row["pid"], ", ".join(fields)))
    for key, row in rows.items():
        ends_too = row["killable"] and _is_kept_with(row, selected)
        if key not in known and (ends_too or (row["uses_memory"] and not row["daemon"] and _concerns(row, now["wanted"]))):
            told.append("process %s is new (%s)" % (row["pid"], _title(row)))
    return told


def _concerns(row: Dict[str, Any], wanted: List[str]) -> bool:
    return not wanted or row["any_gpu"] or any(one["uuid"] in wanted for one in row["gpus"])


def _is_kept_with(row: Dict[str, Any], rows: List[Dict[str, Any]]) -> bool:
    """Whether it ends with one of the others, since stopping a service ends every process of it."""
    return row["manager"] is not None and any(row["manager"] == one["manager"] for one in rows)


def _within(row: Dict[str, Any], wanted: List[str], rows: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Only what is on the wanted GPUs is ended, and what ends with it, wherever that is."""
    concerned = _concerns(row, wanted) or _is_kept_with(row, [one for one in rows if one["killable"] and _concerns(one, wanted)])
    if concerned or not row["killable"]:
        return row
    return dict(row, killable=False, chosen=False, manager=None, why_not="it holds none of the GPUs that are asked for")


def _whole(rows: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """A service is proposed only when all of it is: nobody else's process ends with what is proposed."""
    foreign = [row for row in rows if row["killable"] and not row["chosen"]]
    return [dict(row, chosen=False) if row["chosen"] and _is_kept_with(row, foreign) else row for row in rows]


def _gpu(row: Dict[str, Any]) -> Dict[str, Any]:
    kept = {name: row.get(name) for name in ("index", "uuid", "name", "used_bytes", "total_bytes", "error")}
    return dict(kept, mib=mib_of(row.get("used_bytes")), listed=isinstance(row.get("procs"), list))


def _title(row: Dict[str, Any]) -> str:
    return str(row.get("title") or row["why_not"])[:80]
