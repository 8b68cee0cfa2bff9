"""What a running stage says of itself: newest ``progress/RANK.json`` in a frame. Shape: ``pipeline.progress``."""

from typing import Any

import msgspec

from console.core import reading, sanitize
from pipeline.contract import telemetry

_MAX_FACT_CHARS = 120
OK, WARN, BAD = "ok", "warn", "bad"
"""Levels of a fact, as ``pipeline.progress`` has them."""
MAX_FACTS = 8
WAITING = "WAITING"
"""The word for a stage that cannot work now."""
OF_THE_MOMENT = frozenset(("in flight", "server", "answers", "requests", "cache in use", "speed"))
"""Labels of the facts that generate and serve tell of the present moment; what they have counted stays true."""


class Fact(msgspec.Struct, frozen=True):
    """Something that the stage has counted, in its own words."""

    label: str
    text: str
    level: str
    """``ok``, ``warn`` or ``bad``; what is none of them is ``warn``."""


class Progress(msgspec.Struct, frozen=True):
    """What the stage says of itself. Times are host seconds since boot."""

    phase: str
    unit: str
    done: int | None
    total: int | None
    """Held-out units among them."""
    tokens: int | None
    total_tokens: int | None
    bytes: int | None
    total_bytes: int | None
    verified: int | None
    verify_total: int | None
    """Of how many."""
    bad: int | None
    load_done: int | None
    load_total: int | None
    """Weights loaded, of how many."""
    note: str
    resumed_done: int
    resumed_tokens: int
    phase_boot_s: float | None
    first_boot_s: float | None
    first_done: int | None
    first_tokens: int | None
    last_boot_s: float | None
    beat_boot_s: float | None
    boot_s: float | None
    facts: tuple[Fact, ...] = ()
    up: bool | None = None
    """Of a service: whether it answered when it was asked last."""
    up_boot_s: float | None = None
    """When it answered last."""
    pause: str = ""
    """What it announces that it does instead of units, such as a checkpoint; empty: nothing."""
    held_out_total: int | None = None
    """How many of ``total`` are held out for the evaluation; None where the stage does not tell."""

    @property
    def waits(self) -> str:
        """What keeps it from working now, as it says itself: a server that is gone or hangs. Empty when nothing does."""
        bad = [fact.text for fact in self.facts if fact.label == "server" and fact.level == BAD]
        return f"server {bad[0]}" if bad and self.phase == telemetry.STEADY else ""


def parse_progress(source: dict[str, Any] | None) -> Progress | None:
    """None when the stage has said nothing yet."""
    if source is None:
        return None
    return Progress(
        phase=reading.text(source, "phase"),
        unit=reading.text(source, "unit"),
        note=reading.text(source, "note"),
        pause=reading.text(source, "pause"),
        done=reading.count(source, "done"),
        total=reading.count(source, "total"),
        tokens=reading.count(source, "tokens"),
        total_tokens=reading.count(source, "total_tokens"),
        bytes=reading.count(source, "bytes"),
        total_bytes=reading.count(source, "total_bytes"),
        verified=reading.count(source, "verified"),
        verify_total=reading.count(source, "verify_total"),
        bad=reading.count(source, "bad"),
        load_done=reading.count(source, "load_done"),
        load_total=reading.count(source, "load_total"),
        resumed_done=reading.count(source, "resumed_done") or 0,
        resumed_tokens=reading.count(source, "resumed_tokens") or 0,
        phase_boot_s=reading.number(source, "phase_boot_s"),
        first_boot_s=reading.number(source, "first_boot_s"),
        first_done=reading.count(source, "first_done"),
        first_tokens=reading.count(source, "first_tokens"),
        last_boot_s=reading.number(source, "last_boot_s"),
        beat_boot_s=reading.number(source, "beat_boot_s"),
        boot_s=reading.number(source, "boot_s"),
        facts=tuple(_facts(reading.sequence(source, "facts") or [])),
        up=reading.flag(source, "up"),
        up_boot_s=reading.number(source, "up_boot_s"),
        held_out_total=reading.count(source, "held_out_total"),
    )


def at_its_end(progress: Progress | None) -> Progress | None:
    """Of an attempt that has ended: without what was true only of the moment in which it was told."""
    if progress is None or not any(fact.label in OF_THE_MOMENT for fact in progress.facts):
        return progress
    return msgspec.structs.replace(progress, facts=tuple(fact for fact in progress.facts if fact.label not in OF_THE_MOMENT))


def _facts(source: list[Any]) -> list[Fact]:
    found = []
    for one in source[:MAX_FACTS]:
        if isinstance(one, list) and len(one) == 3 and all(isinstance(part, str) for part in one):
            label, text, level = one
            words = sanitize.line(label, _MAX_FACT_CHARS), sanitize.line(text, _MAX_FACT_CHARS)
            found.append(Fact(*words, level if level in (OK, WARN, BAD) else WARN))
    return found
