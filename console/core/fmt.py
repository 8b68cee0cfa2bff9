"""Numbers as people read them. GB are 10^9 bytes, MiB are 2^20 bytes; an unknown number is a dash, never a zero."""

import math

import humanize

UNKNOWN = "-"
_MIB = 1 << 20
_UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def count(value: float | None) -> str:
    """``1,480``."""
    return UNKNOWN if value is None else humanize.intcomma(round(value))


def share(done: float | None, total: float | None) -> str:
    """``1,480/10,000``; without a known total ``1,480``."""
    return count(done) if total is None else f"{count(done)}/{count(total)}"


def size(value: float | None) -> str:
    """Bytes with three significant digits and decimal units: ``147 GB``, ``2.65 TB``."""
    if value is None:
        return UNKNOWN
    rounded = _three_digits(value)
    return humanize.naturalsize(rounded, format="%.3g").replace("Bytes", "B").replace("Byte", "B")


def mib(value: float | None) -> str:
    """Bytes as whole MiB, ``82,604``. Rounded up, so that memory that is held never reads as 0."""
    return UNKNOWN if value is None else humanize.intcomma(math.ceil(value / _MIB))


def tokens(value: float | None) -> str:
    """``2.56 Mtok``."""
    return UNKNOWN if value is None else humanize.metric(_three_digits(value), "tok") if value else "0 tok"


def rate(value: float | None) -> str:
    """A number each second: ``4,333`` from ten up, ``2.5`` below, two digits under one."""
    if value is None:
        return UNKNOWN
    return humanize.intcomma(round(value)) if value >= 9.95 else f"{value:.1f}" if value >= 0.995 or value == 0 else f"{value:.2g}"


def percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}%"


def share_percent(share: float | None) -> str:
    """A share of 1 as ``98.3%``; never rounded up to 100."""
    if share is None:
        return UNKNOWN
    return "100%" if share >= 1 else f"{math.floor(share * 1000) / 10:.1f}%"


def age(seconds: float | None) -> str:
    """How old a fact is: ``0.4 s``, ``41 s``, ``9 min 12 s``. A host time ahead of its frame by a rounding error is 0."""
    if seconds is None:
        return "age unknown"
    seconds = max(seconds, 0.0)
    return f"{seconds:.1f} s" if seconds < 9.95 else duration(seconds)


def duration(seconds: float | None) -> str:
    """``41 s``, ``9 min 12 s``, ``7 h 12 min``, ``2 d 3 h``."""
    if seconds is None:
        return UNKNOWN
    whole = round(max(seconds, 0.0))
    if whole < 60:
        return f"{whole} s"
    big, big_name, small, small_name = next(unit for unit in _UNITS if whole >= unit[0])
    rest = whole % big // small
    return f"{whole // big} {big_name} {rest} {small_name}" if rest else f"{whole // big} {big_name}"


def _three_digits(value: float) -> float:
    """Rounded before the unit is chosen, so that 999,950 becomes 1 M and not 1e+03 k."""
    if value == 0:
        return 0
    return round(value, 2 - math.floor(math.log10(abs(value))))
