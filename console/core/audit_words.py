"""A line of an audit log, of this machine's or a host's, as people read it. Fields that nobody has words for are shown as they are."""

import json
from typing import Any, NamedTuple

from console.core import reading, sanitize
from pipeline.contract import free, transition

_MAX = 400
_OWN = frozenset(("wall_s", "boot_s", "boot_id", "who", "by", "what", "host"))


class Words(NamedTuple):
    what: str
    who: str
    text: str


def words(entry: dict[str, Any]) -> Words:
    """What was done, by whom, and the rest of it in a line."""
    what = reading.text(entry, "what", 60)
    who = reading.text(entry, "who") or reading.text(entry, "by")
    told = {
        free.ACTION: _free,
        f"{free.ACTION} result": _result,
        "baseline-accept": _baseline,
        transition.ACTION: _transition,
        f"{transition.ACTION} result": _result,
    }.get(what, _plain)
    return Words(what, who, sanitize.line(told(entry), _MAX))


def _free(entry: dict[str, Any]) -> str:
    """A confirmation: what was typed, over which plan, for whom."""
    rows = [one for one in reading.sequence(entry, "processes") or [] if isinstance(one, list) and len(one) >= 4]
    named = ", ".join(f"{one[0]} {one[2]} {one[3]}" for one in rows[:4]) + (f" and {len(rows) - 4} more" if len(rows) > 4 else "")
    parts = [f"typed {reading.text(entry, 'phrase', 300)!r} for plan {reading.text(entry, 'digest', 40)}"]
    parts += [f"processes: {named}"] if named else []
    return ", ".join([*parts, *_where(entry), *_reply(entry)])


def _transition(entry: dict[str, Any]) -> str:
    armed = ["armed"] if entry.get("armed") is True else []
    override = reading.text(entry, "override", 200)
    parts = [f"typed {reading.text(entry, 'phrase', 300)!r} for plan {reading.text(entry, 'digest', 40)}", *armed]
    return ", ".join([*parts, *([f"override: {override}"] if override else []), *_where(entry), *_reply(entry)])


def _result(entry: dict[str, Any]) -> str:
    code = reading.count(entry, "exit_code")
    outcome, line = reading.text(entry, "outcome", 40), reading.text(entry, "line", _MAX)
    return ", ".join([f"{outcome}: {line}", f"exit code {code}", *_where(entry)])


def _baseline(entry: dict[str, Any]) -> str:
    gpus = reading.mapping(entry, "gpus") or {}
    sizes = [f"{uuid} {free.mib(size)} MiB" for uuid in sorted(gpus) if (size := reading.count(gpus, uuid)) is not None]
    return ", ".join([f"idle baseline of {len(sizes)} GPUs accepted, not 0: {'; '.join(sizes)}", *_where(entry), *_reply(entry)])


def _where(entry: dict[str, Any]) -> list[str]:
    return [f"{key} {value}" for key in ("run", "attempt") if (value := reading.text(entry, key, 80))]


def _reply(entry: dict[str, Any]) -> list[str]:
    """Two lines are kept of each: before it was asked, and what was answered."""
    if "reply" not in entry:
        return []
    reply = reading.text(entry, "reply", 200)
    return [f"answered {reply}"] if reply else ["asked"]


def _plain(entry: dict[str, Any]) -> str:
    return ", ".join(f"{key} {json.dumps(value)}" for key, value in entry.items() if key not in _OWN and value is not None)
