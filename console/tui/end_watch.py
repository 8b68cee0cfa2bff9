"""Notices that attempts have ended: those that were seen alive, and those that began and ended while nobody looked from here."""

from collections.abc import Callable

from console import config
from console.core.action import Action
from console.core.attempt import Attempt
from console.core.views import HostView
from console.tui import last_look
from console.tui.last_look import Look
from console.tui.messages import Ended
from console.tui.options import Clocks
from console.tui.state import ConsoleState
from pipeline.contract import telemetry

KEEP_EVERY_S = 60.0
"""So much of what a killed console has shown is shown again by the next one."""


class EndWatch:
    """``heard`` for each frame of the run; ``keep`` at the end, and before another run is watched. ``post`` is given what is news."""

    def __init__(self, state: ConsoleState, clocks: Clocks, post: Callable[[Ended], object]):
        self._state, self._clocks, self._post = state, clocks, post
        self._alive: set[str] = set()
        self._told: set[str] = set()
        self._kept_s = float("-inf")
        self.reset()

    def reset(self) -> None:
        """Another run is watched."""
        self._alive.clear()
        self._look: Look | None = None
        self._remembered = False

    def launched(self, attempt: str) -> None:
        """It was started from here: its end is news, however soon it comes."""
        self._alive.add(attempt)

    def heard(self, view: HostView) -> None:
        """Look at the attempts of a frame, launches that were refused among them."""
        if not self._remembered:
            self._remembered = True
            self._look = last_look.read(config.state_dir(), self._state.host, str(self._state.run))
        for standing in (view.stages or {}).values():
            for attempt in (standing, standing.refused):
                if attempt is None:
                    continue
                if attempt.live:
                    self._alive.add(attempt.id)
                elif attempt.ended and attempt.id not in self._told and self._is_news(attempt, view):
                    self._told.add(attempt.id)
                    self._post(Ended(attempt))
        for action in view.actions.values():
            self._hear_action(action, view)
        self._look = last_look.of(view)
        if self._clocks.boot_s() - self._kept_s >= KEEP_EVERY_S:
            self.keep()

    def told(self, attempt: str) -> bool:
        """Whether its end was posted."""
        return attempt in self._told

    def _hear_action(self, one: Action, view: HostView) -> None:
        """One that ended while nobody looked from here; of one that was seen alive a sheet, a line above or a notice tells."""
        attempt = one.attempt
        if attempt.live:
            self._alive.add(attempt.id)
        elif attempt.ended and attempt.state != telemetry.REFUSED and one.run in (None, self._state.run):
            away = self._look is not None and self._look.before_end(attempt, view)
            if away and attempt.id not in self._alive and attempt.id not in self._told and self._state.shown_action != attempt.id:
                self._told.add(attempt.id)
                self._post(Ended(attempt))

    def keep(self) -> None:
        """Remember for the next console what was seen up to now."""
        if self._look is not None and self._state.run is not None:
            self._kept_s = self._clocks.boot_s()
            last_look.write(config.state_dir(), self._state.host, self._state.run, self._look)

    def _is_news(self, attempt: Attempt, view: HostView) -> bool:
        return attempt.id in self._alive or (self._look is not None and self._look.before_end(attempt, view))
