"""The words for stages and attempts: one place, so that strip, progress, cards and dialogs say the same."""

from console.core import eta_words, fmt, reading
from console.core.attempt import Attempt
from console.core.clocks import clock
from console.core.eta_words import Done, Here
from console.core.progress import WAITING
from console.tui import health, serving
from console.tui.draw import BAD, GOOD, MUTED, PLAIN, STRONG, WARN, Piece
from console.tui.state import ConsoleState
from pipeline.contract import telemetry
from pipeline.contract.disk_risk import DiskRisk
from pipeline.contract.stages import STAGES, Stage

NOT_BUILT = "not in this version of eaglewatch"
TICK, CROSS, RUNS, NONE, WARNING, NOT_YET = "✓", "✗", "▶", "·", "!", "-"
OUTDATED = "OUTDATED"
SHORT, USUAL, ROOMY = range(3)
"""How many words a cell of the strip may take."""

_REFUSED = "refused"
_ENDED = {
    telemetry.DONE: "done",
    telemetry.FAILED: "FAILED",
    telemetry.STOPPED: "stopped",
    telemetry.CRASHED: "CRASHED",
    telemetry.REFUSED: _REFUSED,
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


def state_word(state: ConsoleState, attempt: Attempt) -> str:
    """``STEADY``, ``LOADING``, ``CRASHED``, ``done``: the phase while it runs, else how it ended. Never better than the host's word."""
    if STAGES[attempt.stage].service:
        return serving.word(state, attempt)
    if (found := health.loud(state, attempt)) is not None:
        return health.level_word(found)
    if attempt.state == telemetry.RUNNING and attempt.progress and attempt.progress.phase:
        return WAITING if attempt.progress.waits else attempt.progress.phase.upper()
    if attempt.done and attempt.outdated:
        return OUTDATED
    return _REFUSED if attempt.turned_away and attempt.state == telemetry.FAILED else _ENDED.get(attempt.state, attempt.state)


def state_style(state: ConsoleState, attempt: Attempt) -> str:
    if STAGES[attempt.stage].service:
        return serving.style(serving.word(state, attempt))
    if (found := health.loud(state, attempt)) is not None:
        return health.STYLES[found.severity]
    if (attempt.done and attempt.outdated) or state_word(state, attempt) == WAITING:
        return WARN
    return STRONG if attempt.live else _STYLES.get(attempt.state, WARN)


def refusal(state: ConsoleState, attempt: Attempt) -> str:
    """``last launch refused 3 min ago: why``; empty when no launch was refused after this attempt."""
    refused = attempt.refused
    if refused is None:
        return ""
    since = state.view.age_s(refused.ended_boot_s, state.age_s) if state.view else None
    ago = "" if since is None else f" {fmt.duration(since)} ago"
    what = "did not start" if refused.state == telemetry.LAUNCH_FAILED else "refused"
    return f"last launch {what}{ago}: {refused.why or 'the host gives no reason'}"


def when(state: ConsoleState, host_boot_s: float | None) -> str:
    """A time of the host as this machine's time of day, and how long ago that is: ``03:07, 2 min ago``."""
    age = state.view.age_s(host_boot_s, state.age_s) if state.view else None
    if age is None:
        return "time unknown"
    return f"{clock(state.wall_s - age, state.utc_offset_s, state.wall_s)}, {fmt.duration(age)} ago"


def here(state: ConsoleState) -> Here:
    """The clock that times of day are told by. Only with a frame of known age."""
    return Here(state.wall_s, state.utc_offset_s, state.age_s or 0.0, state.view.utc_offset_s if state.view else None)


def eta_seconds(state: ConsoleState, attempt: Attempt) -> float | None:
    """Time left from now; None without an estimate, and while the link does not say that the work goes on."""
    seconds = state.store.eta(attempt).seconds
    if seconds is None or state.age_s is None or not state.current:
        return None
    return max(seconds - state.age_s, 0.0)


def done_at(state: ConsoleState, attempt: Attempt) -> Done | None:
    """The time of day when the last unit is expected; None when there is no estimate, or no link that says that the work goes on."""
    return None if eta_seconds(state, attempt) is None else eta_words.done(state.store, attempt, here(state))


def loaded_at(state: ConsoleState, attempt: Attempt) -> str:
    """``loaded about 13:40``, in the same way."""
    return "" if state.age_s is None or not state.current else eta_words.loaded(state.store, attempt, here(state))


def disk_risk(state: ConsoleState, attempt: Attempt) -> DiskRisk:
    """Whether the disk will hold the rest, with what the stage itself keeps free by its settings."""
    kept = reading.number(reading.mapping(state.resolved, attempt.stage) or {}, "min_free_bytes")
    return state.store.disk_risk(attempt, kept or 0.0)


def load_basis(state: ConsoleState, attempt: Attempt) -> list[Piece]:
    """What the end of a load rests on, or that there is no number and why."""
    left = state.store.eta(attempt)
    if left.loaded_s is None:
        return [Piece("no ETA while loading" if left.why in ("", "loading") else f"no ETA: {left.why}", MUTED)]
    load, _, then = left.basis.partition("; then ")
    return [Piece(f"by {load}", MUTED, 1), Piece(f"then {then}" if then else "", MUTED, 4)]


def share(attempt: Attempt) -> float | None:
    """How much of the work is done, in tokens where the plan's are known."""
    progress = attempt.progress
    if progress is None:
        return None
    if progress.tokens is not None and progress.total_tokens:
        return progress.tokens / progress.total_tokens
    return progress.done / progress.total if progress.done is not None and progress.total else None


def cell(state: ConsoleState, stage: Stage, room: int) -> tuple[str, str]:
    """A stage's cell of the strip: text and style, in as many words as there is room for."""
    if not stage.built:
        return f"{stage.label} {NONE}", MUTED
    if state.view is None or state.view.stages is None or state.run is None:
        return f"{stage.label} ?", MUTED
    if stage.service:
        said, style = serving.cell_word(state), serving.style(serving.cell_word(state))
        if (found := health.loud(state, state.view.stages.get(stage.name))) is not None and not said.startswith(serving.NO_ANSWER):
            said, style = health.level_word(found, room == SHORT), health.STYLES[found.severity]
        return f"{CROSS if style == BAD else WARNING if style == WARN else ''}{stage.label} {said}", style
    attempt = state.view.stages.get(stage.name)
    if attempt is None:
        return f"{stage.label} {'not run' if room == ROOMY else NOT_YET}", PLAIN
    if (found := health.loud(state, attempt)) is not None:
        return f"{RUNS}{stage.label} {health.level_word(found, room == SHORT)}", health.STYLES[found.severity]
    if attempt.live:
        return f"{RUNS}{stage.label} {_how_far(state, attempt, room)}", STRONG
    if attempt.fresh:
        return f"{stage.label} {TICK}{_covered(attempt)}", GOOD
    style, word = state_style(state, attempt), state_word(state, attempt)
    return f"{CROSS if style == BAD else WARNING}{stage.label} {word if room == ROOMY else _SHORT.get(attempt.state, word)}", style


def _covered(attempt: Attempt) -> str:
    coverage = attempt.receipt.coverage if attempt.receipt else None
    return "" if coverage is None else fmt.share_percent(coverage)


def reason_not_built(stage: str) -> str:
    return f"{stage}: {NOT_BUILT}"


def stages_not_built() -> list[str]:
    return [name for name, stage in STAGES.items() if not stage.built]


def _how_far(state: ConsoleState, attempt: Attempt, room: int) -> str:
    progress = attempt.progress
    if attempt.state != telemetry.RUNNING:
        return attempt.state.lower()
    if progress is None:
        return "running"
    if progress.phase == telemetry.LOADING and state.view:
        since = state.view.age_s(progress.phase_boot_s, state.age_s)
        return "loading" if since is None or room == SHORT else f"loading {fmt.duration(since)}"
    if progress.phase == telemetry.VERIFYING:
        return "verifying"
    if progress.waits:
        return WAITING.lower()
    done = share(attempt)
    percent = "" if done is None else f"{int(done * 100)}%"  # never rounded up to 100
    told = None if room == SHORT else done_at(state, attempt)
    return " ".join(part for part in (percent or progress.phase, told.at if told else "") if part)
