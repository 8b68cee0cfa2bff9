"""What the lookout tells of its judgement: an event at every change of level, and an alert at red."""

from typing import Any, Callable, Optional

from pipeline.contract import events, signals
from pipeline.contract.signals import Verdict
from pipeline.host import alerts

_LATE_S = 30.0
"""After a limit: the looks that a level needs."""


class Levels:
    """Of one attempt. ``told`` is the level of the newest event, as ``LEVEL`` or ``LEVEL (SEVERITY)``."""

    def __init__(self, told: Any, alerts_: alerts.Alerts, event: Callable[..., None]):
        """``told`` is that of an earlier lookout, or None."""
        self.told = str(told or signals.FINE)
        self._alerts, self._event = alerts_, event
        self._first_s: Optional[float] = None
        self._taken_over = self.told != signals.FINE

    @property
    def red(self) -> bool:
        """Whether what was told last is red, by this lookout or an earlier one."""
        return self.told != signals.FINE and bool(self.told) and not self.told.endswith(")")

    def look(self, verdict: Verdict, now: float) -> None:
        if self._knows_less(verdict, now):
            return
        word = _word(verdict)
        if word != self.told:
            before, self.told = self.told, word
            self._event(events.STALL, level=verdict.level, severity=verdict.severity, line=verdict.line, before=before)
        if verdict.severity == signals.RED:
            self._alerts.tell(alerts.RED, verdict.level, "%s: %s" % (verdict.level, verdict.line), now)

    def _knows_less(self, verdict: Verdict, now: float) -> bool:
        """A judge that has just begun finds nothing wrong yet: what an earlier lookout told stands until the job gets anywhere, or until
        this one would have called it too.
        """
        if self._first_s is None:
            self._first_s = now
        if self._taken_over:
            watched_s = now - self._first_s
            moved = verdict.gap_s is None or verdict.gap_s < watched_s
            needed_s = dict(verdict.limits).get(self.told.partition(" (")[0], 0.0) + _LATE_S
            self._taken_over = not moved and verdict.severity != signals.RED and watched_s < needed_s
        return self._taken_over


def _word(verdict: Verdict) -> str:
    """Level and severity: QUIET is grey or amber."""
    return verdict.level if verdict.severity in (signals.OK, signals.RED) else "%s (%s)" % (verdict.level, verdict.severity)
