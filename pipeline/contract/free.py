"""Freeing GPUs: the words, exit codes, units and the phrase that console and host share. Shapes: docs/wire.md, ``free.plan``."""

from typing import Any, Dict, Iterable, List, Sequence

ACTION = "free-gpus"

FREE, NOT_FREE, CANNOT_TELL = "FREE", "NOT FREE", "CANNOT TELL"

# Why, of one GPU; from best to worst.
ZERO = "zero"
BASELINE = "idle baseline"
"""A few MiB, stable, and nobody is found; provable only where everybody could be looked at."""
RELEASING = "releasing"
HELD = "held"
UNSEEN = "unseen"
"""Memory in use by something not visible from here."""
STUCK = "stuck"
"""Its process does not end: state D, in the kernel."""
UNKNOWN = "unknown"

EXIT_FREE, EXIT_FAILED, EXIT_USAGE, EXIT_CANNOT_TELL, EXIT_BASELINE, EXIT_HELD = 0, 1, 2, 3, 10, 11

# What became of the action.
DONE = "done"
"""It went through; the verdict says what came of it."""
PLAN_CHANGED = "plan changed"
REFUSED = "refused"
"""Not the expected GPUs, or another one is at work: nothing was done."""
CANCELLED = "cancelled"
BROKEN = "broken"

MIB = 1 << 20
IDLE_CAP_BYTES = 16 * MIB
"""More than that is no idle baseline: the smallest CUDA context is some hundreds of MiB, idle cards show 0 to 8."""
READINGS = 5

GRACE_S, SERVICE_S, RELEASE_S, KILL_S = 30.0, 45.0, 120.0, 10.0
"""How long it waits after SIGTERM, for a service to stop, without progress of memory that falls, and after SIGKILL."""

Row = Dict[str, Any]


def mib(used_bytes: int) -> int:
    """MiB to show: 0 below 1 MiB, as nvidia-smi prints it; else rounded up, so that nothing is rounded away."""
    return 0 if used_bytes < MIB else -(-used_bytes // MIB)


def spans(numbers: Iterable[int]) -> str:
    """``0-7``, ``0,2``, ``0-2,5``; empty without any."""
    found: List[List[int]] = []
    for one in sorted(set(numbers)):
        if found and one == found[-1][1] + 1:
            found[-1][1] = one
        else:
            found.append([one, one])
    return ",".join(str(first) if first == last else "%d-%d" % (first, last) for first, last in found)


def unheld(gpus: Sequence[Row]) -> str:
    """``82,604 MiB on GPU 0-7 that no process seen here holds``, of [{index, uuid, mib}]; empty without any."""
    groups: Dict[int, List[int]] = {}
    for one in gpus:
        groups.setdefault(one["mib"], []).append(one["index"])
    told = ", ".join(f"{size:,} MiB on GPU {spans(indices)}" for size, indices in groups.items())
    return told and told + " that no process seen here holds"


def key(row: Row) -> List[Any]:
    """[pid, start_ticks]: names a row in a selection; boot and pid namespace are the plan's."""
    return [row.get("pid"), row.get("start_ticks")]


def select(rows: Iterable[Row], selection: Iterable[List[Any]]) -> List[Row]:
    """The rows that a selection names."""
    wanted = [list(one) for one in selection]
    return [row for row in rows if key(row) in wanted]


def chosen(rows: Iterable[Row]) -> List[List[Any]]:
    """The selection that a plan proposes: this run's processes, and what ended attempts of ours left."""
    return [key(row) for row in rows if row.get("chosen")]


def killable(rows: Iterable[Row]) -> List[List[Any]]:
    """The largest selection that a plan allows."""
    return [key(row) for row in rows if row.get("killable")]


def phrase(label: str, rows: Iterable[Row]) -> str:
    """What the operator types for the selected ``rows``: ``free LABEL N``, then the name of each service and other user that it hits."""
    rows = list(rows)
    names = {row["manager"]["name"] for row in rows if row.get("manager")}
    names |= {str(row.get("user")) for row in rows if row.get("relation") == "other user"}
    return " ".join(["free", label, str(len(rows)), *sorted(names)])
