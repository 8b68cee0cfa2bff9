"""What the log's pane says when there is no line to show."""

from console.tui.state import ConsoleState
from pipeline.contract import telemetry


def no_lines(state: ConsoleState) -> str:
    """Why there is no line."""
    attempt = state.attempt
    if state.worker:
        return f"no line of {state.worker} is here; w shows the others"
    if state.log_source is not None:
        return "no line yet"
    if attempt is None:
        return "no log: nothing has run here yet"
    if attempt.log_bytes is not None or attempt.state == telemetry.LAUNCHING:
        return f"the log of {attempt.stage} is not here yet"
    if attempt.turned_away:
        return f"{attempt.stage} did not start: it has no log"
    return f"{attempt.stage} has no log here: a stage started by hand prints to its own terminal"
