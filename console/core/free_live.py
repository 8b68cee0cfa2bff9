"""Freeing GPUs while it runs: its steps out of its events, how long the present wait may last, and the memory over time."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from console.core import fmt, reading
from console.core.action import Action, Point
from pipeline.contract import events, telemetry

_LEVELS = "▁▂▃▄▅▆▇█"
_NONE, _ZERO = "?", "·"
_FAR_S = 3600.0
"""From here on the end of a wait is a limit of the host's, and nothing that a person waits for."""
WORDS = {
    "SURVEY": "look at GPUs and processes",
    "PLAN": "compare with what was confirmed",
    "CONFIRMED": "on record",
    "STOP_SERVICE": "stop",
    "RESCAN": "look again",
    "TERM": "one SIGTERM each",
    "GRACE": "wait for them to end",
    "RECHECK": "look again",
    "KILL": "SIGKILL to what stays",
    "KILL_WAIT": "wait for them to end",
    "WAIT_RELEASE": "wait while memory falls",
    "VERIFY": "five readings",
    "BASELINE": "whose is what idle GPUs hold",
}


class Step(msgspec.Struct, frozen=True):
    """One step that has begun. ``result`` None: it goes on, or what was to end it is gone."""

    name: str
    what: str
    result: str | None
    seconds: float | None


def steps(source: Iterable[dict[str, Any]]) -> list[Step]:
    """Of an attempt's events, oldest first."""
    found: list[Step] = []
    for event in source:
        if reading.text(event, "kind", 40) != events.STEP:
            continue
        name = reading.text(event, "step", 40)
        if event.get("begins") is True:
            service = reading.text(event, "service", 120)
            found.append(Step(name, f"{WORDS.get(name, '')} {service}".strip(), None, None))
        elif found and found[-1].name == name:
            found[-1] = msgspec.structs.replace(
                found[-1], result=reading.text(event, "result", 500), seconds=reading.number(event, "seconds")
            )
        else:  # its beginning is not among the events that were sent
            found.append(Step(name, WORDS.get(name, ""), reading.text(event, "result", 500), reading.number(event, "seconds")))
    return found


def in_frame(action: Action) -> list[dict[str, Any]]:
    """The newest events, as the frame has them."""
    return [one.detail for one in action.attempt.events]


def joined(known: list[dict[str, Any]], more: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``known``, and of ``more`` what is newer: a frame tells the newest events, an answer all there were when it was made."""
    newest_s = max((reading.number(one, "boot_s") or 0.0 for one in known), default=float("-inf"))
    return [*known, *(one for one in more if (reading.number(one, "boot_s") or 0.0) > newest_s)]


def newest_event_s(action: Action) -> float | None:
    """Host time of the newest event: tells whether there are new ones."""
    return action.attempt.events[-1].boot_s if action.attempt.events else None


def countdown(action: Action, now_boot_s: float | None) -> str:
    """``2 of 9 processes live, 12 s left at most``; empty when the step waits for nothing that is told."""
    left = None
    if action.deadline_boot_s is not None and now_boot_s is not None:
        left = action.deadline_boot_s - now_boot_s
    words = [action.note]
    if left is not None and left < _FAR_S:
        words.append(f"{fmt.duration(left)} left at most" if left > 0 else "its time is over")
    return ", ".join(one for one in words if one)


def standing(action: Action) -> str:
    """How the attempt stands, in a line: what a person reads first."""
    state, why = action.attempt.state, action.attempt.why
    if state == telemetry.STOPPING:
        return f"stopping at the next wait: {why}" if why else "stopping at the next wait"
    if action.live_now:
        return f"{action.step or 'starting'}"
    if state == telemetry.REFUSED:
        return f"refused: {why}"
    if not action.told:
        return f"{ended_word(state)}{' in ' + action.step if action.step else ''}{': ' + why if why else ''}; what it did is in its steps"
    return action.line


def ended_word(state: str) -> str:
    """How it ended without a receipt. Never better than what is known."""
    return {
        telemetry.CRASHED: "CRASHED",
        telemetry.ENDED_UNKNOWN: "ended, code unknown",
        telemetry.LOST_REBOOT: "lost: the host was restarted",
        telemetry.LAUNCH_FAILED: "did not start",
    }.get(state, state)


def curve(points: Sequence[Point], columns: int) -> list[tuple[str, int | None, int | None]]:
    """Of each GPU: its memory over time in at most ``columns`` characters, and what it held first and last, in MiB.

    One scale for all: the highest that any held. 0 has a mark of its own, and so has what was not read.
    """
    shown = _thinned(points, columns)
    if not shown:
        return []
    highest = max((mib for _, row in shown for mib in row if mib is not None), default=0)
    count = max(len(row) for _, row in shown)
    found = []
    for gpu in range(count):
        series = [row[gpu] if gpu < len(row) else None for _, row in shown]
        found.append(("".join(_mark(one, highest) for one in series), series[0], series[-1]))
    return found


def span_s(points: Sequence[Point]) -> float:
    """How much time a curve covers."""
    return points[-1][0] - points[0][0] if points else 0.0


def _thinned(points: Sequence[Point], columns: int) -> list[Point]:
    """First and last stay."""
    if columns < 2 or len(points) <= columns:
        return list(points)[-max(columns, 0) :] if columns > 0 else []
    return [points[round(at * (len(points) - 1) / (columns - 1))] for at in range(columns)]


def _mark(mib: int | None, highest: int) -> str:
    if mib is None:
        return _NONE
    if mib == 0 or highest == 0:
        return _ZERO
    return _LEVELS[min(int(mib * len(_LEVELS) / highest), len(_LEVELS) - 1)]
