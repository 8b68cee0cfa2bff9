"""The receipt of freeing GPUs, in words: the verdict a GPU, what became of each process, and what it took. Shape: docs/wire.md."""

from typing import Any

import msgspec

from console.core import fmt, free_memory, reading, unheld
from pipeline.contract import free

_MAX = 400
_LONG = 2000
_ONCE = 40
"""Words that are longer are not said again of the next GPU."""


class GpuEnd(msgspec.Struct, frozen=True):
    """What is proven of one GPU. Bytes; None: not read, or no size that can be."""

    index: int
    uuid: str
    before: float | None
    readings: tuple[float | None, ...]
    verdict: str
    kind: str
    detail: str
    accepted: bool
    """An idle baseline that was accepted for the run: usable, and not 0."""

    @property
    def word(self) -> str:
        return free_memory.ACCEPTED if self.accepted else self.verdict

    @property
    def now(self) -> float | None:
        known = [one for one in self.readings if one is not None]
        return max(known) if known else None


def gpus(receipt: dict[str, Any]) -> list[GpuEnd]:
    """In the order of their indices."""
    before = {reading.text(one, "uuid"): reading.count(one, "used_bytes") for one in reading.sequence(receipt, "before") or []}
    found = []
    for one in reading.sequence(receipt, "gpus") or []:
        index = reading.count(one, "index")
        if index is None:
            continue
        uuid, kind = reading.text(one, "uuid"), reading.text(one, "kind", 40)
        used = reading.sequence(one, "used_bytes") or []
        verdict = reading.text(one, "verdict", 40)
        finding = reading.text(one, "finding", _MAX)
        found.append(
            GpuEnd(
                index=index,
                uuid=uuid,
                before=before.get(uuid),
                readings=tuple(reading.count({"": value}, "") for value in used[:20]),
                verdict=verdict if verdict in (free.FREE, free.NOT_FREE, free.CANNOT_TELL) else free.CANNOT_TELL,
                kind=kind,
                detail=reading.text(one, "detail", _MAX) + (f"; {finding}" if finding else ""),
                accepted=receipt.get("accepted") is True and kind == free.BASELINE,
            )
        )
    return sorted(found, key=lambda gpu: gpu.index)


def line(receipt: dict[str, Any]) -> str:
    """The verdict in a line, as the host says it."""
    return reading.text(receipt, "line", _LONG) or "the receipt holds no verdict"


def outcome(receipt: dict[str, Any]) -> str:
    return reading.text(receipt, "outcome", 40)


def word(receipt: dict[str, Any]) -> str:
    """What it came to, in a word or two: the verdict once it went through, else its outcome."""
    return (reading.text(receipt, "verdict", 40) if outcome(receipt) == free.DONE else "") or outcome(receipt)


def changed(receipt: dict[str, Any]) -> list[str]:
    """What was not as confirmed, a line each; nothing was done then."""
    if outcome(receipt) != free.PLAN_CHANGED:
        return []
    return [reading.text({"": one}, "", _MAX) for one in reading.sequence(receipt, "difference") or []] or [line(receipt)]


def acceptable(receipt: dict[str, Any]) -> dict[str, int]:
    """{UUID: bytes} that the operator may accept as the idle baseline of a run; {} when it is not for that, or was accepted already."""
    if reading.count(receipt, "exit_code") != free.EXIT_BASELINE or receipt.get("usable") is True:
        return {}
    found = {}
    for one in reading.sequence(receipt, "gpus") or []:
        if not isinstance(one, dict):
            return {}
        used = [reading.count({"": value}, "") for value in reading.sequence(one, "used_bytes") or []]
        provable = one.get("complete") is True and not one.get("holders") and not one.get("looks_on")
        known = [value for value in used if value is not None]
        if one.get("kind") not in (free.ZERO, free.BASELINE) or not provable or not len(known) == len(used) == free.READINGS:
            return {}
        if max(known) > free.IDLE_CAP_BYTES:
            return {}
        found[str(one.get("uuid"))] = max(known)
    return found


def processes(receipt: dict[str, Any]) -> list[tuple[str, str]]:
    """(who, what became of it) of each process that was confirmed."""
    found = []
    for one in reading.sequence(receipt, "processes") or []:
        got = [pair for pair in (reading.sequence(one, "got") or []) if isinstance(pair, list) and len(pair) == 2]
        sent = ", ".join(f"{reading.text({'': name}, '', 20)} {reading.text({'': word}, '', 80)}" for name, word in got)
        ended = reading.text(one, "ended", 60)
        fate = {"": "LIVES", "with its service": "ended with its service", "by itself": "ended by itself"}.get(ended, f"ended by {ended}")
        who = f"{reading.count(one, 'pid')} {reading.text(one, 'user', 40)} {reading.text(one, 'title', 40)}".strip()
        found.append((who, f"{fate}{f' ({sent})' if sent else ''}"))
    return found


def services(receipt: dict[str, Any]) -> list[str]:
    """What was stopped, how, and what it said when it would not."""
    found = []
    for one in reading.sequence(receipt, "stopped") or []:
        ok = one.get("ok") is True if isinstance(one, dict) else False
        said = reading.text(one, "said", _MAX)
        words = f"{reading.text(one, 'service', 120)}: {'stopped' if ok else 'NOT stopped, so its processes got no signal'}"
        words += f" by {reading.text(one, 'how', 200)}, {fmt.age(reading.number(one, 'seconds'))}"
        found.append(words + (f"; it said: {said}" if said and not ok else ""))
    return found


def newcomers(receipt: dict[str, Any]) -> list[str]:
    """Holders that came after the confirmation; none got a signal."""
    found = []
    for one in reading.sequence(receipt, "new") or []:
        if isinstance(one, list) and len(one) >= 4:
            found.append(" ".join(reading.text({"": str(part)}, "", 120) for part in (one[0], one[2], one[3])))
    return found


def unseen(receipt: dict[str, Any]) -> str:
    """What could not be looked at; empty when everything could."""
    if receipt.get("simulated") is True:  # who holds a simulated GPU is in its state file, not in /proc
        return reading.text(receipt, "incomplete", _MAX)
    count = reading.count(receipt, "unreadable")
    words = "1 process" if count == 1 else f"{count} processes"
    return reading.text(receipt, "incomplete", _MAX) or (f"{words} could not be read" if count else "")


def took(receipt: dict[str, Any]) -> str:
    """How long it took, and which steps took it."""
    parts = [
        f"{reading.text({'': name}, '', 20)} {fmt.age(seconds)}"
        for name, value in (reading.mapping(receipt, "seconds") or {}).items()
        if (seconds := reading.number({"": value}, "")) is not None and seconds >= 0.05
    ]
    return f"{fmt.age(reading.number(receipt, 'took_s'))}{': ' + ', '.join(parts) if parts else ''}"


def last_resorts(receipt: dict[str, Any]) -> list[str]:
    """Commands to copy, and what each would break, where no signal helps; never run from here."""
    stuck = [(one.index, one.uuid) for one in gpus(receipt) if one.kind in (free.STUCK, free.UNSEEN)]
    return unheld.cures(stuck, receipt.get("simulated") is True)


def sections(receipt: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Headings and lines, for screen and command line alike."""
    ends = gpus(receipt)
    found = [
        (f"GPU, MiB before -> {_how_often(ends)}", _table(ends)),
        ("to copy, not run from here", last_resorts(receipt)),
        ("processes", [f"{who}: {fate}" for who, fate in processes(receipt)]),
        ("services", services(receipt)),
        ("came since the confirmation, got no signal", newcomers(receipt)),
        ("differs from what was confirmed", changed(receipt)),
        ("not looked at", [unseen(receipt)] if unseen(receipt) else []),
        ("took", [took(receipt)]),
        ("confirmed", [_confirmed(receipt)]),
    ]
    return [(heading, lines) for heading, lines in found if lines]


def _table(ends: list[GpuEnd]) -> list[str]:
    """A row a GPU; what is said of several in a row is said once."""
    wide = max((len(_readings(one)) for one in ends), default=0), max((len(one.word) for one in ends), default=0)
    rows = []
    for at, one in enumerate(ends):
        again = at > 0 and one.detail == ends[at - 1].detail and len(one.detail) > _ONCE
        said = "the same" if again else one.detail
        rows.append(f"{one.index:>2}  {_mib(one.before):>7} -> {_readings(one):<{wide[0]}}  {one.word:<{wide[1]}}  {said}")
    return rows


def _how_often(ends: list[GpuEnd]) -> str:
    counts = {len(one.readings) for one in ends}
    return "in five readings" if counts == {free.READINGS} else "as read, not five times"


def _readings(one: GpuEnd) -> str:
    """``0 x5``; each of them where they differ."""
    if not one.readings:
        return "not read"
    return f"{_mib(one.now)} x{len(one.readings)}" if len(set(one.readings)) == 1 else free_memory.list_mib(one.readings)


def _confirmed(receipt: dict[str, Any]) -> str:
    phrase, by, digest = (reading.text(receipt, key, 300) for key in ("phrase", "by", "digest"))
    return f"{phrase!r} by {by or 'unknown'}, plan {digest}"


def _mib(used: float | None) -> str:
    return "?" if used is None else fmt.count(free.mib(int(used)))
