"""From one stage to the next, as steps with their checks: the words that console and host share. Shapes: docs/wire.md, "Transitions"."""

from typing import Any, Dict, List, Optional

from pipeline.contract.stages import STAGES

ACTION = "transition"

ARMED = "ARMED"
"""Waiting for the end of the stage before: no step yet."""
ARMED_PHASE = "armed"
"""``phase`` of its progress meanwhile."""
OUTPUT = "OUTPUT"
STAGE = "STAGE"
"""A stage between that needs no GPU: run until it is verified."""
PREFLIGHT = "PREFLIGHT"
"""All of the next stage's preflight that needs no GPU."""
HOLDERS = "HOLDERS"
"""Who else is on the GPUs: anybody else ends it while the server still runs."""
STOP_SERVER = "STOP_SERVER"
FREE = "FREE"
PREFLIGHT_GPU = "PREFLIGHT_GPU"
LAUNCH = "LAUNCH"
FIRST_UNIT = "FIRST_UNIT"

DOES: Dict[str, str] = {
    ARMED: "wait until {before} has ended verified",
    OUTPUT: "the output of {before} is verified and not outdated",
    STAGE: "run {stage}, until it is verified",
    PREFLIGHT: "preflight of {stage}, all that needs no GPU",
    HOLDERS: "nobody else is on the GPUs",
    STOP_SERVER: "stop {service}",
    FREE: "verify the GPUs free; end what this run left on them",
    PREFLIGHT_GPU: "preflight of {stage}, what needs the GPUs",
    LAUNCH: "launch {stage}",
    FIRST_UNIT: "{stage}: the first {unit} is verified",
}
"""A line a step, with the names filled in by ``steps``."""

PROVEN, NOT_PROVEN, OPEN = "proven", "not proven", "open"

# What became of a transition.
DONE = "done"
STOPPED = "stopped"
"""At a step that is not proven: the next transition of the run resumes there."""
DISARMED = "disarmed"
"""It was armed, and nothing was done."""
CANCELLED = "cancelled"
BROKEN = "broken"
"""The host could not record what it was about to do: then it is not done."""

EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_CANNOT_TELL = 0, 1, 2, 3


def needs_gpus(stage: str, args: Any = ()) -> bool:
    """Whether GPUs must be verified free before a stage starts: not for one that works through the server, nor with ``--verify``, which
    only reads files again. ``args``: its command line, as far as it is known.
    """
    return STAGES[stage].gpus in ("all", "some") and not (isinstance(args, (list, tuple)) and "--verify" in args)


def resumes_at(stopped_at: str, alert: str) -> str:
    """The step at which the next transition stops as long as nothing changes: who holds the GPUs is looked at before they are freed."""
    return HOLDERS if alert and stopped_at in (FREE, PREFLIGHT_GPU, LAUNCH) else stopped_at


def steps(before: str, stages: List[str], service: Optional[str]) -> List[Dict[str, Any]]:
    """[{step, stage, does}] of a transition from ``before``, in their order; the last of ``stages`` is the next stage."""
    goal = stages[-1]
    found: List[Dict[str, Any]] = [_step(OUTPUT, before, before, service)]
    found += [_step(STAGE, one, before, service) for one in stages[:-1]]
    names = [PREFLIGHT, LAUNCH, FIRST_UNIT]
    if needs_gpus(goal):
        names = [PREFLIGHT, HOLDERS, *([STOP_SERVER] if service else []), FREE, PREFLIGHT_GPU, LAUNCH, FIRST_UNIT]
    return found + [_step(name, goal, before, service) for name in names]


def phrase(label: str, run: str, stages: List[str], service: Optional[str], armed: bool) -> str:
    """What the operator types: ``next LABEL RUN STAGE...`` or ``arm LABEL RUN STAGE...``, then the name of what would be stopped."""
    return " ".join(["arm" if armed else "next", label, run, *stages, *([service] if service else [])])


def _step(name: str, stage: str, before: str, service: Optional[str]) -> Dict[str, Any]:
    unit = STAGES[stage].unit
    does = DOES[name].format(before=before, stage=stage, service=service, unit=unit or "answer")
    return {"step": name, "stage": stage, "does": does}
