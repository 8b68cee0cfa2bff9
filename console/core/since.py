"""What happened on a host while nobody looked from here, as the host kept it. Shapes: the op ``since`` of docs/wire.md."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from console.core import attempt, reading, sanitize
from console.core.clocks import clock
from pipeline.contract import signals

ABSENT_S = 600.0
"""Whoever was away for longer is told what happened meanwhile."""
MARKS = {signals.RED: "✗", signals.AMBER: "!"}
_MOST_LINES = 500
_SEVERITIES = frozenset(signals.SEVERITIES)
_WIDEST = 12
"""Of a column; a longer word pushes its line."""


class Line(NamedTuple):
    """One thing that happened."""

    wall_s: float | None
    """The host's wall clock; None: not told."""
    boot_s: float | None
    what: str
    """What it is about: a stage, ``transition``, ``GPUs``, ``alert``."""
    word: str
    detail: str
    stage: str
    """Empty, like ``attempt``, when it is about none."""
    attempt: str
    severity: str
    """One of ``signals.SEVERITIES``; what is none of them is amber: a word that is not understood is looked at."""


class Record(NamedTuple):
    """The lines, oldest first."""

    lines: tuple[Line, ...]
    now_wall_s: float | None
    """The host's wall clock when it answered."""
    older: bool
    """There were more than it tells; these are the newest."""

    @property
    def severity(self) -> str:
        """The worst of the lines."""
        return max((one.severity for one in self.lines), key=signals.SEVERITIES.index, default=signals.OK)


def parse(reply: Any) -> Record | None:
    """What the host answered; None when it holds no lines: then nothing is known, which is not "nothing happened"."""
    told = reading.sequence(reply, "lines")
    if told is None:
        return None
    lines = [_line(one) for one in told[-_MOST_LINES:] if isinstance(one, dict)]
    older = reading.flag(reply, "older") is True or len(told) > _MOST_LINES
    return Record(tuple(lines), reading.number(reply, "now_wall_s"), older)


def _line(source: dict[str, Any]) -> Line:
    severity = reading.text(source, "severity", 20)
    return Line(
        reading.number(source, "wall_s"),
        reading.number(source, "boot_s"),
        reading.text(source, "what", 40),
        reading.text(source, "word", 40),
        reading.text(source, "detail", 500),
        reading.text(source, "stage", 40),
        attempt.name(source, "attempt"),
        severity if severity in _SEVERITIES else signals.AMBER,
    )


class Times(NamedTuple):
    """How the host's wall times are told here: as times of day of this machine, whatever the host's clock says."""

    now_s: float
    """This machine's wall clock."""
    utc_offset_s: float
    ahead_s: float = 0.0
    """How far the host's wall clock is ahead of this machine's."""

    def of(self, host_wall_s: float | None) -> str:
        """``01:58``; of another day ``Tue 22:05``, older ``Nov 21 22:05``; ``time ?``."""
        if host_wall_s is None:
            return "time ?"
        here = host_wall_s - self.ahead_s
        told = clock(here, self.utc_offset_s, self.now_s)
        if told.startswith(("yesterday", "tomorrow")):
            return day_and_time(here, self.utc_offset_s)
        return told


def times(record: Record, now_s: float, utc_offset_s: float) -> Times:
    """``now_s``: this machine's wall clock when the answer came."""
    return Times(now_s, utc_offset_s, 0.0 if record.now_wall_s is None else record.now_wall_s - now_s)


def day_and_time(wall_s: float, utc_offset_s: float) -> str:
    """``Tue 22:05``."""
    return clock(wall_s, utc_offset_s, wall_s - 2 * 86400)


def mark(severity: str) -> str:
    """A sign beside the word, so that a colour is never all there is."""
    return MARKS.get(severity, " ")


def parts(lines: Sequence[Line], of: Times) -> list[tuple[str, str, str, str, str]]:
    """Of each line: when, mark, what, word, detail; all but the last padded to columns."""
    told = [of.of(one.wall_s) for one in lines]
    when, what, word = (
        min(max(map(len, column), default=0), most)
        for column, most in ((told, 16), ([one.what for one in lines], _WIDEST), ([one.word for one in lines], _WIDEST))
    )
    return [
        (time.ljust(when), mark(one.severity), one.what.ljust(what), one.word.ljust(word), sanitize.line(one.detail))
        for time, one in zip(told, lines, strict=True)
    ]


def texts(lines: Sequence[Line], of: Times) -> list[str]:
    """The lines as plain text."""
    return [" ".join((when, sign, what, word, detail)).rstrip() for when, sign, what, word, detail in parts(lines, of)]
