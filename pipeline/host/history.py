"""``DATA/history.jsonl``: what each attempt came to, a line when it ended, by its lookout. Appended, never rewritten.

The line of an attempt whose lookout was killed, or that was started by hand, is missing, and stays so.
"""

import errno
import json
import os
import stat
from typing import Any, Dict, List, Optional, Tuple

from pipeline.contract import events, layout, telemetry
from pipeline.contract.files import append_line, loads
from pipeline.contract.stages import JOBS
from pipeline.contract.telemetry import number
from pipeline.host import asked, history_steady
from pipeline.host.errors import USAGE, RequestError
from pipeline.host.since_words import span

_READ_BYTES = 1 << 19
"""The newest part of the file: some 900 attempts, which are 4 MiB of memory."""
MOST_LINES = 500
_PRIOR_LOADS = 20

_cache: Dict[str, Tuple[Tuple[int, int, int], List[Dict[str, Any]]]] = {}


def append(data_dir: str, line: Dict[str, Any]) -> bool:
    """Add an attempt's line, durably; False when it has one. Raises OSError."""
    if any(one.get("attempt") == line["attempt"] and one.get("stage") == line["stage"] for one in newest(data_dir)):
        return False
    append_line(os.path.join(data_dir, layout.HISTORY), json.dumps(line, separators=(",", ":"), sort_keys=True).encode(), durable=True)
    return True


def newest(data_dir: str) -> List[Dict[str, Any]]:
    """The newest lines, oldest first; read again only when the file has changed. [] without a file that can be read."""
    path = os.path.join(data_dir, layout.HISTORY)
    try:
        status = os.stat(path)
        key = (status.st_ino, status.st_size, status.st_mtime_ns)
        known = _cache.get(path)
        if known is None or known[0] != key:
            known = (key, _read(path))
            _cache.clear()
            _cache[path] = known
        return known[1]
    except OSError:
        return []


def ask(data_dir: str, request: Dict[str, Any]) -> Dict[str, Any]:
    """{"lines": [...]} of ``run`` (null: all) and ``stage`` (null: all), newest first, ``limit`` at most. Raises RequestError."""
    run, stage, limit = request.get("run"), request.get("stage"), request.get("limit", 50)
    if run is not None:
        asked.run_dir(data_dir, run)
    if stage is not None and (not isinstance(stage, str) or stage not in JOBS):
        raise RequestError(USAGE, "no stage %r" % (stage,))
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_LINES:
        raise RequestError(USAGE, "limit %r: a number from 1 to %d" % (limit, MOST_LINES))
    lines = [one for one in reversed(newest(data_dir)) if run in (None, one.get("run")) and stage in (None, one.get("stage"))]
    return {"lines": lines[:limit]}


def load_prior(data_dir: str, stage: str, model: Any) -> Optional[Dict[str, Any]]:
    """{median_s, count, tokens_per_s, gpu_mib} of the newest loads of this stage and model; None without any. See telemetry.ATTEMPT."""
    same = [one for one in newest(data_dir) if one.get("stage") == stage and model is not None and one.get("model") == model]
    loads = [one for one in same if (number(one.get("load_s")) or 0) > 0][-_PRIOR_LOADS:]
    if not loads:
        return None
    speed, memory = _speed(loads), _median(loads, "loaded_gpu_mib")
    return {"median_s": _median(loads, "load_s"), "count": len(loads), "tokens_per_s": speed, "gpu_mib": memory}


def evidence(data_dir: str, stage: str, model: Any) -> str:
    """Earlier attempts of this stage and model in a line for people; "" without any."""
    same = [one for one in newest(data_dir) if one.get("stage") == stage and model is not None and one.get("model") == model]
    if not same:
        return ""
    prior, speed = load_prior(data_dir, stage, model), _speed(same[-_PRIOR_LOADS:])
    parts = ["%d earlier here" % len(same)]
    parts += ["loaded in %s (median of %d)" % (span(prior["median_s"]), prior["count"])] if prior else []
    parts += ["%.3g tokens/s" % speed] if speed else []
    return "%s; the newest ended %s" % (", ".join(parts), str(same[-1].get("outcome"))[:40])


def line(view: Dict[str, Any], run: str, facts: Dict[str, Any]) -> Dict[str, Any]:
    """An ended attempt's line, of its view and what only its lookout knows: {model, model_fingerprint, events, gaps, alarms,
    retried, loaded_gpu_mib, stalled_s, stalled_steady_s}."""
    progress, receipt = view["progress"] or {}, view["receipt"] or {}
    steady_s, made = history_steady.steady(progress, receipt, facts["events"])
    stalled_s, worked_s = facts["stalled_s"], None
    if steady_s is not None and facts["stalled_steady_s"] is not None:
        worked_s = steady_s - facts["stalled_steady_s"]
    return {
        "run": run,
        "stage": view["stage"],
        "attempt": view["attempt"],
        "by": view["by"],
        "outcome": view["state"],
        "why": str(view["why"] or "")[:300],
        "model": facts["model"],
        "model_fingerprint": facts["model_fingerprint"],
        "began_wall_s": view["started_wall_s"],
        "took_s": _between(view["started_boot_s"], view["ended_boot_s"]),
        "load_s": _loading(facts["events"]),
        "loaded_gpu_mib": facts["loaded_gpu_mib"],
        "steady_s": steady_s,
        "stalled_s": None if stalled_s is None else round(stalled_s),
        "samples": history_steady.made(progress, "done"),
        "tokens": history_steady.made(progress, "tokens"),
        "bytes": history_steady.made(progress, "bytes"),
        "tokens_per_s_steady": history_steady.rate(made, steady_s),
        "tokens_per_s_working": history_steady.rate(made, worked_s),
        "bad": _first(receipt.get("bad"), progress.get("bad")),
        "failed": _first(receipt.get("failed")),
        "gaps": facts["gaps"],
        "alarms": facts["alarms"],
        "retried": facts["retried"],
    }


def _read(path: str) -> List[Dict[str, Any]]:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "no regular file", path)
        start = max(0, status.st_size - _READ_BYTES)
        file.seek(start)
        raw = file.read(_READ_BYTES).splitlines()[1 if start else 0 :]
    found = []
    for one in raw:
        try:
            value = loads(one.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue  # torn, or foreign
        if isinstance(value, dict):
            found.append(value)
    return found


def _loading(found: List[Dict[str, Any]]) -> Optional[float]:
    """Seconds of loading, of the phases that have ended."""
    loads = [number(one.get("seconds")) for one in found if one.get("kind") == events.PHASE and one.get("before") == telemetry.LOADING]
    known = [one for one in loads if one is not None]
    return round(sum(known), 3) if known else None


def _between(began: Any, ended: Any) -> Optional[float]:
    """Seconds between two times."""
    first, last = number(began), number(ended)
    return None if first is None or last is None or last < first else round(last - first, 3)


def _speed(lines: List[Dict[str, Any]]) -> Optional[float]:
    """Median tokens a second, standstills left out where they were watched."""
    return _median([{"rate": one.get("tokens_per_s_working") or one.get("tokens_per_s_steady")} for one in lines], "rate")


def _median(lines: List[Dict[str, Any]], name: str) -> Optional[float]:
    """Of what is told and above zero."""
    values = sorted(value for value in (number(one.get(name)) for one in lines) if value is not None and value > 0)
    if not values:
        return None
    middle = len(values) // 2
    return round(values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2, 3)


def _first(*values: Any) -> Optional[int]:
    known = [one for one in map(number, values) if one is not None]
    return int(known[0]) if known else None
