"""Why GPUs cannot be freed from this console now. Without a run there is no control to ask for: the host then lets one at a time do it."""

from console.tui import gates
from console.tui.state import ConsoleState


def may_free(state: ConsoleState) -> str | None:
    """None when it can be done."""
    if state.run is not None or state.read_only or state.link is None or state.view is None or not state.current:
        return gates.act(state)
    return f"one thing at a time: {state.busy}" if state.busy else None


def may_accept(state: ConsoleState, run: str | None) -> str | None:
    """Why an idle baseline cannot be accepted for this run now."""
    return "a baseline is accepted for a run, and none is chosen; o opens one" if run is None else may_free(state)
