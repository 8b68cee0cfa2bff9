"""What ``eaglewatch next`` prints: the plan, its steps as they go, the receipt."""

from typing import Any

from console.core import free_plan, free_words, transition_receipt
from console.core.transition_plan import TransitionPlan
from pipeline.contract import transition

MARKS = {transition.PROVEN: "ok ", transition.NOT_PROVEN: "NOT", transition.OPEN: " - "}


def plan(host: str, run: str, made: TransitionPlan, armed: bool) -> list[str]:
    """The whole plan: each step with how it stands now, the GPUs, what would be stopped, and the phrase."""
    mark = "SIMULATED  " if made.simulated else ""
    lines = [f"{mark}run {run} on {host}: {made.before} -> {' -> '.join(made.stages)}"]
    gpus = free_plan.parse({**made.source["free"], "label": made.source.get("label")}) if made.source.get("free") else None
    if gpus is not None:
        lines.append(f"GPUs: {free_words.summary(gpus)}")
    lines += [f"! {one}" for one in made.notes]
    wide = max(len(one.name) for one in made.steps)
    if armed:
        lines.append(f" -   {transition.ARMED:<{wide}}  wait until {made.before} has ended verified")
    lines += [f"{MARKS[one.state]}  {one.name:<{wide}}  {one.does}{f': {one.line}' if one.line else ''}" for one in made.steps]
    lines.append(f"stopped: {made.service or 'nothing'}")
    lines += [f"also on the GPUs: {one}; to have it stopped instead: --service {one}" for one in made.others]
    lines += [f"it would stop now: {one}" for one in made.trouble]
    return [*lines, "", f"plan {made.digest}; to do this: --confirm {made.phrase(armed)!r}{' --armed' if armed else ''}"]


def receipt(found: dict[str, Any], simulated: bool) -> list[str]:
    """What it came to first, then what shows it."""
    lines = [f"{'SIMULATED  ' if simulated else ''}{transition_receipt.outcome(found)}: {transition_receipt.line(found)}"]
    for heading, rows in transition_receipt.sections(found):
        lines += [f"{heading}:", *(f"  {row}" for row in rows)]
    return lines
