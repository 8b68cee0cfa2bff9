"""A host's runs as it lists them, and the one that is meant where none is named. Shape: the reply of the wire's ``runs``."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from console.core import reading
from console.core.attempt import name
from console.core.gates import ALL_GPUS
from pipeline.contract import telemetry
from pipeline.contract.stages import STAGES


class Way(NamedTuple):
    """The newest transition of a run."""

    live: bool
    by: str
    ended_boot_s: float | None


class Listed(NamedTuple):
    """One run, safe to print. Both by stage, in the order of the pipeline."""

    name: str
    states: dict[str, str]
    outdated: dict[str, str]
    """Why what was made is not of the present inputs; empty when it is, or nothing is told."""
    way: "Way | None" = None

    def is_live(self, stage: str | None = None) -> bool:
        """Whether something of it runs, or this stage."""
        return any(state in telemetry.LIVE_STATES and stage in (None, one) for one, state in self.states.items())


def parse(reply: dict[str, Any]) -> list[Listed]:
    """Those whose name may go into a request."""
    found = []
    for one in reading.sequence(reply, "runs") or []:
        if run := name(one, "name"):
            stages = reading.mapping(one, "stages") or {}
            known = {stage: reading.mapping(stages, stage) for stage in STAGES if stage in stages}
            states = {stage: reading.text(told, "state") for stage, told in known.items()}
            outdated = {stage: reading.text(told, "outdated") for stage, told in known.items()}
            found.append(Listed(run, states, outdated, _way(reading.mapping(one, "transition"))))
    return found


def _way(told: dict[str, Any] | None) -> Way | None:
    if told is None:
        return None
    return Way(reading.text(told, "state") in telemetry.LIVE_STATES, reading.text(told, "by"), reading.number(told, "ended_boot_s"))


def gpu_holder(runs: Sequence[Listed], run: str) -> tuple[str, str] | None:
    """Another run and the live stage of it that has all the GPUs; None when there is none."""
    live = ((one.name, stage) for one in runs if one.name != run for stage in one.states if one.is_live(stage))
    return next(((name, stage) for name, stage in live if STAGES[stage].gpus == ALL_GPUS), None)


def with_news(runs: Sequence[Listed], is_news: Callable[[str, Way], bool]) -> str:
    """The run whose transition runs or is armed, else the one where one ended last that is news; empty where there is no such run."""
    live = [one.name for one in runs if one.way is not None and one.way.live]
    if live:
        return live[0] if len(live) == 1 else ""
    ways = [(one.name, one.way) for one in runs if one.way is not None and is_news(one.name, one.way)]
    return max(((way.ended_boot_s, name) for name, way in ways if way.ended_boot_s is not None), default=(0.0, ""))[1]


def only(runs: Sequence[Listed], stage: str | None = None) -> Listed | None:
    """The only one in which something is live (of this stage), else the only one; None where that is not one run."""
    candidates = [one for one in runs if one.is_live(stage)] or runs
    return candidates[0] if len(candidates) == 1 else None
