"""When to dial again: quickly at first, at most every 30 s for as long as it takes."""

import tenacity

HEALTHY_SECONDS = 60.0
"""A connection that lived this long ends an outage."""
SOON_SECONDS = 600.0
"""After this long an outage is not a hiccup any more."""


def _about(seconds: float) -> tenacity.wait.wait_base:
    """10 % to either side, so that many consoles do not dial in step."""
    return tenacity.wait_random(0.9 * seconds, 1.1 * seconds)


_SOON = tenacity.wait_chain(*map(_about, (0.5, 1.0, 2.0, 4.0, 7.0)))
_LATER = _about(30.0)


class Backoff:
    """The waits of one link. ``attempt`` counts the dials of this outage that have begun."""

    def __init__(self) -> None:
        self.attempt = 0
        self._waits = 0
        self._since_s: float | None = None

    def dialing(self) -> None:
        self.attempt += 1

    def lost(self, now_s: float, lived_s: float) -> float:
        """Seconds to wait after a working connection is gone: none for the first time in an outage."""
        if lived_s >= HEALTHY_SECONDS:
            self._since_s, self._waits = None, 0
        self.attempt = 0
        if self._since_s is None:
            self._since_s = now_s
            return 0.0
        return self.failed(now_s)

    def failed(self, now_s: float) -> float:
        """Seconds to wait after a dial that failed."""
        if self._since_s is None:
            self._since_s = now_s
        self._waits += 1
        state = tenacity.RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]
        state.attempt_number = self._waits
        return (_SOON if now_s - self._since_s < SOON_SECONDS else _LATER)(state)
