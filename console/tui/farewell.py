"""What is said once the terminal is given back: which jobs go on, and how to come back to them."""

from typing import NamedTuple

from console.core import fmt
from console.tui.state import ConsoleState
from pipeline.contract.stages import STAGES


class Farewell(NamedTuple):
    """A line, or none; and the error that ended the console, if one did."""

    line: str
    error: Exception | None = None


def of(state: ConsoleState) -> Farewell:
    """From the newest frame; one that is old says how old."""
    back = f"eaglewatch attach {state.host}" + (f" --run {state.run}" if state.run and state.run != state.host else "")
    if state.view is None:
        return Farewell("")
    live = state.live()
    if not live:
        return Farewell("") if state.current else Farewell(f"nothing ran {_old(state)}; what runs now is not known here; {back}")
    working = [one.stage for one in live if not STAGES[one.stage].service]
    if len(working) > 1:
        back += f" --stage {working[0]}"  # attach does not choose among them
    jobs = "1 job goes on" if len(live) == 1 else f"{len(live)} jobs go on"
    names = ", ".join(one.stage for one in live)
    as_of = "" if state.current else f" (as of {_old(state)})"
    return Farewell(f"{jobs}{as_of}: {names} on {state.host}; {back}")


def _old(state: ConsoleState) -> str:
    return "at an unknown time" if state.age_s is None else f"{fmt.age(state.age_s)} ago"
