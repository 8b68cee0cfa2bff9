"""One attempt of an action of the host, as a frame tells it: freeing GPUs. Shape: ``actions`` in ``pipeline.contract.telemetry.FRAME``."""

from typing import Any

import msgspec

from console.core import attempt, reading
from console.core.attempt import Attempt
from pipeline.contract.stages import ACTIONS

_MAX_POINTS, _MAX_GPUS = 240, 64

Point = tuple[float, tuple[int | None, ...]]
"""Host time, and MiB a GPU; None where it was not read."""


class Action(msgspec.Struct, frozen=True):
    """What it says of itself. ``attempt.receipt.source`` has only the receipt's plain values here."""

    attempt: Attempt
    run: str | None
    """None: of the host, not of a run."""
    step: str
    deadline_boot_s: float | None
    """When the wait that it is in ends at the latest; None when it waits for nothing."""
    note: str
    curve: tuple[Point, ...]
    indices: tuple[int | None, ...]
    """Of the GPUs in the curve; None, or not there: it is not told which one that is."""

    @property
    def live_now(self) -> bool:
        return self.attempt.live

    @property
    def told(self) -> dict[str, Any]:
        """Plain values of the receipt; {} before there is one."""
        return self.attempt.receipt.source if self.attempt.receipt else {}

    @property
    def line(self) -> str:
        """What came of it, in its own words; empty before."""
        return reading.text(self.told, "line", 2000) or (self.attempt.why if self.attempt.ended else "")


def parse_all(source: dict[str, Any] | None) -> dict[str, Action]:
    """{action: how it stands} of those that this version knows."""
    found = {}
    for name in ACTIONS:
        one = parse(source.get(name), name) if source else None
        if one is not None:
            found[name] = one
    return found


def parse(source: Any, name: str) -> Action | None:
    """None when it is no object."""
    made = attempt.parse(source, name)
    if made is None:
        return None
    progress = reading.mapping(source, "progress")
    return Action(
        attempt=made,
        run=attempt.name(source, "run") or None,
        step=reading.text(progress, "step", 40),
        deadline_boot_s=reading.number(progress, "deadline_boot_s"),
        note=reading.text(progress, "note"),
        curve=points(reading.sequence(progress, "curve")),
        indices=indices(reading.sequence(progress, "indices")),
    )


def points(source: list[Any] | None) -> tuple[Point, ...]:
    """Of a curve: [[boot_s, [MiB or null a GPU]], ...]; what is none is left out."""
    found = []
    for one in (source or [])[-_MAX_POINTS:]:
        if isinstance(one, list) and len(one) == 2 and isinstance(one[1], list):
            when = reading.number({"": one[0]}, "")
            if when is not None:
                found.append((when, tuple(reading.count({"": mib}, "") for mib in one[1][:_MAX_GPUS])))
    return tuple(found)


def indices(source: list[Any] | None) -> tuple[int | None, ...]:
    """Of the GPUs in a curve, in its order."""
    return tuple(reading.count({"": one}, "") for one in (source or [])[:_MAX_GPUS])


def baseline(source: dict[str, Any] | None) -> dict[str, int]:
    """{UUID: bytes} of an idle baseline, recorded or accepted."""
    found = {}
    for uuid in list(source or {})[:_MAX_GPUS]:
        size = reading.count(source, uuid)
        if size is not None:
            found[uuid] = size
    return found
