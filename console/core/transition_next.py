"""Which transition is next: from the stage that was done last, or still runs, to the one that needs the GPUs. Pure."""

from typing import Any, NamedTuple

from console.core import chain, gates, service
from console.core.action import Action
from console.core.attempt import Attempt
from console.core.views import HostView
from pipeline.contract import transition
from pipeline.contract.stages import STAGES

GOAL = chain.DATA_STAGES[-1]
BEFORE = "generate"
"""Where the way to the goal begins: nothing before it needs its GPUs."""


class Next(NamedTuple):
    """From ``before`` through all but the last of ``stages`` to the last one."""

    before: str
    stages: tuple[str, ...]
    runs: bool
    """The stage before still runs: it can be armed."""

    @property
    def goal(self) -> str:
        return self.stages[-1]

    @property
    def words(self) -> str:
        return f"{self.before} -> {' -> '.join(self.stages)}"


def after(before: str) -> tuple[str, ...]:
    """The stages after one, as far as the next that needs the GPUs for itself; () when there is none."""
    if before not in chain.DATA_STAGES:
        return ()
    found: list[str] = []
    for name in chain.DATA_STAGES[chain.DATA_STAGES.index(before) + 1 :]:
        found.append(name)
        if transition.needs_gpus(name):
            return tuple(found)
    return ()


def of(view: HostView | None, resolved: dict[str, Any], before: str | None = None) -> Next | str:
    """The next transition, or why there is none. ``before``: from this stage, as a person asks for it."""
    if view is None or view.stages is None:
        return "the host has not told how the stages stand"
    if before is None and not gates.reads_prepared(resolved):
        return f"{GOAL} reads data from elsewhere, so nothing leads to it here: start it by itself"
    if before is None:
        before = BEFORE if _stands(view.stages.get(BEFORE)) else gates.SERVER
    stages = after(before)
    if not stages:
        return f"nothing that needs the GPUs follows {before}{_unbuilt(before)}"
    goal = view.stages.get(stages[-1])
    if goal is not None and goal.live:
        return f"{goal.stage} runs already"
    if goal is not None and goal.fresh and all(_fresh(view.stages.get(one)) for one in stages[:-1]):
        return f"{', '.join(stages)} done: nothing is next{_unbuilt(goal.stage)}"
    one = view.stages.get(before)
    if not _stands(one):
        state = f"is {one.state}" if one is not None else "has not run in this run"
        if one is not None and one.done and one.outdated:
            state = f"is OUTDATED: {one.outdated}"
        return f"{before} {state}: there is nothing to go on from"
    assert one is not None
    return Next(before, stages, one.live and not STAGES[before].service)


def _unbuilt(before: str) -> str:
    """What comes after a stage, where this version cannot do it."""
    names = list(STAGES)
    after_it = names[names.index(before) + 1 :]
    return f"; {after_it[0]} is not in this version of eaglewatch" if after_it and not STAGES[after_it[0]].built else ""


def proposed(view: HostView | None, resolved: dict[str, Any]) -> Next | None:
    """The next one where it is more than a start: a server is to be stopped, a stage is waited for, or the last one is resumed."""
    found = of(view, resolved)
    if isinstance(found, str) or view is None or found.before == gates.SERVER:
        return None
    own = gates.own_server(view)
    last = view.actions.get(transition.ACTION)
    way = found.runs or (own is not None and own.live) or gates.held_by_server(view) is not None
    return found if way or (last is not None and unfinished(last, view)) else None


def live(view: HostView | None, run: str | None) -> Action | None:
    """The transition of this run that runs or is armed."""
    one = view.actions.get(transition.ACTION) if view else None
    return one if one is not None and one.live_now and one.run == run else None


def unfinished(last: Action, view: HostView) -> bool:
    """Whether it stopped before its end, and nothing of its goal came after: the next one resumes there."""
    if last.live_now or last.attempt.done or view.run is None or last.run != view.run.name:
        return False
    goal = (view.stages or {}).get(str(last.told.get("goal", GOAL)))
    ended_s, began_s = last.attempt.ended_boot_s, goal.started_boot_s if goal else None
    return began_s is None or ended_s is None or began_s < ended_s


def _stands(one: Attempt | None) -> bool:
    """Whether one can go on from there: it runs, or is verified."""
    if one is None:
        return False
    return service.is_up(one) if STAGES[one.stage].service else one.live or one.fresh


def _fresh(one: Attempt | None) -> bool:
    return one is not None and one.fresh
