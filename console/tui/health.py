"""How a running attempt's health reads: the level in words, for how long, and what its log has raised.

Strip, headline and sheet say the same.
"""

import textwrap
from typing import TYPE_CHECKING

from textual.content import Content

from console.core import fmt
from console.core.worker_lines import worker_of
from console.tui.draw import BAD, MUTED, PLAIN, WARN, Piece
from console.tui.state import ConsoleState
from pipeline.contract import signals, telemetry
from pipeline.contract.alarms import LABELS

if TYPE_CHECKING:
    from console.core.attempt import Attempt
    from console.core.judge import Judgement
    from console.core.lookout import Alarm
    from pipeline.contract.signals import Verdict

STYLES = {signals.OK: PLAIN, signals.GREY: MUTED, signals.AMBER: WARN, signals.RED: BAD}
_LOUD = (signals.AMBER, signals.RED)
_SHORT = {signals.STALLED_SPIN: signals.STALLED_IDLE, signals.BUSY_NO_PROGRESS: "NO PROGRESS", signals.STOPPED_BY_SIGNAL: "STOPPED"}
_BY_LEVEL = (signals.STOPPED_BY_SIGNAL, signals.RANK_DEAD)
"""Levels that are told with how long they last; the others with how long no unit has come."""
_STARTING = ("", signals.LAUNCHING, telemetry.LOADING)


def verdict(state: ConsoleState, attempt: "Attempt | None") -> "Verdict | None":
    """Of the newest frame, however old that is: the state stands still while none comes. None: it does not run."""
    return state.store.verdict(attempt) if attempt is not None and attempt.live else None


def loud(state: ConsoleState, attempt: "Attempt | None") -> "Verdict | None":
    """The verdict where an operator is to do something about it: amber or red."""
    found = verdict(state, attempt)
    return found if found is not None and found.severity in _LOUD else None


def level_word(found: "Verdict", short: bool = False) -> str:
    return _SHORT.get(found.level, found.level) if short else found.level


def lasting(state: ConsoleState, found: "Verdict") -> str:
    """``3 min 12 s``: of the newest frame. No clock runs on while none comes."""
    seconds = found.gap_s
    if found.level in _BY_LEVEL:
        seconds = None if found.since_boot_s is None or state.view is None else state.view.boot_s - found.since_boot_s
    return "" if seconds is None else fmt.duration(seconds)


def headline(state: ConsoleState, attempt: "Attempt", usual: Piece) -> list[Piece]:
    """``EXTRACT STALLED 3 min 12 s`` in the place of ``usual``; what is only noteworthy stands beside it."""
    found = verdict(state, attempt)
    if found is None or found.severity == signals.OK or found.level == signals.NO_DATA:  # that nothing is heard, the first line says
        return [usual]
    told = f"{level_word(found)} {lasting(state, found)}".rstrip()
    if found.severity == signals.GREY:
        return [usual, Piece(told, PLAIN, 2)]
    phase = attempt.progress.phase if attempt.progress else ""
    return [
        Piece(f"{attempt.stage.upper()} {told}", STYLES[found.severity]),
        Piece(f"while {phase}" if phase != telemetry.STEADY else "", PLAIN, 1),
    ]


def gaps(state: ConsoleState, attempt: "Attempt", facts: "Judgement") -> tuple[float | None, float | None]:
    """Usual and longest gap: as learned here or by the host, which has watched for longer; else as this console saw them."""
    found = verdict(state, attempt)
    if found is not None and found.gaps.count and found.gaps.longest_s is not None:
        return found.gaps.median_s, found.gaps.longest_s
    return facts.usual_gap_s, facts.longest_gap_s


def line_parts(state: ConsoleState, attempt: "Attempt", width: int) -> list[Content]:
    """The line of an amber or red verdict, in two where one is too short for it; none otherwise. An alarm takes the second one's place."""
    found = loud(state, attempt)
    if found is None:
        return []
    most = 1 if unseen(state) else 2
    parts = textwrap.wrap(found.line, max(width - 2, 10), max_lines=most, placeholder=" …", break_on_hyphens=False)
    return [Content.styled(f" {one}", STYLES[found.severity]) for one in parts]


def ranks(state: ConsoleState, attempt: "Attempt") -> str:
    """``ranks 5 of 8`` while it starts; empty later, and where none are expected or told."""
    phase = attempt.progress.phase if attempt.progress else ""
    found = verdict(state, attempt)
    if found is None or not attempt.ranks_expected or attempt.ranks_expected < 2 or phase not in _STARTING:
        return ""
    value = next((one.value for one in found.rows if one.name == "ranks"), "-")
    return "" if value.startswith("-") else f"ranks {value.partition(',')[0]}"


def watched(state: ConsoleState) -> "list[Attempt]":
    """The attempt that is looked at, then whatever else lives: none of them raises an alarm that nobody sees."""
    first = state.attempt
    return [] if first is None else [first, *(one for one in state.live() if one.id != first.id)]


def alarms(attempt: "Attempt") -> "list[Alarm]":
    """What its log has raised, newest first. Of an attempt that is done and verified it means nothing any more."""
    found = attempt.lookout.alarms if attempt.lookout is not None and not attempt.done else ()
    return sorted(found, key=lambda one: one.boot_s or 0.0, reverse=True)


def unseen(state: ConsoleState) -> "list[tuple[Attempt, Alarm]]":
    """Those of which the operator has not seen all yet, newest first."""
    found = [(of, one) for of in watched(state) for one in alarms(of) if one.count > state.alarms_seen.get((of.id, one.kind), 0)]
    return sorted(found, key=lambda pair: pair[1].boot_s or 0.0, reverse=True)


def see(state: ConsoleState) -> None:
    """The operator has them in sight."""
    for of in watched(state):
        for one in alarms(of):
            state.alarms_seen[(of.id, one.kind)] = one.count


def alarm_words(state: ConsoleState, of: "Attempt", one: "Alarm") -> str:
    """``ALARM CUDA error x3, Worker_TP3, 12 s ago``; with the stage where another one is looked at."""
    times = f" x{fmt.count(one.count)}" if one.count > 1 else ""
    stage = "" if state.attempt is not None and of.id == state.attempt.id else f" in {of.stage}"
    age = state.view.age_s(one.boot_s, state.age_s) if state.view else None
    name = worker_name(one)
    told = f"ALARM {LABELS.get(one.kind, one.kind or 'of no kind')}{times}{stage}{f', {name}' if name else ''}, "
    return told + ("age unknown" if age is None else f"{fmt.age(age)} ago")


def worker_name(one: "Alarm") -> str:
    """As the filter of the log's lines has it; empty when nobody is named."""
    return worker_of(one.line) or one.worker
