"""An audit log, of this machine's or a host's, as people read it. Fields that nobody has words for are shown as they are."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from console.core import reading, sanitize
from pipeline.contract import free, transition

_MAX = 400
_LINES = 200
_OWN = frozenset(("wall_s", "boot_s", "boot_id", "who", "by", "what", "host", "run", "attempt", "reply"))


class Log(NamedTuple):
    """The newest entries of a log, oldest first."""

    entries: list[dict[str, Any]]
    unreadable: int
    """Lines among them that are no entries."""
    older: bool
    """The file has more."""


class Words(NamedTuple):
    what: str
    who: str
    text: str


def of_lines(raw: Sequence[bytes], older: bool) -> Log:
    """Lines of a file; ``older``: those before them were left there."""
    found = [_entry(line) for line in raw[-_LINES:]]
    entries = [one for one in found if one is not None]
    return Log(entries, len(found) - len(entries), older or len(raw) > _LINES)


def of_reply(reply: dict[str, Any]) -> Log:
    """What a host answered."""
    told = reading.sequence(reply, "lines") or []
    entries = [one for one in told[-_LINES:] if isinstance(one, dict)]
    unreadable = (reading.count(reply, "unreadable") or 0) + sum(not isinstance(one, dict) for one in told)
    return Log(entries, unreadable, reading.flag(reply, "older") is True or len(told) > _LINES)


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
        "launch": _launch,
        "stop": _stop,
        "dump": _stop,
        "override": _override,
        "take-over": _take_over,
    }.get(what, _plain)
    return Words(what, who, sanitize.line(", ".join(part for part in [*told(entry), *_where(entry), *_reply(entry)] if part), _MAX))


def _free(entry: dict[str, Any]) -> list[str]:
    """A confirmation: what was typed, over which plan, for whom."""
    rows = [one for one in reading.sequence(entry, "processes") or [] if isinstance(one, list) and len(one) >= 4]
    named = ", ".join(f"{one[0]} {one[2]} {one[3]}" for one in rows[:4]) + (f" and {len(rows) - 4} more" if len(rows) > 4 else "")
    return [_typed(entry), f"processes: {named}" if named else ""]


def _transition(entry: dict[str, Any]) -> list[str]:
    override = reading.text(entry, "override", 200)
    return [_typed(entry), "armed" if entry.get("armed") is True else "", f"override: {override}" if override else ""]


def _typed(entry: dict[str, Any]) -> str:
    return f"typed {reading.text(entry, 'phrase', 300)!r} for plan {reading.text(entry, 'digest', 40)}"


def _result(entry: dict[str, Any]) -> list[str]:
    code = reading.count(entry, "exit_code")
    return [f"{reading.text(entry, 'outcome', 40)}: {reading.text(entry, 'line', _MAX)}", f"exit code {code}"]


def _baseline(entry: dict[str, Any]) -> list[str]:
    gpus = reading.mapping(entry, "gpus") or {}
    sizes = [f"{uuid} {free.mib(size)} MiB" for uuid in sorted(gpus) if (size := reading.count(gpus, uuid)) is not None]
    return [f"idle baseline of {len(sizes)} GPUs accepted, not 0: {'; '.join(sizes)}"]


def _launch(entry: dict[str, Any]) -> list[str]:
    """A start. Interpreter and arguments are told with the question, not again with the answer."""
    interpreter = reading.text(entry, "interpreter", 200)
    args = " ".join(str(one) for one in reading.sequence(entry, "args") or [])
    override = reading.text(entry, "override_gpus", 200)
    past = f"GPUs not verified free, override: {override}" if override else ""
    again = "it was there already" if entry.get("existing") is True else ""
    return [_stage(entry), f"with {interpreter} {args}".rstrip() if interpreter else "", past, again]


def _stop(entry: dict[str, Any]) -> list[str]:
    pid = reading.count(entry, "pid")
    return [_stage(entry), "" if pid is None else f"pid {pid}"]


def _override(entry: dict[str, Any]) -> list[str]:
    """A reason that let a stage start all the same, and past what."""
    past = [reading.text(entry, "line", 300), *(str(one) for one in reading.sequence(entry, "overridden") or [])]
    return [_stage(entry), f"reason: {reading.text(entry, 'reason', 300)}", f"past: {'; '.join(one for one in past if one)}"]


def _take_over(entry: dict[str, Any]) -> list[str]:
    holder = reading.text(entry, "taken_from") or reading.text(entry, "from")
    return [f"control taken from {holder}" if holder else "control taken"]


def _stage(entry: dict[str, Any]) -> str:
    return reading.text(entry, "stage", 40) or "unknown stage"


def _where(entry: dict[str, Any]) -> list[str]:
    return [f"{key} {value}" for key in ("run", "attempt") if (value := reading.text(entry, key, 80))]


def _reply(entry: dict[str, Any]) -> list[str]:
    """Two lines are kept of each: before it was asked, and what was answered."""
    if "reply" not in entry:
        return []
    reply = reading.text(entry, "reply", 200)
    unanswered = reply.startswith(("error: ", "interrupted "))
    return [reply if unanswered else f"answered {reply}"] if reply else ["asked"]


def _plain(entry: dict[str, Any]) -> list[str]:
    return [f"{key} {json.dumps(value)}" for key, value in entry.items() if key not in _OWN and value is not None]


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None
