"""What rings when a job's health turns bad: red, a disk that will not hold, an alarm out of its log. Each cause once an attempt;
a red that is over, and comes back long after, is another cause.

That an attempt has ended, ``end_watch`` tells; that a transition has stopped, ``action_notices``.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from console.core.worker_lines import without_worker
from console.tui import health, words
from console.tui.messages import Said
from console.tui.state import ConsoleState
from pipeline.contract import signals
from pipeline.contract.alarms import LABELS

if TYPE_CHECKING:
    from console.core.attempt import Attempt
    from console.core.views import HostView
    from pipeline.contract.signals import Verdict

RECENT_S = 900.0
"""An alarm of longer ago is no news to a console that has just come: its line on the dashboard says it."""
AGAIN_S = 1800.0
"""A red level that comes back after so long is another one, as the host's alerts have it."""
_DUMPABLE = (signals.STALLED_IDLE, signals.STALLED_SPIN, signals.BUSY_NO_PROGRESS)


class HealthNotices:
    """Of one console; a new link begins nothing anew."""

    def __init__(self, state: ConsoleState) -> None:
        self._state = state
        self._told: set[tuple[str, str]] = set()
        self._red_s: dict[tuple[str, str], float] = {}
        """{(attempt, level): host time when it was seen last}."""

    def of(self, view: "HostView") -> list[Said]:
        """What is new in this view of the watched run."""
        return [said for one in (view.stages or {}).values() if one.live for said in self._of(one, view)]

    def _of(self, one: "Attempt", view: "HostView") -> Iterator[Said]:
        verdict = health.verdict(self._state, one)
        if verdict is not None and verdict.severity == signals.RED and self._begins(one, verdict, view):
            way = "; e, then D, dumps its stacks" if verdict.level in _DUMPABLE and not self._state.read_only else "; e shows the evidence"
            yield Said(f"ALERT: {one.stage} {health.level_word(verdict)}: {verdict.line}{way}", "error", rings=True)
        disk = words.disk_risk(self._state, one)
        if disk.level in (signals.AMBER, signals.RED) and self._first(one, f"disk {disk.level}"):
            yield Said(
                f"ALERT: {one.stage}: the disk that it writes to: {disk.line}",
                "error" if disk.level == signals.RED else "warning",
                rings=True,
            )
        for alarm in health.alarms(one):
            if not self._first(one, f"alarm {alarm.kind}"):
                continue
            age_s = view.age_s(alarm.boot_s, 0.0)
            if age_s is None or age_s <= RECENT_S:
                name = health.worker_name(alarm)
                worker = f"{name}: " if name else ""
                what = LABELS.get(alarm.kind, alarm.kind)
                yield Said(f"ALARM {what} in the log of {one.stage}: {worker}{without_worker(alarm.line)}", "error", rings=True)

    def _begins(self, one: "Attempt", verdict: "Verdict", view: "HostView") -> bool:
        """A level that was red before is news once it comes back; not while it only went on unseen, or comes and goes."""
        key, since_s = (one.id, verdict.level), verdict.since_boot_s
        before_s = self._red_s.get(key)
        self._red_s[key] = view.boot_s
        return before_s is None or (since_s is not None and since_s - before_s >= AGAIN_S)

    def _first(self, one: "Attempt", cause: str) -> bool:
        key = (one.id, cause)
        known = key in self._told
        self._told.add(key)
        return not known
