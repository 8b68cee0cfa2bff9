"""The plan of freeing GPUs in words: the GPUs in a line, what could not be looked at, and the steps for what is selected."""

from collections.abc import Collection

from console.core import fmt, free_memory
from console.core.free_plan import Key, Plan, Row
from pipeline.contract import free


def summary(plan: Plan, accepted: dict[str, int] | None = None) -> str:
    """The GPUs in a line: ``GPU 0 81,024 MiB; 1,2 0 MiB``."""
    groups: dict[str, list[int]] = {}
    for index, uuid, used in plan.memory:
        groups.setdefault(free_memory.held(used, (accepted or {}).get(uuid)), []).append(index)
    return "; ".join(f"GPU {free_memory.spans(indices)} {words}" for words, indices in groups.items()) or "no GPU was told"


def blind_spots(plan: Plan) -> list[str]:
    """What the survey could not look at; a line each."""
    if plan.notes or not plan.unreadable:
        return [one for one in plan.notes if one]
    return [f"processes that could not be read: {plan.unreadable}"]


def steps(plan: Plan, selection: Collection[Key]) -> list[tuple[str, str]]:
    """The steps in their order: name, and what it does for this selection."""
    rows = plan.selected(selection)
    services = sorted({one.manager for one in rows if one.manager})
    told = [("SURVEY", "looks again; does nothing if it differs from this plan")]
    told += [("STOP", f"stops {one}, up to {free.SERVICE_S:.0f} s; looks again") for one in services]
    if rows:
        signalled = [one for one in rows if not one.manager]
        also = " and what its service leaves" if services else ""
        many = f"{len(signalled)} process{'es' if len(signalled) != 1 else ''}" if signalled or not services else "what the services leave"
        told += [
            ("TERM", f"one SIGTERM each to {many}{also if signalled else ''}; {free.GRACE_S:.0f} s grace"),
            ("KILL", f"looks again; SIGKILL to those that stay, {free.KILL_S:.0f} s; never to new ones"),
            ("WAIT", f"while memory falls; at most {free.RELEASE_S:.0f} s without progress"),
        ]
    count = len(plan.memory)
    return [*told, ("VERIFY", f"5 readings, 1 s apart: free is 0 MiB on all {count}, nobody on them")]


def mib_words(row: Row) -> str:
    return fmt.count(row.mib) if row.mib is not None else ("?" if row.uses_memory else "-")
