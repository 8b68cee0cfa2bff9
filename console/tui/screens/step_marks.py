"""The mark before a step of an action: a tick only where it came to what it was for. What is not proven, or not understood, has none."""

import re

from textual.content import Content

from console.core import fmt
from console.tui.draw import GOOD, MUTED, STRONG, WARN
from pipeline.contract import free
from pipeline.contract import transition as words

Mark = tuple[str, str]
"""A character with its style."""

WELL: Mark = ("✓", GOOD)
NOT_SO: Mark = ("!", WARN)
NEITHER: Mark = ("·", MUTED)
UNDER_WAY: Mark = ("▶", STRONG)

_SENT = re.compile(r"\d+ (sent|gone)(, \d+ (sent|gone))*(, [^,]*…)?$")
"""A long list is cut, and its last word with it."""
_LOOKED = re.compile(r"\d+ (GPUs|processes)\b")
_WELL = {
    "SURVEY": _LOOKED,
    "PLAN": re.compile("as confirmed$"),
    "CONFIRMED": re.compile(r"\d+ processes$|as planned$"),
    "STOP_SERVICE": re.compile("stopped$"),
    "RESCAN": _LOOKED,
    "RECHECK": _LOOKED,
    "TERM": _SENT,
    "KILL": _SENT,
    "GRACE": re.compile("0 left$"),
    "KILL_WAIT": re.compile("0 left$"),
    "WAIT_RELEASE": re.compile("0 MiB$"),
    "VERIFY": re.compile(f"{free.FREE}\\b"),
}
"""What the host says of a step of freeing GPUs that came to what it was for."""
_OPEN_END = ("GRACE", "WAIT_RELEASE", "BASELINE")
"""Another step follows, whatever these come to."""


def freeing(name: str, result: str | None, live: bool) -> Mark:
    """Of a step of freeing GPUs. ``live``: the action runs, so a step without an end is under way; else its end is gone."""
    if result is None:
        return UNDER_WAY if live else NOT_SO
    well = _WELL.get(name)
    if well is not None and well.match(result):
        return WELL
    return NEITHER if well is None or name in _OPEN_END else NOT_SO


def transition(name: str, state: str, result: str | None, live: bool) -> Mark:
    """Of a step of a transition, by the state that it ended in; what it does before its first step proves nothing, and has none."""
    if result is None:
        return UNDER_WAY if live else NOT_SO
    if not state and name in _WELL:
        return freeing(name, result, live)
    return {words.PROVEN: WELL, words.NOT_PROVEN: NOT_SO}.get(state, NOT_SO if result == words.DISARMED else NEITHER)


def line(mark: Mark, indent: str, said: str, seconds: float | None) -> Content:
    """The step's line, with how long it took."""
    took = f"  {fmt.age(seconds)}" if seconds is not None and seconds >= 0.05 else ""
    return Content.assemble(f" {indent}", mark, f" {said}" if mark is not UNDER_WAY else (f" {said}", STRONG), (took, MUTED))
