"""A host's runs as it lists them, and the one that is meant where none is named. Shape: the reply of the wire's ``runs``."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from console.core import reading
from console.core.attempt import name
from console.core.gates import ALL_GPUS
from pipeline.contract import telemetry
from pipeline.contract.stages import STAGES


class Listed(NamedTuple):
    """One run, safe to print. Both by stage, in the order of the pipeline."""

    name: str
    states: dict[str, str]
    outdated: dict[str, str]
    """Why what was made is not of the present inputs; empty when it is, or nothing is told."""

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
            found.append(Listed(run, states, {stage: reading.text(told, "outdated") for stage, told in known.items()}))
    return found


def gpu_holder(runs: Sequence[Listed], run: str) -> tuple[str, str] | None:
    """Another run and the live stage of it that has all the GPUs; None when there is none."""
    live = ((one.name, stage) for one in runs if one.name != run for stage in one.states if one.is_live(stage))
    return next(((name, stage) for name, stage in live if STAGES[stage].gpus == ALL_GPUS), None)


def only(runs: Sequence[Listed], stage: str | None = None) -> Listed | None:
    """The only one in which something is live (of this stage), else the only one; None where that is not one run."""
    candidates = [one for one in runs if one.is_live(stage)] or runs
    return candidates[0] if len(candidates) == 1 else None
