"""The plan of freeing GPUs in words: the GPUs in a line, what could not be looked at, and the steps for what is selected."""

from collections.abc import Collection

from console.core import fmt, free_memory, free_plan, reading, unheld
from console.core.free_plan import Key, Plan, Row
from console.core.transition_plan import TransitionPlan
from pipeline.contract import free


def summary(plan: Plan, accepted: dict[str, int] | None = None) -> str:
    """The GPUs in a line: ``GPU 0 81,024 MiB; 1,2 0 MiB``."""
    groups: dict[str, list[int]] = {}
    for index, uuid, used in plan.judged:
        groups.setdefault(free_memory.held(used, (accepted or {}).get(uuid)), []).append(index)
    told = "; ".join(f"GPU {free_memory.spans(indices)} {words}" for words, indices in groups.items()) or "no GPU was told"
    left = len(plan.memory) - len(plan.judged)
    return f"{told}; only these were asked for, {left} others are left out" if left else told


def blind_spots(plan: Plan) -> list[str]:
    """What the survey could not look at; a line each."""
    if plan.notes or not plan.unreadable or plan.simulated:  # who holds a simulated GPU is in its state file, not in /proc
        return [one for one in plan.notes if one]
    return [f"processes that could not be read: {plan.unreadable}"]


def nobody(plan: Plan) -> str:
    """For a plan without rows: what that means where the GPUs hold memory all the same."""
    if not _holds(plan):
        return "nobody holds a GPU, as far as was looked"
    why = "the kernel or the driver keeps it, or somebody who is not visible here: nothing can be ended from here"
    return f"no process was found that holds a GPU, and there is memory on them: {why}; confirmed, it waits, and tells what is left"


def cures(plan: Plan) -> list[str]:
    """Where the GPUs hold memory with nobody on them: what can be done."""
    held = [(index, uuid) for index, uuid, used in plan.judged if used is not None and used > free.IDLE_CAP_BYTES]
    return [] if plan.rows or not held else [unheld.WAIT, *unheld.cures(held, plan.simulated)]


def _holds(plan: Plan) -> bool:
    return any(used is None or free.mib(int(used)) > 0 for _, _, used in plan.judged)


def cures_of(made: TransitionPlan) -> list[str]:
    """The same for a transition that would stop there."""
    found = reading.mapping(made.source, "free")
    plan = free_plan.parse({**found, "label": made.source.get("label")}) if found and made.trouble else None
    return cures(plan) if plan is not None else []


def steps(plan: Plan, selection: Collection[Key]) -> list[tuple[str, str]]:
    """The steps in their order: name, and what it does for this selection."""
    rows = plan.selected(selection)
    services = sorted({one.manager for one in rows if one.manager})
    told = [("SURVEY", "looks again; does nothing if it differs from this plan")]
    told += [("STOP_SERVICE", f"stops {one}, up to {free.SERVICE_S:.0f} s; looks again") for one in services]
    if rows:
        signalled = [one for one in rows if not one.manager]
        also = " and what its service leaves" if services else ""
        many = f"{len(signalled)} process{'es' if len(signalled) != 1 else ''}" if signalled or not services else "what the services leave"
        told += [
            ("TERM", f"one SIGTERM each to {many}{also if signalled else ''}; {free.GRACE_S:.0f} s grace"),
            ("KILL", f"looks again; SIGKILL to those that stay, {free.KILL_S:.0f} s; never to new ones"),
        ]
    if rows or (not plan.rows and _holds(plan)):
        told.append(("WAIT_RELEASE", f"while memory falls; at most {free.RELEASE_S:.0f} s without progress"))
    count = len(plan.judged)
    return [*told, ("VERIFY", f"5 readings, 1 s apart: free is 0 MiB on all {count}, nobody on them")]


def mib_words(row: Row) -> str:
    return fmt.count(row.mib) if row.mib is not None else ("?" if row.uses_memory else "-")
