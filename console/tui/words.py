"""The words for stages and attempts: one place, so that strip, progress, cards and dialogs say the same."""

from console.core import fmt
from console.core.attempt import Attempt
from console.core.clocks import clock
from console.tui.draw import BAD, GOOD, MUTED, PLAIN, STRONG, WARN
from console.tui.state import ConsoleState
from pipeline.contract import telemetry
from pipeline.contract.stages import STAGES, Stage

NOT_BUILT = "not in this version of eaglewatch"
_ROUGH_FROM_S = 600.0
TICK, CROSS, RUNS, NONE, WARNING = "✓", "✗", "▶", "·", "!"

_ENDED = {
    telemetry.DONE: "done",
    telemetry.FAILED: "FAILED",
    telemetry.STOPPED: "stopped",
    telemetry.CRASHED: "CRASHED",
    telemetry.REFUSED: "refused",
    telemetry.LAUNCH_FAILED: "did not start",
    telemetry.LOST_REBOOT: "lost: host restarted",
    telemetry.ENDED_UNKNOWN: "ended, code unknown",
    telemetry.UNVERIFIED: "ended, NOT verified",
}
_SHORT = {
    telemetry.LOST_REBOOT: "lost",
    telemetry.ENDED_UNKNOWN: "ended ?",
    telemetry.UNVERIFIED: "unverified",
    telemetry.LAUNCH_FAILED: "no start",
}
_STYLES = {telemetry.DONE: GOOD, telemetry.FAILED: BAD, telemetry.CRASHED: BAD, telemetry.LAUNCH_FAILED: BAD}


def state_word(attempt: Attempt) -> str:
    """``STEADY``, ``LOADING``, ``CRASHED``, ``done``: the phase while it runs, else how it ended. Never better than the host's word."""
    if attempt.state == telemetry.RUNNING and attempt.progress and attempt.progress.phase:
        return attempt.progress.phase.upper()
    return _ENDED.get(attempt.state, attempt.state)


def state_style(attempt: Attempt) -> str:
    return STRONG if attempt.live else _STYLES.get(attempt.state, WARN)


def eta_seconds(state: ConsoleState, attempt: Attempt) -> float | None:
    """Time left from now; None without an estimate, and while the link does not say that the work goes on."""
    seconds = state.store.eta(attempt).seconds
    if seconds is None or state.age_s is None or not state.current:
        return None
    return max(seconds - state.age_s, 0.0)


def about(seconds: float) -> str:
    """An estimate as rough as it is: ``57 min``, ``1 h 30 min``, ``2 d 3 h``; seconds only below ten minutes."""
    return fmt.duration(seconds if seconds < _ROUGH_FROM_S else 60 * round(seconds / 60))


def done_at(state: ConsoleState, attempt: Attempt) -> str:
    """The time of day when the last unit is expected; empty when there is no estimate."""
    seconds = eta_seconds(state, attempt)
    return "" if seconds is None else clock(state.wall_s + seconds, state.utc_offset_s, state.wall_s)


def share(attempt: Attempt) -> float | None:
    """How much of the work is done, in tokens where the plan's are known."""
    progress = attempt.progress
    if progress is None:
        return None
    if progress.tokens is not None and progress.total_tokens:
        return progress.tokens / progress.total_tokens
    return progress.done / progress.total if progress.done is not None and progress.total else None


def cell(state: ConsoleState, stage: Stage, roomy: bool) -> tuple[str, str]:
    """A stage's cell of the strip: text and style. ``roomy``: there is space for words."""
    if not stage.built:
        return f"{stage.label} {NONE}", MUTED
    if state.view is None or state.view.stages is None or state.run is None:
        return f"{stage.label} ?", MUTED
    attempt = state.view.stages.get(stage.name)
    if attempt is None:
        return f"{stage.label} not run", PLAIN
    if attempt.live:
        return f"{RUNS}{stage.label} {_how_far(state, attempt)}", STRONG
    if attempt.done:
        return f"{stage.label} {TICK}", GOOD
    word = _ENDED.get(attempt.state, attempt.state) if roomy else _SHORT.get(attempt.state, _ENDED.get(attempt.state, attempt.state))
    mark = CROSS if state_style(attempt) == BAD else WARNING
    return f"{mark}{stage.label} {word}", state_style(attempt)


def reason_not_built(stage: str) -> str:
    return f"{stage}: {NOT_BUILT}"


def stages_not_built() -> list[str]:
    return [name for name, stage in STAGES.items() if not stage.built]


def _how_far(state: ConsoleState, attempt: Attempt) -> str:
    progress = attempt.progress
    if attempt.state != telemetry.RUNNING:
        return attempt.state.lower()
    if progress is None:
        return "running"
    if progress.phase == telemetry.LOADING and state.view:
        since = state.view.age_s(progress.phase_boot_s, state.age_s)
        return "loading" if since is None else f"loading {fmt.duration(since)}"
    if progress.phase == telemetry.VERIFYING:
        return "verifying"
    done = share(attempt)
    percent = "" if done is None else f"{int(done * 100)}%"  # never rounded up to 100
    return " ".join(part for part in (percent or progress.phase, done_at(state, attempt)) if part)
