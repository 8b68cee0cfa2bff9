"""The receipt of a transition, in words: each step with what it proved, the stages that it launched, and what stopped it."""

from typing import Any

from console.core import fmt, free_receipt, reading, unheld
from pipeline.contract import transition

_MAX = 500
_ONCE = 100
"""What is longer and stands in the receipt's line is not said again."""


def line(receipt: dict[str, Any]) -> str:
    return reading.text(receipt, "line", 2000) or "the receipt holds no line"


def outcome(receipt: dict[str, Any]) -> str:
    return reading.text(receipt, "outcome", 40)


def steps(receipt: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(step, state, what it came to) in their order."""
    found = []
    for one in reading.sequence(receipt, "steps") or []:
        if isinstance(one, dict):
            seconds = reading.number(one, "seconds")
            took = f"  {fmt.age(seconds)}" if seconds is not None and seconds >= 0.05 else ""
            came_to = reading.text(one, "line", _MAX)
            if len(came_to) > _ONCE and came_to in line(receipt):
                came_to = "as said above"
            said = f"{reading.text(one, 'stage', 40)}: {came_to}{took}"
            found.append((reading.text(one, "step", 40), reading.text(one, "state", 20), said))
    return found


def failed_checks(receipt: dict[str, Any]) -> list[str]:
    """Of the preflight: what was not ok, and what to do about it."""
    found = []
    for one in reading.sequence(receipt, "preflight") or []:
        if isinstance(one, dict) and one.get("ok") is not True:
            todo = reading.text(one, "what_to_do", _MAX)
            word = "not ok" if one.get("ok") is False else "cannot tell"
            found.append(f"{reading.text(one, 'check', 60)}: {word}: {reading.text(one, 'evidence', _MAX)}" + (f"; {todo}" if todo else ""))
    return found


def sections(receipt: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Headings and lines, for screen and command line alike."""
    marks = {transition.PROVEN: "ok ", transition.NOT_PROVEN: "NOT"}
    told = steps(receipt)
    wide = max((len(name) for name, _, _ in told), default=0)
    launched = reading.mapping(receipt, "launched") or {}
    stopped_at = reading.text(receipt, "stopped_at", 40)
    alert, override = reading.text(receipt, "alert", _MAX), reading.text(receipt, "override", _MAX)
    freed = reading.mapping(receipt, "free")
    found = [
        ("ALERT, the GPUs are held", [alert] if alert else []),
        ("steps", [f"{marks.get(state, '?  ')} {name:<{wide}}  {said}" for name, state, said in told]),
        ("to go on", _to_go_on(receipt, stopped_at)),
        ("to copy, not run from here", _cures(receipt)),
        ("preflight, what was not ok", failed_checks(receipt)),
        ("launched", [f"{reading.text({'': one}, '', 40)}: attempt {reading.text(launched, one, 80)}" for one in launched]),
        ("freeing GPUs", _freed(receipt, freed) if freed else []),
        ("overridden", [override] if override else []),
        ("took", [fmt.age(reading.number(receipt, "took_s"))]),
        ("confirmed", [_confirmed(receipt)]),
    ]
    return [(heading, lines) for heading, lines in found if lines]


def _freed(receipt: dict[str, Any], freed: dict[str, Any]) -> list[str]:
    told = free_receipt.line(freed)
    return [*([] if told in line(receipt) else [told]), *free_receipt.services(freed)]


def _to_go_on(receipt: dict[str, Any], stopped_at: str) -> list[str]:
    if not stopped_at or outcome(receipt) != transition.STOPPED:
        return []
    at = transition.resumes_at(stopped_at, reading.text(receipt, "alert", _MAX))
    if not unheld.gpus(receipt):
        return [f"the next transition resumes at {at}"]
    return [f"the next transition resumes at {at}, and stops there while that memory stays", unheld.WAIT]


def _cures(receipt: dict[str, Any]) -> list[str]:
    """Memory of nobody first; else whose process no signal ends."""
    freed = reading.mapping(receipt, "free") or {}
    simulated = receipt.get("simulated") is True or freed.get("simulated") is True
    return unheld.cures(unheld.gpus(receipt), simulated) or free_receipt.last_resorts(freed)


def _confirmed(receipt: dict[str, Any]) -> str:
    phrase, by, digest = (reading.text(receipt, key, 300) for key in ("phrase", "by", "digest"))
    return f"{phrase!r} by {by or 'unknown'}, plan {digest}"
