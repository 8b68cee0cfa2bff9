"""How long an attempt stood still: the seconds at severity red, as its lookout tells them."""

from typing import Any, Dict, Optional, Tuple

from pipeline.contract.telemetry import STEADY, number

_LONGEST_S = 30.0
"""Looks are five seconds apart: of a longer time between two, nobody knows what was so."""


class Stalled:
    """Of one attempt. ``state`` is what a later lookout of it goes on with."""

    def __init__(self, known: Any):
        """``known``: the state that an earlier lookout left, or None."""
        told = known if isinstance(known, dict) else {}
        self._all_s, self._steady_s, self._open_s = (number(told.get(name)) or 0.0 for name in ("all_s", "steady_s", "open_s"))
        self._done = number(told.get("done"))
        self._watched = bool(told)
        self._look: Optional[Tuple[float, bool, bool]] = None  # when, whether red, whether steady

    def look(self, now: float, red: bool, progress: Dict[str, Any]) -> None:
        """It is red, or not, from now on; ``progress`` is that of rank 0."""
        self._count(now, progress)
        self._watched, self._look = True, (now, red, progress.get("phase") == STEADY)

    def end(self, now: float, progress: Dict[str, Any]) -> Dict[str, Optional[float]]:
        """{stalled_s, stalled_steady_s}: seconds in all, and those between the begin of steady work and the newest unit. None: no look."""
        self._count(now, progress)
        self._look = None
        return {"stalled_s": self._all_s if self._watched else None, "stalled_steady_s": self._steady_s if self._watched else None}

    @property
    def state(self) -> Optional[Dict[str, Any]]:
        if not self._watched:
            return None
        return {"all_s": round(self._all_s, 3), "steady_s": round(self._steady_s, 3), "open_s": round(self._open_s, 3), "done": self._done}

    def _count(self, now: float, progress: Dict[str, Any]) -> None:
        """A unit ends the standstill when it was finished, and makes it one within the steady work."""
        done, last_s = number(progress.get("done")), number(progress.get("last_boot_s"))
        moved = done is not None and self._done is not None and done > self._done
        if self._look is not None and self._look[1]:
            began, _, steady = self._look
            end = last_s if moved and last_s is not None and began <= last_s <= now else now
            seconds = min(max(end - began, 0.0), _LONGEST_S)
            self._all_s += seconds
            self._open_s += seconds if steady else 0.0
        if moved:
            self._steady_s, self._open_s = self._steady_s + self._open_s, 0.0
        self._done = done if done is not None else self._done
