"""What a stage checked of its own output at its end: what every stage tells, and the rest of its numbers as they came."""

from typing import Any

import msgspec

from console.core import fmt, reading, sanitize

_MAX_LAYERS = 1024
_MAX_ROWS, _MAX_PARTS = 24, 8
_MAX_WORD_CHARS = 80
_ELSEWHERE = frozenset(
    (
        "attempt", "stage", "boot_s", "wall_s", "verified", "verified_samples", "bad", "samples", "planned_samples", "tokens", "bytes",
        "fingerprint", "limit", "output",
    )
)  # fmt: skip
"""Told in lines of their own, known from the attempt, or of no use to a reader."""


_IN_ALL = frozenset(("holdout", "holdout_samples", "prompts", "answered"))
"""Counts that are told with ``samples``, as ``160 + 16 held out``."""
_WORDS = {
    "answers": "answers read", "cut": "cut at the length limit", "forced": "always in", "holdout": "of the held-out ones",
    "holdout_tokens": "held-out tokens", "judged_again": "judged again", "loss_share": "loss on", "loss_tokens": "tokens with loss",
    "marks": "noteworthy", "mismatched": "ids not the template's", "spot_checked": "rows spot-checked",
    "spot_other_text": "of those with other text", "truncated": "cut at the length limit", "unchanged": "the same as before",
    "unchecked": "ids not compared",
}  # fmt: skip
"""Keys that say little to a person."""


class Receipt(msgspec.Struct, frozen=True):
    """Fields are None where the stage does not tell them. ``source``: all of it as it came; read it with ``core.reading`` or ``rows``."""

    verified: bool
    samples: int | None
    verified_samples: int | None
    """Read again whole, and sound."""
    bad: int | None
    tokens: int | None
    bytes: int | None
    planned_samples: int | None
    """Without a limit."""
    layer_ids: tuple[int, ...] | None
    load_s: float | None
    tokens_per_s_steady: float | None
    tokens_per_s_overall: float | None
    coverage: float | None
    """Share of token occurrences that the drafter's vocabulary covers, 0 to 1."""
    failed: int | None
    holdout: int | None
    """Kept apart from ``samples``, for the evaluation."""
    source: dict[str, Any]


def parse_receipt(source: dict[str, Any] | None) -> Receipt | None:
    """None when there is none."""
    if source is None:
        return None
    layers = reading.sequence(source, "layer_ids")
    whole = layers is not None and len(layers) <= _MAX_LAYERS and all(type(one) is int for one in layers)
    coverage = reading.number(source, "coverage")
    return Receipt(
        verified=source.get("verified") is True,
        samples=reading.count(source, "samples"),
        verified_samples=reading.count(source, "verified_samples"),
        bad=reading.count(source, "bad"),
        tokens=reading.count(source, "tokens"),
        bytes=reading.count(source, "bytes"),
        planned_samples=reading.count(source, "planned_samples"),
        layer_ids=tuple(layers) if layers is not None and whole else None,
        load_s=reading.number(source, "load_s"),
        tokens_per_s_steady=reading.number(source, "tokens_per_s_steady"),
        tokens_per_s_overall=reading.number(source, "tokens_per_s_overall"),
        coverage=coverage if coverage is not None and 0 <= coverage <= 1 else None,
        failed=reading.count(source, "failed"),
        holdout=_first(reading.count(source, "holdout"), reading.count(source, "holdout_samples")),
        source=source,
    )


def rows(receipt: Receipt) -> list[tuple[str, str]]:
    """The numbers that only this stage has, safe to print: each with its name in words. Texts and lists stay out but for short ones."""
    found = []
    for key, value in receipt.source.items():
        if key in _ELSEWHERE or (key in _IN_ALL and not isinstance(value, dict)) or str(key).endswith("sha256") or len(found) >= _MAX_ROWS:
            continue
        shown = _shown(str(key), value)
        if shown:
            found.append((_name(str(key)), shown))
    return found


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _name(key: str) -> str:
    if key in _WORDS:
        return _WORDS[key]
    key = key.replace("_per_s", "/s")
    for ending in ("_bytes", "_s", "_share"):
        key = key.removesuffix(ending)
    return sanitize.line(key.replace("_", " "), 30)


def _shown(key: str, value: Any) -> str:
    """A value by the unit in its name; empty for what is no number, no short word and holds none."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        parts = [f"{_name(str(name))} {shown}" for name, one in list(value.items())[:_MAX_PARTS] if (shown := _shown(key, one))]
        return ", ".join(parts) + (" …" if len(value) > _MAX_PARTS else "")
    if isinstance(value, list):
        parts = [shown for one in value[:_MAX_PARTS] if not isinstance(one, (dict, list)) and (shown := _shown(key, one))]
        return ", ".join(parts) + (" …" if len(value) > _MAX_PARTS else "")
    if isinstance(value, str):
        return sanitize.line(value, _MAX_WORD_CHARS)
    number = reading.number({"": value}, "")
    if number is None:
        return ""
    if key.endswith("_bytes"):
        return fmt.size(number)
    if key.endswith(("_per_s", "rate")):
        return f"{fmt.rate(number)} a second"
    if key.endswith("_s"):
        return fmt.duration(number)
    if key == "coverage" or key.endswith(("_share", "coverage")) or key.startswith(("share_", "coverage", "with_")):
        return fmt.share_percent(number)
    return fmt.count(number) if number == int(number) else f"{number:.4g}"
