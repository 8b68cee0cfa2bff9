"""The words for a link: a pure function of what is known and of the clock, so that a screen can ask at every tick."""

from dataclasses import dataclass

from console.remote.errors import AUTH_KINDS, HOST_KEY_KINDS, SshError

CONNECTING = "CONNECTING"
LIVE = "LIVE"
LATE = "LATE"
NO_DATA = "NO DATA"
"""The connection stands and the host program is silent."""
RECONNECTING = "RECONNECTING"
AUTH_NEEDED = "AUTH NEEDED"
HOST_KEY = "HOST KEY"
FAILED = "FAILED"
CLOSED = "CLOSED"

LIVE_SECONDS, LIVE_INTERVALS = 3.0, 3.0
LATE_SECONDS, LATE_INTERVALS = 15.0, 5.0
"""Bounds of the newest frame's age: seconds, or so many intervals of frames if that is more."""


@dataclass(frozen=True)
class LinkStatus:
    """How a link stands."""

    word: str
    age_s: float | None
    """Age of the newest frame; None before the first one (and the first ping)."""
    attempt: int
    """Which dial of this outage is under way, or failed last; 0 while connected."""
    next_in_s: float | None
    """Until the next dial; None while one is under way, and where none will come."""
    detail: str
    """Why it is not live; empty where there is nothing to say."""


@dataclass
class Facts:
    """What a link knows of itself. Times are local seconds since boot."""

    interval_s: float = 1.0
    connected_s: float | None = None
    """Since when a host program answers; None while there is none."""
    fresh: bool = False
    """A frame came over this connection."""
    ever: bool = False
    """A host program answered before."""
    attempt: int = 0
    next_s: float | None = None
    """When the next dial is due."""
    error: SshError | None = None
    """Why the last dial failed or the connection ended."""
    stopped: bool = False
    """The error waits for a person: no dial comes by itself."""
    closed: bool = False


def judge(facts: Facts, age_s: float | None, now_s: float) -> LinkStatus:
    """The status at ``now_s``; ``age_s`` is the newest frame's age then."""
    next_in_s = None if facts.next_s is None else max(0.0, facts.next_s - now_s)
    detail = str(facts.error) if facts.error else ""
    if facts.closed:
        return LinkStatus(CLOSED, age_s, 0, None, "")
    if facts.stopped and facts.error:
        word = AUTH_NEEDED if facts.error.kind in AUTH_KINDS else HOST_KEY if facts.error.kind in HOST_KEY_KINDS else FAILED
        return LinkStatus(word, age_s, facts.attempt, None, detail)
    live_s = max(LIVE_SECONDS, LIVE_INTERVALS * facts.interval_s)
    late_s = max(LATE_SECONDS, LATE_INTERVALS * facts.interval_s)
    by_age = NO_DATA if age_s is None or age_s > late_s else LATE if age_s > live_s else LIVE
    if facts.connected_s is not None:
        waiting = not facts.fresh and now_s - facts.connected_s < late_s
        if by_age != NO_DATA or not waiting:
            silent = "the connection stands, the host program is silent" if by_age == NO_DATA else ""
            return LinkStatus(by_age, age_s, 0, None, silent)
    elif facts.ever and facts.attempt <= 1 and next_in_s is None and by_age != NO_DATA:
        return LinkStatus(LATE, age_s, facts.attempt, None, detail)  # the connection is gone, and the first dial is under way
    return LinkStatus(RECONNECTING if facts.ever else CONNECTING, age_s, facts.attempt, next_in_s, detail)
