"""Why GPUs cannot be freed from this console now. Without a run there is no control to ask for: the host then lets one at a time do it."""

from console.tui import gates
from console.tui.state import ConsoleState
from pipeline.contract import free


def may_free(state: ConsoleState) -> str | None:
    """None when it can be done."""
    if state.run is not None or state.read_only or state.link is None or state.view is None or not state.current:
        return gates.act(state)
    return f"one thing at a time: {state.busy}" if state.busy else None


def at_work(state: ConsoleState) -> str | None:
    """Who frees GPUs of this host now; None when nobody does. One at a time can."""
    one = state.view.actions.get(free.ACTION) if state.view else None
    return f"{one.attempt.by or 'somebody'} frees GPUs now" if one is not None and one.live_now else None


def may_accept(state: ConsoleState, run: str | None) -> str | None:
    """Why an idle baseline cannot be accepted for this run now."""
    return "a baseline is accepted for a run, and none is chosen; o opens one" if run is None else may_free(state)


def may_look(state: ConsoleState) -> str | None:
    """Why no plan can be asked for: it ends nothing, and needs neither control nor a run."""
    if state.read_only:
        return "--read-only: this console only looks"
    return f"{state.host} is not known yet: {state.starting or 'its settings are being read'}" if state.link is None else None
