"""What a launch of a stage does with what its earlier attempts made: by the stages' own code (pipeline/stages), told before it is done."""

from collections.abc import Sequence

from console.core.attempt import Attempt
from console.tui.state import ConsoleState
from pipeline.contract.stages import STAGES

_GOES_ON = {
    "generate": "answers that are there stay, only prompts without one are asked",
    "extract": "hidden states that are there stay, only the rest is made",
}
"""Of stages that keep what is finished. What is of other inputs or settings they refuse to go on with, and touch nothing."""
_ANEW = {
    "prepare": "all rows are made anew of the present answers, and replace those that are there once they are checked",
    "vocab": "all rows are counted anew, and the new mapping replaces the one that is there once it is checked",
}


def what_happens(state: ConsoleState, attempt: Attempt, outputs: Sequence[str]) -> str:
    """A line: what stays, what is made, what is refused. ``outputs``: where the stage writes."""
    stage = attempt.stage
    if STAGES[stage].service:
        return "a new server is started"
    if stage in _ANEW:
        return _ANEW[stage]
    goes_on = _GOES_ON.get(stage, "what is finished stays, only the rest is made")
    if not (attempt.done and attempt.outdated):
        return goes_on
    where = outputs[0] if outputs else "its output"
    way = f"move {where} away before, or name another {stage}.output"
    if stage == "generate":
        return f"{attempt.outdated}. It goes on where the answers stay valid (more prompts), else it refuses; to make all anew: {way}"
    return f"{attempt.outdated}. It refuses to mix them with others, and touches nothing; to make all anew: {way}"
