"""Attempts that have ended, as the host keeps a line of each: what the history screen shows. Shapes: the op ``history`` of docs/wire.md."""

from collections.abc import Sequence
from typing import Any

import msgspec

from console.core import attempt, fmt, reading, sanitize

_MOST_LINES = 2000
_MOST_ALARMS = 32


class Past(msgspec.Struct, frozen=True):
    """One attempt's summary. None and empty: not measured, or not told, which is never zero."""

    run: str
    stage: str
    attempt: str
    by: str
    outcome: str
    model: str
    model_fingerprint: str
    began_wall_s: float | None
    took_s: float | None
    load_s: float | None
    steady_s: float | None
    """From the end of loading, or the first unit, to the last unit: what ``tokens_per_s`` is of."""
    stalled_s: float | None
    """At severity red, in all. 0: it never stood still; None: nobody watched."""
    samples: int | None
    tokens: int | None
    bytes: int | None
    tokens_per_s: float | None
    """Within ``steady_s``."""
    working_tokens_per_s: float | None
    """The same without the standstills in it."""
    bad: int | None
    failed: int | None
    gaps: dict[str, float]
    """``count``, ``median_s``, ``q99_s``, ``longest_s``, as far as they are known."""
    alarms: dict[str, int]
    retried: bool | None
    why: str


def parse(reply: Any) -> tuple[Past, ...] | None:
    """Newest first; None when the reply holds no lines."""
    told = reading.sequence(reply, "lines")
    if told is None:
        return None
    return tuple(_past(one) for one in told[:_MOST_LINES] if isinstance(one, dict))


def _past(source: dict[str, Any]) -> Past:
    gaps = reading.mapping(source, "gaps") or {}
    alarms = reading.mapping(source, "alarms") or {}
    return Past(
        run=attempt.name(source, "run"),
        stage=reading.text(source, "stage", 40),
        attempt=attempt.name(source, "attempt"),
        by=reading.text(source, "by"),
        outcome=reading.text(source, "outcome", 40),
        model=reading.text(source, "model", 1000),
        model_fingerprint=reading.text(source, "model_fingerprint", 80),
        began_wall_s=reading.number(source, "began_wall_s"),
        took_s=reading.number(source, "took_s"),
        load_s=reading.number(source, "load_s"),
        steady_s=reading.number(source, "steady_s"),
        stalled_s=reading.number(source, "stalled_s"),
        samples=reading.count(source, "samples"),
        tokens=reading.count(source, "tokens"),
        bytes=reading.count(source, "bytes"),
        tokens_per_s=reading.number(source, "tokens_per_s_steady"),
        working_tokens_per_s=reading.number(source, "tokens_per_s_working"),
        bad=reading.count(source, "bad"),
        failed=reading.count(source, "failed"),
        gaps={key: value for key in ("count", "median_s", "q99_s", "longest_s") if (value := reading.number(gaps, key)) is not None},
        alarms={sanitize.line(key, 40): count for key in list(alarms)[:_MOST_ALARMS] if (count := reading.count(alarms, key))},
        retried=reading.flag(source, "retried"),
        why=reading.text(source, "why", 500),
    )


def trouble(one: Past) -> str:
    """``0``; ``3 bad, 41 failed``; ``stalled 3 min``; a dash where nobody has counted the bad ones and no standstill is known."""
    stalled = [f"stalled {fmt.duration(one.stalled_s)}"] if one.stalled_s else []
    return ", ".join(_wrong(one) + stalled) or (fmt.UNKNOWN if one.bad is None else "0")


def facts(one: Past) -> list[tuple[str, str]]:
    """Everything about it, a name and its value each; what is not known is left out."""
    pairs = [
        ("loading", fmt.duration(one.load_s) if one.load_s is not None else ""),
        ("steady", _steady(one)),
        ("stalled", _stalled(one)),
        ("made", _made(one)),
        ("bad, failed", ", ".join(_wrong(one)) or ("" if one.bad is None else "0")),
        ("took", fmt.duration(one.took_s) + " in all" if one.took_s is not None else ""),
        ("gaps", _gaps(one)),
        ("alarms", ", ".join(f"{fmt.count(count)} {kind}" for kind, count in one.alarms.items())),
        ("restarted", "once, by the host" if one.retried else ""),
        ("model", one.model + (f", fingerprint {one.model_fingerprint[:16]}" if one.model and one.model_fingerprint else "")),
        ("by", one.by),
    ]
    return [(name, value) for name, value in pairs if value]


def before(lines: Sequence[Past]) -> str:
    """What earlier attempts of one stage tell of the next one: ``loading took 24 min 31 s (2 times); 4,333 tok/s while steady``."""
    loads = sorted(one.load_s for one in lines if one.load_s is not None)
    rates = [rate for one in lines if (rate := one.working_tokens_per_s or one.tokens_per_s) is not None]
    told = []
    if loads:
        times = "once" if len(loads) == 1 else f"{len(loads)} times"
        told.append(f"loading took {fmt.duration(loads[len(loads) // 2])} ({times})")
    if rates:
        told.append(f"{fmt.rate(rates[0])} tok/s while steady, the last time")
    return "; ".join(told)


def _steady(one: Past) -> str:
    told = [] if one.steady_s is None else [fmt.duration(one.steady_s)]
    told += [] if one.tokens_per_s is None else [f"{fmt.rate(one.tokens_per_s)} tok/s"]
    return " at ".join(told)


def _stalled(one: Past) -> str:
    """Empty where it never stood still, and where nobody watched; and the rate without it, where that is another."""
    if not one.stalled_s:
        return ""
    other = one.working_tokens_per_s is not None and fmt.rate(one.working_tokens_per_s) != fmt.rate(one.tokens_per_s)
    return fmt.duration(one.stalled_s) + (f" ({fmt.rate(one.working_tokens_per_s)} tok/s without)" if other else "")


def _wrong(one: Past) -> list[str]:
    return [f"{fmt.count(number)} {what}" for number, what in ((one.bad, "bad"), (one.failed, "failed")) if number]


def _made(one: Past) -> str:
    told = [] if one.samples is None else [f"{fmt.count(one.samples)} units"]
    told += [] if one.tokens is None else [f"{fmt.count(one.tokens)} tokens"]
    told += [] if one.bytes is None else [fmt.size(one.bytes)]
    return ", ".join(told)


def _gaps(one: Past) -> str:
    if "median_s" not in one.gaps:
        return ""
    told = [f"median {one.gaps['median_s']:.3g} s"]
    told += [f"{name} {one.gaps[key]:.3g} s" for key, name in (("q99_s", "99 % below"), ("longest_s", "longest")) if key in one.gaps]
    counted = f" of {fmt.count(one.gaps['count'])}" if "count" in one.gaps else ""
    return ", ".join(told) + counted
