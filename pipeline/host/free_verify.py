"""Five consecutive full readings a second apart, a look at all processes before and after, and the verdict: also for gating a stage."""

import time
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional

from pipeline.contract import free
from pipeline.contract.clock import boot_s
from pipeline.host import baseline
from pipeline.host.expected_gpus import Expected
from pipeline.host.free_verdict import judge_gpu, overall
from pipeline.host.holders import Holders
from pipeline.host.nvml_session import FULL, Session

_TRIES = 15
_RESETS = 2
"""A GPU that fails more often than that is told as it is, and the others are judged."""
_STALE_S = 3.0
"""A reading that came so late is not one of a row of readings a second apart."""

Look = Callable[[Optional[Dict[str, Any]]], Holders]


class Verified(NamedTuple):
    """{verdict, exit_code, line} in ``result``; one entry a GPU in ``gpus`` (``free_verdict.judge_gpu``)."""

    result: Dict[str, Any]
    gpus: List[Dict[str, Any]]
    readings: List[Dict[str, Any]]
    looks: List[Holders]
    trouble: str
    driver: Optional[str]


def verify_free(
    nvml: Session,
    expected: Expected,
    look: Look,
    interval_s: float = 1.0,
    recorded: Optional[Dict[str, Any]] = None,
    new: Callable[[], List[List[Any]]] = list,
    killed: Iterable[List[Any]] = (),
    cancelled: Callable[[], bool] = lambda: False,
    told: Callable[[int], None] = lambda number: None,
    others_end_it: bool = False,
) -> Verified:
    """Read and judge; about five seconds, bounded whatever the driver does.

    ``recorded`` is ``baseline.load``'s; ``new`` tells, at the end, which holders came since the plan. An error, a missing GPU
    or a late reading starts the row anew; ``told`` gets its length. ``others_end_it``: other GPUs than the expected in the very first
    reading are told at once, since nothing before says that the right ones were there. Raises forked.CancelledError from ``look``.
    """
    looks: List[Holders] = []
    row: List[Dict[str, Any]] = []
    trouble, last, again = "", None, _RESETS
    due, ended_s = time.monotonic(), 0.0
    for _ in range(_TRIES):
        while time.monotonic() < due and not cancelled():
            time.sleep(max(0.0, min(0.1, due - time.monotonic())))
        if cancelled():
            trouble = "cancelled after %d readings" % len(row)
            break
        asked_s = boot_s()
        reading, why = nvml.read(FULL, cancelled)
        due = time.monotonic() + interval_s
        if reading is None:
            trouble, row = why, []
            if why.startswith("NVML hangs"):  # another question would only wait in the same queue
                break
            continue
        first, last = last is None, reading
        if not looks:
            looks.append(look(reading))
        took_s = boot_s() - asked_s
        others = expected.trouble(reading, strict=False)
        trouble = others or ("a reading came after %.0f s" % took_s if took_s > _STALE_S else "")
        failed = any(gpu.get("error") for gpu in expected.judged(reading))
        apart_s = asked_s - ended_s if row else 0.0
        ended_s = boot_s()
        late = apart_s > interval_s + _STALE_S  # it was frozen in between: a new row
        row = [] if trouble or (failed and again > 0) else [*([] if late else row), reading]
        again -= bool(failed)
        told(len(row))
        if others and first and others_end_it:
            break
        if len(row) == free.READINGS:
            looks.append(look(reading))
            break
    row = row if row or last is None else [last]
    return judge(expected, row, looks, trouble, new(), list(killed), recorded or {})


def judge(
    expected: Expected,
    row: List[Dict[str, Any]],
    looks: List[Holders],
    trouble: str,
    new: List[List[Any]],
    killed: List[List[Any]],
    recorded: Dict[str, Any],
) -> Verified:
    """The verdict on readings that are there: ``row`` and ``looks`` of any number, as far as they go."""
    first = row[0] if row else None
    seen = expected.judged(first) if first is not None else []
    gpus = []
    for gpu in seen:
        mine = [one for reading in row for one in reading["gpus"] if one.get("uuid") == gpu.get("uuid") and one["index"] == gpu["index"]]
        known = recorded.get(str(gpu.get("uuid")))
        gpus.append(judge_gpu(gpu.get("uuid") or "", gpu["index"], mine, looks, new, known, trouble, killed))
    count = len(expected.wanted) or expected.count or len(seen)
    result = overall(gpus, count)
    if trouble and result["exit_code"] in (free.EXIT_FREE, free.EXIT_BASELINE, free.EXIT_CANNOT_TELL):
        line = "%s: %s" % (free.CANNOT_TELL, trouble)
        result = {"verdict": free.CANNOT_TELL, "exit_code": free.EXIT_CANNOT_TELL, "line": line}
    return Verified(result, gpus, row, looks, trouble, first.get("driver") if first else None)


def free_for_stage(verified: Verified, accepted: Dict[str, int]) -> Dict[str, Any]:
    """{free, accepted, line, unprovable}: whether a stage may start, all of its GPUs being FREE or at an idle baseline that was accepted
    for its run.

    ``accepted`` is ``baseline.accepted``'s {uuid: bytes}. The line never calls an accepted baseline 0. ``unprovable``: why what idle GPUs
    hold cannot be recorded and accepted here; "" when it can, or there is nothing to accept.
    """
    answer = {"free": False, "accepted": False, "line": verified.result["line"], "unprovable": ""}
    if verified.result["exit_code"] == free.EXIT_FREE:
        return dict(answer, free=True)
    if verified.result["exit_code"] != free.EXIT_BASELINE:
        return answer
    open_ones = [gpu for gpu in verified.gpus if gpu["kind"] == free.BASELINE and not baseline.covers(gpu, accepted)]
    if not open_ones:
        return dict(answer, free=True, accepted=True, line=baseline.line(verified.gpus))
    indices = ",".join(str(gpu["index"]) for gpu in open_ones)
    why = _unprovable(verified, open_ones)
    told = "%s: GPU %s" % ("cannot be proven idle here, nor accepted" if why else "not accepted for this run", indices)
    known = verified.result["line"]
    return dict(answer, line="; ".join([known, told] + ([why] if why and why not in known else [])), unprovable=why)


def _unprovable(verified: Verified, gpus: List[Dict[str, Any]]) -> str:
    if all(baseline.provable(gpu) for gpu in gpus):
        return ""
    looks = sorted({look.why_incomplete() for look in verified.looks} - {""})
    opened = sorted({"process %s has it open" % one[0] for gpu in gpus for one in gpu["looks_on"]})
    return "; ".join([*looks, *opened]) or "not everything was looked at"
