"""What is proven of one GPU, and of all, from readings and looks at the processes. Pure: the same evidence gives the same verdict.

Only 0 MiB in every reading, with nobody on the GPU, is FREE. What is missing never improves a verdict.
"""

import os
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set

from pipeline.contract import free
from pipeline.host import procs
from pipeline.host.expected_gpus import is_uuid
from pipeline.host.holders import Holders

Gpu = Dict[str, Any]
_STABLE_BYTES = free.MIB
_NAMED = 4
_TITLE_CHARS = 60


def judge_gpu(
    uuid: str,
    index: Any,
    readings: Sequence[Gpu],
    looks: Sequence[Holders],
    new: Iterable[List[Any]] = (),
    baseline: Optional[Dict[str, Any]] = None,
    trouble: str = "",
    killed: Iterable[List[Any]] = (),
) -> Dict[str, Any]:
    """{uuid, index, verdict, kind, detail, used_bytes (one a reading), holders ([pid, start_ticks]), looks_on, complete, finding}.

    ``readings`` are this GPU's rows, five of them unless something failed, which then is in ``trouble``; ``new`` names holders that came
    after the plan was confirmed, ``killed`` those that got SIGKILL. ``baseline`` is what this GPU held when it was provably idle.
    """
    used = [row.get("used_bytes") for row in readings]
    base: Dict[str, Any] = {"uuid": uuid, "index": index, "used_bytes": used, "holders": [], "looks_on": [], "finding": ""}
    incomplete = "; ".join(sorted({look.why_incomplete() for look in looks} - {""})) if looks else "the processes were not looked at"
    failed = "; ".join(look.failed for look in looks if look.failed) if looks else incomplete
    base["complete"] = not incomplete
    rows = _merged([look.on(uuid) for look in looks])
    others = [row for row in rows if not row["daemon"]]
    # A client that shows no GPU's own device file may be on any GPU: it counts where memory is used.
    in_use = any(isinstance(one, int) and one >= free.MIB for one in used)
    on = [row for row in others if row["uses_memory"] and (in_use or any(one["uuid"] == uuid for one in row["gpus"]))]
    base["looks_on"] = [free.key(row) for row in others if row not in on]
    suspects = others if in_use and not on else []
    base["holders"] = [free.key(row) for row in on or suspects]

    def verdict(kind: str, detail: str) -> Dict[str, Any]:
        word = free.FREE if kind == free.ZERO else free.CANNOT_TELL if kind == free.UNKNOWN else free.NOT_FREE
        return dict(base, verdict=word, kind=kind, detail=detail)

    numbers = [one for one in used if isinstance(one, int) and not isinstance(one, bool)]
    if not on or not numbers:
        why = (
            trouble
            or _unreadable(readings, numbers)
            or ("" if is_uuid(uuid) else "it does not tell its UUID (%s)" % (uuid or "never read"))
        )
        if why:
            return verdict(free.UNKNOWN, why)
    last = numbers[-1]
    if on:
        dying = [list(one) for one in killed]
        stuck = [row for row in on if row["state"] == "D" or free.key(row) in dying]
        text = held_by(on, [list(one) for one in new])
        if stuck and len(stuck) == len(on):
            states = ", ".join(sorted({str(row["state"]) for row in stuck}))
            return verdict(free.STUCK, "%d MiB; %s stuck in state %s: no signal ends it" % (free.mib(last), _pids(stuck), states))
        return verdict(free.HELD, "%d MiB; %s" % (free.mib(last), text))
    passing = sorted(_listed(readings) - {row["pid"] for row in rows})
    if passing:
        return verdict(free.UNKNOWN, "the driver named process %s while it was read, which no look at the processes saw" % passing[0])
    if suspects:
        return verdict(free.HELD, "%d MiB; nobody has it open here but %s" % (free.mib(last), _named(suspects)))
    if all(one < free.MIB for one in numbers):
        if failed:
            return verdict(free.UNKNOWN, failed)
        return verdict(free.ZERO, "0 MiB" + _beside(base["looks_on"]))
    lowest, highest = min(numbers), max(numbers)
    if numbers[-1] < numbers[0] - _STABLE_BYTES:
        return verdict(free.RELEASING, "releasing: %d to %d MiB while it was read" % (free.mib(numbers[0]), free.mib(last)))
    if highest > free.IDLE_CAP_BYTES or failed or highest - lowest >= _STABLE_BYTES:
        looked = "every process here was looked at: the kernel or the driver keeps it"
        if looks and looks[-1].simulated:
            looked = "the state of these simulated GPUs names nobody"
        return verdict(free.UNSEEN, "%d MiB that no process seen here holds (%s)" % (free.mib(highest), incomplete or looked))
    before = (baseline or {}).get("bytes")
    if isinstance(before, int) and highest > before + _STABLE_BYTES:
        base["finding"] = "its idle baseline was %d MiB before: something leaks" % free.mib(before)
    # Too little for any context of CUDA, and the driver names nobody: idle, but only as surely as everybody could be looked at.
    surely = "; " + incomplete if incomplete else ""
    return verdict(free.BASELINE, "idle baseline %d MiB, no holder found%s" % (free.mib(highest), surely))


def overall(gpus: Sequence[Dict[str, Any]], expected: int) -> Dict[str, Any]:
    """{verdict, exit_code, line} of all: what is known not to be free comes first, then what cannot be told."""
    words = [gpu["verdict"] for gpu in gpus]
    kinds = [gpu["kind"] for gpu in gpus]
    if any(kind in (free.HELD, free.UNSEEN, free.STUCK, free.RELEASING) for kind in kinds):
        code, word = free.EXIT_HELD, free.NOT_FREE
    elif free.CANNOT_TELL in words or len(gpus) != expected or not gpus:
        code, word = free.EXIT_CANNOT_TELL, free.CANNOT_TELL
    elif free.BASELINE in kinds:
        code, word = free.EXIT_BASELINE, free.NOT_FREE
    else:
        code, word = free.EXIT_FREE, free.FREE
    return {"verdict": word, "exit_code": code, "line": _line(word, code, gpus, expected)}


def held_by(rows: Sequence[Dict[str, Any]], new: List[List[Any]]) -> str:
    """One line: which processes, and which of them came after the confirmation."""
    fresh = [row for row in rows if free.key(row) in new]
    if fresh and len(fresh) == len(rows):
        return "held by new processes: " + _named(fresh)
    return "held by " + _named(rows) + (" (new: %s)" % _pids(fresh) if fresh else "")


def _named(rows: Sequence[Dict[str, Any]]) -> str:
    told = ["%s %s" % (row["pid"], _called(row.get("title") or "(%s)" % row["why_not"]) + _of_run(row)) for row in rows[:_NAMED]]
    return ", ".join(told) + (" and %d more" % (len(rows) - _NAMED) if len(rows) > _NAMED else "")


def _of_run(row: Dict[str, Any]) -> str:
    """Of which run it is, since its command line may be cut before it says so."""
    ours = row.get("ours")
    return " (run %s)" % ours["run"] if isinstance(ours, dict) and ours.get("run") and str(row.get("relation")).startswith("ours") else ""


def _called(title: str) -> str:
    """A command line, without the path of its program, and marked where it is cut."""
    program, _, rest = title.partition(" ")
    words = (os.path.basename(program) + " " + rest).rstrip() if program.startswith("/") else title
    return words if len(words) <= _TITLE_CHARS else words[: _TITLE_CHARS - 3] + "..."


def _pids(rows: Sequence[Dict[str, Any]]) -> str:
    return ", ".join(str(row["pid"]) for row in rows)


def _merged(looks: List[List[Dict[str, Any]]]) -> List[Dict[str, Any]]:
    """The newest row of each process that has not ended since; one that only the driver names counts as of the last look."""
    newest = {(row["pid"], row["start_ticks"]): row for rows in looks for row in rows if row["start_ticks"] is not None}
    unresolved = [row for row in (looks[-1] if looks else []) if row["start_ticks"] is None]
    return [row for row in newest.values() if procs.alive(row)] + unresolved


def _listed(readings: Sequence[Gpu]) -> Set[int]:
    return {one["pid"] for row in readings if isinstance(row.get("procs"), list) for one in row["procs"]}


def _unreadable(readings: Sequence[Gpu], numbers: List[int]) -> str:
    for row in readings:
        if row.get("error"):
            return str(row["error"])
        if not isinstance(row.get("procs"), list):
            return "its process list cannot be read (%s)" % (row.get("procs") or "never read")
        used = row.get("used_bytes")
        if not isinstance(used, int) or isinstance(used, bool):
            return "its memory cannot be read (%s)" % (used or "never read")
        if not row.get("reserve_apart") and used >= free.MIB:
            return "this driver counts its own reserve as used memory: %d MiB can be nobody's" % free.mib(used)
    return "" if len(numbers) >= free.READINGS else "only %d of %d readings" % (len(numbers), free.READINGS)


def _beside(looks_on: List[List[Any]]) -> str:
    return "; process %s has it open without memory" % ", ".join(str(one[0]) for one in looks_on) if looks_on else ""


def _line(word: str, code: int, gpus: Sequence[Dict[str, Any]], expected: int) -> str:
    if code == free.EXIT_FREE:
        return "%s: 0 MiB on %d/%d" % (word, len(gpus), expected)
    groups: Dict[str, List[Any]] = {}
    alike = all(gpu["verdict"] == word for gpu in gpus) and code != free.EXIT_BASELINE  # said once, of all
    for gpu in gpus:
        verdict = "" if alike else " " + gpu["verdict"]
        groups.setdefault("%s: %s" % (verdict, gpu["detail"]), []).append(gpu["index"])
    parts = ["GPU %s%s" % (_indices(indices), text) for text, indices in groups.items()]
    if len(gpus) != expected:
        parts.insert(0, "%d of %d GPUs were read" % (len(gpus), expected))
    if code == free.EXIT_BASELINE:
        parts.insert(0, "no holders; not 0 MiB")
    return "%s: %s" % (word, "; ".join(parts))


def _indices(indices: List[Any]) -> str:
    """A GPU that was never read has no index."""
    known = [one for one in indices if isinstance(one, int)]
    return ",".join([*filter(None, [free.spans(known)]), *(str(one) for one in indices if one not in known)])
