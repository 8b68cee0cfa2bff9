"""Notices that nobody looked at a run from here for a while: the console was not open, this machine slept, or the link was away."""

from typing import TYPE_CHECKING, NamedTuple

from console import config
from console.core.since import ABSENT_S
from console.tui import last_look
from console.tui.last_look import Look
from console.tui.state import ConsoleState

if TYPE_CHECKING:
    from console.core.since import Record
    from console.core.views import HostView

AWAY, LINK, SLEPT = "you were away", "the link was away", "this machine slept"
TRIES, TRY_EVERY_S = 3, 10.0
"""How often the host is asked what happened, where it does not answer."""


class Absence(NamedTuple):
    """From when to when nobody looked."""

    how: str
    """``AWAY``, ``LINK``, ``SLEPT``, or what else the time is."""
    since_wall_s: float
    """The host's wall clock when it was last looked at."""
    lasted_s: float


class LookBack(NamedTuple):
    """What the host answered, and when."""

    run: str
    absence: Absence
    record: "Record"
    asked_s: float
    """This machine's wall clock then."""


class AbsenceWatch:
    """``heard`` gives the absence that a frame of the run ended; it is to be called before the look that the frame is gets remembered."""

    def __init__(self, state: ConsoleState):
        self._state = state
        self.reset()

    def reset(self) -> None:
        """Another run is watched."""
        self._look: Look | None = None
        self._remembered = False
        self._pending: Absence | None = None
        self._asking = False
        self._tries, self._tried_s = 0, float("-inf")

    def heard(self, view: "HostView") -> Absence | None:
        """An absence that has just ended, or one of which the host has not told yet; None when there is none to ask about."""
        how = LINK
        if not self._remembered:
            self._remembered, how = True, AWAY
            self._look = last_look.read(config.state_dir(), self._state.host, str(self._state.run))
        found = self._between(self._look, view, how)
        self._look = last_look.of(view)
        if found is not None:
            since = found if self._pending is None else self._pending._replace(lasted_s=self._pending.lasted_s + found.lasted_s)
            self._pending, self._tries, self._tried_s = since, 0, float("-inf")
        if self._pending is None or self._asking or abs(view.boot_s - self._tried_s) < TRY_EVERY_S:
            return None
        self._asking, self._tries, self._tried_s = True, self._tries + 1, view.boot_s
        return self._pending

    def asked(self, told: bool) -> None:
        """The question is over: the host has answered, or it is to be asked again in a while."""
        self._asking = False
        if told or self._tries >= TRIES:
            self._pending = None

    def _between(self, look: Look | None, view: "HostView", how: str) -> Absence | None:
        if look is None:
            return None
        if look.boot_id == view.boot_id:
            lasted = view.boot_s - look.boot_s
            since = look.wall_s if view.wall_s is None else view.wall_s - lasted
        else:
            lasted = 0.0 if look.wall_s is None or view.wall_s is None else view.wall_s - look.wall_s
            since = look.wall_s
        if since is None or lasted <= ABSENT_S:
            return None
        slept_s = self._state.slept_s
        return Absence(SLEPT if how == LINK and slept_s is not None and slept_s >= lasted / 2 else how, since, lasted)
