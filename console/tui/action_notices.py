"""What passes by when the host does an action and no sheet shows it: that somebody began, and what came of it, also after a reconnect."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from console.core import free_live, transition_live
from console.tui.messages import Said
from console.tui.state import ConsoleState
from pipeline.contract import telemetry, transition

if TYPE_CHECKING:
    from console.core.action import Action
    from console.core.views import HostView

RECENT_S = 900.0
"""What ended longer ago is no news to a console that has just come."""


class ActionNotices:
    """Of one console. Each attempt is told of at most twice."""

    def __init__(self, state: ConsoleState, on_card: Callable[[str], bool]) -> None:
        """``on_card``: whether a card tells of the end of this attempt."""
        self._state, self._on_card = state, on_card
        self._told: set[tuple[str, bool]] = set()

    def of(self, view: "HostView") -> list[Said]:
        """What is new in this view; an end rings."""
        return [words for one in view.actions.values() for words in self._of(one, view)]

    def _of(self, one: "Action", view: "HostView") -> list[Said]:
        if (one.attempt.id, one.live_now) in self._told or not (one.live_now or one.attempt.ended):
            return []
        known = (one.attempt.id, True) in self._told
        self._told.add((one.attempt.id, one.live_now))
        ended_s = view.age_s(one.attempt.ended_boot_s, 0.0)
        old = one.attempt.ended and not known and (ended_s is None or ended_s > RECENT_S)
        if old or self._on_card(one.attempt.id) or self._state.shown_action == one.attempt.id:
            return []
        if one.live_now and one.attempt.stage == transition.ACTION:
            return []  # a line above the dashboard says so, as long as it is so
        return [self._words(one)]

    def _words(self, one: "Action") -> Said:
        if one.attempt.stage == transition.ACTION:
            return self._transition(one)
        key = "t shows it" if self._state.read_only else "F shows it"  # where F is dead, t shows both
        if one.live_now:
            return Said(f"GPUs of {self._state.host} are being freed by {one.attempt.by or 'somebody'}; {key}")
        good = one.attempt.state == telemetry.DONE
        key = "t shows it" if self._state.read_only else "F, then the receipt"
        return Said(f"freeing GPUs ended: {free_live.standing(one)}; {key}", "information" if good else "warning", rings=True)

    def _transition(self, one: "Action") -> Said:
        good = one.attempt.state == telemetry.DONE
        if alert := transition_live.alert(one):
            return Said(f"ALERT: the transition stopped, the GPUs are held: {alert}; t shows it, and what to do", "error", rings=True)
        return Said(f"the transition ended: {transition_live.standing(one)}; t shows it", "information" if good else "warning", rings=True)
