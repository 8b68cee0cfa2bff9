"""What is said once the terminal is given back: which jobs go on, and how to come back to them."""

import shlex
from typing import TYPE_CHECKING, NamedTuple

from console.core import fmt
from console.tui.state import ConsoleState
from pipeline.contract import free
from pipeline.contract.stages import STAGES

if TYPE_CHECKING:
    from console.core.action import Action


class Farewell(NamedTuple):
    """A line for each thing that goes on, or none; and the error that ended the console, if one did."""

    line: str
    error: Exception | None = None


def of(state: ConsoleState) -> Farewell:
    """From the newest frame; one that is old says how old."""
    if state.view is None:
        return Farewell("")
    as_of = "" if state.current else f" (as of {_old(state)})"
    told = [*_jobs(state, as_of), *(_action(state, one, as_of) for one in state.view.actions.values() if one.live_now)]
    if not told and not state.current:
        told = [f"nothing ran {_old(state)}; what runs now is not known here; {_back(state)}"]
    return Farewell("\n".join(told))


def _jobs(state: ConsoleState, as_of: str) -> list[str]:
    live = state.live()
    if not live:
        return []
    working = [one.stage for one in live if not STAGES[one.stage].service]
    which = f" --stage {working[0]}" if len(working) > 1 else ""  # attach does not choose among them
    jobs = "1 job goes on" if len(live) == 1 else f"{len(live)} jobs go on"
    return [f"{jobs}{as_of}: {', '.join(one.stage for one in live)} on {state.host}; {_back(state)}{which}"]


def _action(state: ConsoleState, one: "Action", as_of: str) -> str:
    """What the host does by itself, and the command that shows it."""
    run = f" --run {shlex.quote(one.run)}" if one.run else ""
    host = shlex.quote(state.host)
    if one.attempt.stage == free.ACTION:
        return f"freeing GPUs of {state.host} goes on{as_of}: {one.step or 'starting'}; eaglewatch {free.ACTION} {host}{run} --show"
    from console.core import transition_live

    how = "is armed" if transition_live.is_armed(one) else "goes on"
    told = f"the transition of run {one.run} on {state.host} {how}{as_of}: {transition_live.standing(one)}"
    return f"{told}; eaglewatch next {host}{run} --show"


def _back(state: ConsoleState) -> str:
    return f"eaglewatch attach {state.host}" + (f" --run {state.run}" if state.run and state.run != state.host else "")


def _old(state: ConsoleState) -> str:
    return "at an unknown time" if state.age_s is None else f"{fmt.age(state.age_s)} ago"
