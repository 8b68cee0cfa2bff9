"""How an attempt stands, in a word and as an object: its state, and over that the verdict on it where an operator must act."""

from typing import Any

from console.core import service
from console.core.attempt import Attempt
from console.core.progress import WAITING
from console.core.store import Store
from pipeline.contract import telemetry
from pipeline.contract.signals import AMBER, GREY, NO_DATA, RED, Verdict
from pipeline.contract.stages import STAGES

_LOUD = (AMBER, RED)


def word(store: Store, attempt: Attempt, frame_age_s: float | None) -> str:
    """``STEADY``, ``STEADY (QUIET)``, ``STALLED``, ``STALLED while LOADING``, ``NO DATA (last STEADY)``; without a verdict its state."""
    return judged_word(store, attempt, frame_age_s, state_words(attempt))


def judged_word(store: Store, attempt: Attempt, frame_age_s: float | None, usual: str) -> str:
    """The same where ``usual`` is the word for one that is well. No word is better than the verdict, and none is newer than the frame."""
    if not attempt.live:
        return usual
    found = store.verdict(attempt, frame_age_s)
    if found.level == NO_DATA:
        return f"{NO_DATA} (last {_over(store.verdict(attempt), usual)})"
    return _over(found, usual)


def _over(found: Verdict, usual: str) -> str:
    if found.level == NO_DATA:  # nobody has looked at it yet
        return usual
    if found.severity in _LOUD:
        return found.level if usual.lower() in ("", telemetry.STEADY) else f"{found.level} while {usual}"
    return f"{usual} ({found.level})" if found.severity == GREY else usual


def loud(store: Store, attempt: Attempt | None) -> Verdict | None:
    """The verdict of the newest frame where an operator must act: amber or red. None otherwise, and of what does not run."""
    found = store.verdict(attempt) if attempt is not None and attempt.live else None
    return found if found is not None and found.severity in _LOUD else None


def loud_line(store: Store, attempt: Attempt, frame_age_s: float | None) -> str:
    """What that verdict says, in a line; empty without one, and where the frame is too old to say it of now."""
    found = store.verdict(attempt, frame_age_s) if attempt.live else None
    return found.line if found is not None and found.severity in _LOUD else ""


def verdict_json(store: Store, attempt: Attempt | None, frame_age_s: float | None) -> dict[str, Any] | None:
    """``gap_s``: seconds since the newest unit, null when not known. None: it does not run, so that nothing is to be judged."""
    if attempt is None or not attempt.live:
        return None
    found = store.verdict(attempt, frame_age_s)
    gap_s = None if found.level == NO_DATA or found.gap_s is None else round(found.gap_s, 3)
    return {"level": found.level, "severity": found.severity, "line": found.line, "gap_s": gap_s}


def state_words(attempt: Attempt) -> str:
    """The one word for its state, as on the screen. No verdict is in it."""
    phase = attempt.progress.phase.upper() if attempt.progress else ""
    if attempt.live and STAGES[attempt.stage].service:
        return service.word(attempt)
    phase = WAITING if attempt.progress and attempt.progress.waits else phase
    return phase if attempt.state == telemetry.RUNNING and phase else state_word(attempt.stage, attempt.state, attempt.outdated)


def state_word(stage: str, state: str, outdated: str) -> str:
    """The same where no more than the state is known: OUTDATED is done, with other inputs or settings; a stopped service is OFF."""
    if stage in STAGES and STAGES[stage].service and state in (telemetry.STOPPED, telemetry.DONE):
        return service.OFF
    return "OUTDATED" if state == telemetry.DONE and outdated else state
