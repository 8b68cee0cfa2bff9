"""An attempt's whole time in at most 240 points, as its host keeps them: ``ATTEMPT/curve.json``."""

from itertools import pairwise
from typing import Any

import msgspec

from console.core import reading

_MAX_POINTS = 240


class Point(msgspec.Struct, frozen=True):
    """A moment in host seconds since boot. None: not known then."""

    boot_s: float
    done: int | None
    tokens: int | None
    bytes: int | None
    gpu_mib: float | None
    """Mean of the GPUs."""


def parse(source: Any) -> tuple[Point, ...]:
    """The points, oldest first; what is none, or not later than the one before, is left out."""
    found: list[Point] = []
    for one in (reading.sequence(source, "points") or [])[:_MAX_POINTS]:
        if not isinstance(one, list) or len(one) < 5:
            continue
        told = dict(zip(("boot_s", "done", "tokens", "bytes", "gpu_mib"), one[:5], strict=True))
        boot_s, mib = reading.number(told, "boot_s"), reading.number(told, "gpu_mib")
        if boot_s is None or (found and boot_s <= found[-1].boot_s):
            continue
        done, tokens, size = (reading.count(told, key) for key in ("done", "tokens", "bytes"))
        found.append(Point(boot_s, done, tokens, size, mib if mib is not None and mib >= 0 else None))
    return tuple(found)


def rates(points: tuple[Point, ...], name: str) -> list[tuple[float, float, float | None]]:
    """From when until when, and how much of ``done``, ``tokens`` or ``bytes`` a second; None where a count is missing or went back."""
    found: list[tuple[float, float, float | None]] = []
    for before, after in pairwise(points):
        low, high = getattr(before, name), getattr(after, name)
        gained = None if low is None or high is None or high < low else (high - low) / (after.boot_s - before.boot_s)
        found.append((before.boot_s, after.boot_s, gained))
    return found


def memory(points: tuple[Point, ...]) -> list[tuple[float, float, float | None]]:
    """From when until when, and the MiB that a GPU held: as read at the end of each."""
    return [(before.boot_s, after.boot_s, after.gpu_mib) for before, after in pairwise(points)]
