"""Waiting while memory falls: one light reading a second, until every GPU is at 0, or nothing has moved for too long."""

import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set

from pipeline.contract import free
from pipeline.contract.clock import boot_s
from pipeline.host.nvml_session import LIGHT, Session

SETTLE_S = 10.0
"""A few MiB that do not move for so long are left to the verification."""
LONGEST_S = 900.0
_MOVES_BYTES = free.MIB
_POINTS = 240
_FALLS_S = 3.0
"""Between two steps of memory that falls."""


class Curve:
    """What each GPU held, over time: at most ``_POINTS`` points, thinned evenly when there are more."""

    def __init__(self) -> None:
        self.points: List[List[Any]] = []
        """[boot_s, [MiB or null a GPU]]."""
        self.indices: List[Any] = []
        """Which GPUs those are, in their order: only the wanted ones are judged."""
        self._every, self._count = 1, 0

    def add(self, gpus: List[Dict[str, Any]]) -> None:
        used = [free.mib(one["used_bytes"]) if isinstance(one.get("used_bytes"), int) else None for one in gpus]
        if gpus:
            self.indices[:] = [one.get("index") for one in gpus]
        if self._count % self._every == 0:
            self.points.append([round(boot_s(), 2), used])
        self._count += 1
        if len(self.points) > _POINTS:
            self.points[:] = self.points[::2]  # others hold this list
            self._every *= 2


class Released(NamedTuple):
    result: str
    seconds: float
    falling: bool
    """It was still moving when the time was over."""


def wait(
    nvml: Session,
    curve: Curve,
    judged: Callable[[Dict[str, Any]], List[Dict[str, Any]]],
    held: Callable[[], Set[Any]],
    baseline: Dict[str, Dict[str, Any]],
    patience_s: float,
    interval_s: float,
    cancelled: Callable[[], bool],
    told: Callable[[float, str], None],
) -> Released:
    """Wait, in bounded time. ``held`` gives the UUIDs of GPUs whose holders are known and stay: nobody waits for those.

    ``told`` gets the seconds that are left without progress after each reading, and what memory does.
    """
    began = moved = time.monotonic()
    lowest: Optional[int] = None
    while True:
        reading, why = nvml.read(LIGHT, cancelled)
        now = time.monotonic()
        spent = round(now - began, 2)
        if reading is None:
            return Released("cancelled" if cancelled() else why, spent, False)
        gpus = judged(reading)
        curve.add(gpus)
        taken = held()
        waited = [one for one in gpus if one.get("uuid") not in taken]
        if any(not isinstance(one.get("used_bytes"), int) for one in waited):
            return Released("a GPU cannot be read", spent, False)
        total = sum(one["used_bytes"] for one in waited)
        if lowest is None or total <= lowest - _MOVES_BYTES:
            moved, lowest = now if lowest is not None else moved, total
        if all(one["used_bytes"] < free.MIB for one in waited):
            return Released("0 MiB" if not taken else "the rest is held", spent, False)
        if all(one["used_bytes"] <= free.IDLE_CAP_BYTES for one in waited):
            known = all(one["used_bytes"] <= _known(one, baseline) or one["used_bytes"] < free.MIB for one in waited)
            if known or now - moved >= min(SETTLE_S, patience_s):
                return Released("a few MiB that stay", spent, False)
        if now - moved >= patience_s or now - began >= LONGEST_S:
            return Released("no progress for %.0f s" % (now - moved), spent, now - moved < patience_s)
        told(patience_s - (now - moved), _words(waited, now - moved, patience_s))
        while time.monotonic() < now + interval_s and not cancelled():
            time.sleep(max(0.0, min(0.1, now + interval_s - time.monotonic())))
        if cancelled():
            return Released("cancelled", round(time.monotonic() - began, 2), False)


def _words(gpus: List[Dict[str, Any]], still_s: float, patience_s: float) -> str:
    holding = [one for one in gpus if one["used_bytes"] >= free.MIB]
    size = "{:,} MiB".format(free.mib(sum(one["used_bytes"] for one in holding)))
    where = "GPU %s" % free.spans(one["index"] for one in holding if isinstance(one.get("index"), int))
    if still_s < _FALLS_S:
        return "memory of %s falls, %s now" % (where, size)
    return "memory of %s stands still at %s for %.0f s, waiting up to %.0f s" % (where, size, still_s, patience_s)


def _known(gpu: Dict[str, Any], baseline: Dict[str, Dict[str, Any]]) -> int:
    """What this GPU held when it was provably idle; -1 when that is not known."""
    size = baseline.get(gpu.get("uuid") or "", {}).get("bytes")
    return size if isinstance(size, int) else -1
