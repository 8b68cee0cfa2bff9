"""What ``eaglewatch next`` prints: the plan, its steps as they go, the receipt."""

from typing import Any

from console.core import free_plan, free_words, reading, transition_receipt
from console.core.transition_plan import PlanStep, TransitionPlan
from pipeline.contract import transition

MARKS = {transition.PROVEN: "ok ", transition.NOT_PROVEN: "NOT", transition.OPEN: " - "}


def plan(host: str, run: str, made: TransitionPlan, armed: bool, simulated: bool, accepted: dict[str, int]) -> list[str]:
    """The whole plan: each step with how it stands now, the GPUs, and what would be stopped.

    ``accepted``: {UUID: bytes} of the run's accepted idle baseline.
    """
    mark = "SIMULATED  " if simulated else ""
    lines = [f"{mark}run {run} on {host}: {made.before} -> {' -> '.join(made.stages)}"]
    free = reading.mapping(made.source, "free")
    gpus = free_plan.parse({**free, "label": made.source.get("label")}) if free else None
    if gpus is not None:
        lines.append(f"GPUs: {free_words.summary(gpus, accepted)}")
    lines += [f"! {one}" for one in made.notes]
    lines.append("steps (ok: proven now; NOT: it would stop there; -: not done yet):")
    wide = max(len(one.name) for one in made.steps)
    if armed:
        lines.append(f" -   {transition.ARMED:<{wide}}  wait until {made.before} has ended verified")
    lines += [f"{MARKS[one.state]}  {one.name:<{wide}}  {_said(one)}" for one in made.steps]
    lines.append(f"it stops: {made.service or 'nothing'}")
    lines += [f"also on the GPUs: {one}; to have it stopped instead: --service {one}" for one in made.others]
    lines += [f"it would stop now: {one}" for one in made.trouble]
    return lines + free_words.cures_of(made)


def _said(one: PlanStep) -> str:
    return f"{one.does}: {one.line}" if one.line and one.line != one.does else one.does


def receipt(found: dict[str, Any], simulated: bool) -> list[str]:
    """What it came to first, then what shows it."""
    lines = [f"{'SIMULATED  ' if simulated else ''}{transition_receipt.outcome(found)}: {transition_receipt.line(found)}"]
    for heading, rows in transition_receipt.sections(found):
        lines += [f"{heading}:", *(f"  {row}" for row in rows)]
    return lines
