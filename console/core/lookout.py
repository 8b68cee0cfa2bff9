"""What the host's own lookout saw of an attempt, as a frame tells it. Shape: ``pipeline.contract.telemetry.LOOKOUT``."""

from typing import Any

import msgspec

from console.core import reading
from pipeline.contract import signals
from pipeline.contract.signals import GapStats

MAX_RANKS = 64
_MAX_LINE_CHARS = 500
_MAX_ALARMS, _MAX_ALERTS, _MAX_GAPS, _MAX_GPUS = 16, 10, 16, 64
_LONGEST_S = 10 * 365 * 86400.0
_MOST_W = 1e5


class Alarm(msgspec.Struct, frozen=True):
    """The newest of one kind of trouble that the log told: ``pipeline.host.log_watch`` has the kinds."""

    kind: str
    count: int
    """How many lines of this kind there were."""
    line: str
    worker: str
    """Such as ``TP3`` or ``rank3``; empty when the line names none."""
    boot_s: float | None


class Alert(msgspec.Struct, frozen=True):
    """Something that the host told the operator by command or webhook."""

    what: str
    """``red``, ``crash``, ``finish``, ``disk`` or ``transition``."""
    how: str
    boot_s: float | None
    ok: bool | None
    """Whether it was delivered; None: it is being sent."""
    detail: str


class Lookout(msgspec.Struct, frozen=True):
    """The host's judgement at its last look; ``boot_s`` says when that was. It goes on while no console is connected."""

    boot_s: float | None
    level: str
    """One of the levels of ``pipeline.contract.signals``; empty: none told."""
    severity: str
    """``ok``, ``grey``, ``amber`` or ``red``; what is none of them is ``grey``."""
    line: str
    since_boot_s: float | None
    phase: str
    gaps: dict[str, GapStats]
    """Learned gaps by phase."""
    power_w: dict[int, float]
    """{GPU index: median W while steady}."""
    ranks_seen: int | None
    workers: tuple[str, ...]
    """As the log names them, such as ``TP0``."""
    alarms: tuple[Alarm, ...]
    alerts: tuple[Alert, ...]
    log_skipped_bytes: int | None = None
    """Of a log that grew faster than it could be looked at."""
    scale: float = 1.0
    """By which the floors of the stall rules are multiplied: ``watch.stall_scale`` of the run's settings."""


class RankProgress(msgspec.Struct, frozen=True):
    """One rank's own progress."""

    rank: int
    phase: str
    done: int | None
    last_boot_s: float | None
    beat_boot_s: float | None


class LoadPrior(msgspec.Struct, frozen=True):
    """Earlier loads of this stage and model on this host."""

    median_s: float
    count: int
    tokens_per_s: float | None = None
    """Their median while steady."""
    gpu_mib: float | None = None
    """Mean over their GPUs when they were loaded, the median of it."""


def parse_lookout(source: dict[str, Any] | None) -> Lookout | None:
    """None when there is none, or none yet."""
    if source is None:
        return None
    severity = reading.text(source, "severity")
    return Lookout(
        boot_s=reading.number(source, "boot_s"),
        level=reading.text(source, "level", 40),
        severity=severity if severity in signals.SEVERITIES else signals.GREY,
        line=reading.text(source, "line", _MAX_LINE_CHARS),
        since_boot_s=reading.number(source, "since_boot_s"),
        phase=reading.text(source, "phase", 40),
        gaps=_gaps(reading.mapping(source, "gaps") or {}),
        power_w=_power(reading.mapping(source, "power_w") or {}),
        ranks_seen=reading.count(source, "ranks_seen"),
        workers=tuple(_texts(reading.sequence(source, "workers") or [])),
        alarms=tuple(_alarm(one) for one in (reading.sequence(source, "alarms") or [])[:_MAX_ALARMS] if isinstance(one, dict)),
        alerts=tuple(_alert(one) for one in (reading.sequence(source, "alerts") or [])[-_MAX_ALERTS:] if isinstance(one, dict)),
        scale=_scale(source),
        log_skipped_bytes=reading.count(reading.mapping(source, "log"), "skipped_bytes"),
    )


def parse_ranks(source: list[Any] | None) -> tuple[RankProgress, ...]:
    """One entry a rank, by rank; what names no rank is left out."""
    found: dict[int, RankProgress] = {}
    for one in (source or [])[:MAX_RANKS]:
        rank = reading.count(one, "rank")
        if rank is not None:
            times = reading.number(one, "last_boot_s"), reading.number(one, "beat_boot_s")
            found[rank] = RankProgress(rank, reading.text(one, "phase", 40), reading.count(one, "done"), *times)
    return tuple(found[rank] for rank in sorted(found))


def parse_prior(source: dict[str, Any] | None) -> LoadPrior | None:
    median_s, count = reading.number(source, "median_s"), reading.count(source, "count")
    if median_s is None or not 0 < median_s <= _LONGEST_S or not count:
        return None
    tokens_per_s, gpu_mib = reading.number(source, "tokens_per_s"), reading.number(source, "gpu_mib")
    return LoadPrior(
        median_s, count, tokens_per_s if tokens_per_s and tokens_per_s > 0 else None, gpu_mib if gpu_mib and gpu_mib > 0 else None
    )


def parse_states(source: dict[str, Any] | None) -> dict[str, int] | None:
    """Process states of a tree, e.g. {"S": 8}; None when not told. A state is one letter."""
    if source is None:
        return None
    counts = {key: reading.count(source, key) for key in list(source)[:32] if isinstance(key, str) and len(key) == 1}
    return {key: count for key, count in counts.items() if count is not None}


def _gaps(source: dict[str, Any]) -> dict[str, GapStats]:
    found = {}
    for phase in list(source)[:_MAX_GAPS]:
        one = source[phase]
        if isinstance(one, dict) and isinstance(phase, str) and len(phase) <= 40:
            found[phase] = GapStats(reading.count(one, "count") or 0, *(_seconds(one, key) for key in ("median_s", "q99_s", "longest_s")))
    return found


def _scale(source: dict[str, Any]) -> float:
    value = reading.number(source, "scale")
    return value if value is not None and 0.001 <= value <= 100 else 1.0


def _seconds(source: dict[str, Any], key: str) -> float | None:
    value = reading.number(source, key)
    return value if value is not None and 0 <= value <= _LONGEST_S else None


def _power(source: dict[str, Any]) -> dict[int, float]:
    found = {}
    for key in list(source)[:_MAX_GPUS]:
        value = reading.number(source, key)
        if isinstance(key, str) and key.isascii() and key.isdigit() and len(key) <= 3 and value is not None and 0 <= value <= _MOST_W:
            found[int(key)] = value
    return found


def _texts(source: list[Any]) -> list[str]:
    lines = (reading.text({"text": one}, "text", 40) for one in source[:MAX_RANKS])
    return [line for line in lines if line]


def _alarm(source: dict[str, Any]) -> Alarm:
    line, worker = reading.text(source, "line", _MAX_LINE_CHARS), reading.text(source, "worker", 40)
    return Alarm(reading.text(source, "kind", 40), reading.count(source, "count") or 1, line, worker, reading.number(source, "boot_s"))


def _alert(source: dict[str, Any]) -> Alert:
    what, how, boot_s = reading.text(source, "what", 40), reading.text(source, "how", 80), reading.number(source, "boot_s")
    return Alert(what, how, boot_s, reading.flag(source, "ok"), reading.text(source, "detail"))
