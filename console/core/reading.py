"""Taking values out of frames that came over the wire: whatever is there, nothing raises, and what is not there stays "not there"."""

from typing import Any

import msgspec

from console.core import sanitize
from pipeline.contract import telemetry

NEVER_READ = "never read"
_MAX_WORD_CHARS = 200
_LARGEST = float(1 << 62)


class Reading(msgspec.Struct, frozen=True):
    """A metric: the number that was measured, or why there is none."""

    value: float | None
    why: str = ""
    """Empty when there is a value; else one of ``telemetry.MISSING_WORDS`` with an optional detail, or "never read"."""

    @property
    def known(self) -> bool:
        return self.value is not None


def reading(source: Any, key: str, largest: float = _LARGEST) -> Reading:
    """The metric at ``key``. Negative numbers and such beyond ``largest`` were not measured, they are errors."""
    raw = source.get(key) if isinstance(source, dict) else None
    value = telemetry.number(raw)
    if value is not None:
        return Reading(value) if 0 <= value <= largest else Reading(None, f"{telemetry.ERROR}: impossible value {value:.6g}")
    if isinstance(raw, str) and raw.partition(":")[0] in telemetry.MISSING_WORDS:
        return Reading(None, sanitize.line(raw, _MAX_WORD_CHARS))
    return Reading(None, NEVER_READ if raw is None else f"{telemetry.ERROR}: not a number")


def number(source: Any, key: str) -> float | None:
    """A finite number at ``key``, of either sign; else None."""
    value = telemetry.number(source.get(key)) if isinstance(source, dict) else None
    return value if value is not None and abs(value) <= _LARGEST else None


def count(source: Any, key: str) -> int | None:
    """A whole number of things at ``key``, zero or more; else None."""
    value = number(source, key)
    return int(value) if value is not None and value >= 0 and value == int(value) else None


def text(source: Any, key: str, max_chars: int = _MAX_WORD_CHARS) -> str:
    """A safe line at ``key``; empty when there is no string."""
    value = source.get(key) if isinstance(source, dict) else None
    return sanitize.line(value, max_chars) if isinstance(value, str) else ""


def flag(source: Any, key: str) -> bool | None:
    """True or False when ``key`` says so literally; else None, which is neither."""
    value = source.get(key) if isinstance(source, dict) else None
    return value if isinstance(value, bool) else None


def mapping(source: Any, key: str) -> dict[str, Any] | None:
    value = source.get(key) if isinstance(source, dict) else None
    return value if isinstance(value, dict) else None


def sequence(source: Any, key: str) -> list[Any] | None:
    value = source.get(key) if isinstance(source, dict) else None
    return value if isinstance(value, list) else None
