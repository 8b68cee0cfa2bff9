"""A preflight as the host told it: its lines, safe to print, and what they come to."""

from collections.abc import Iterable
from typing import Any

import msgspec

from console.core import free_memory, reading
from pipeline.contract import preflight

_MAX_LINES = 200
_MAX_CHARS = 2000


class Check(msgspec.Struct, frozen=True):
    """One line."""

    name: str
    ok: bool | None
    """None: it cannot be told."""
    evidence: str
    what_to_do: str
    gpu: bool

    @property
    def word(self) -> str:
        return "?" if self.ok is None else "ok" if self.ok else "NOT"

    def to_json(self) -> dict[str, Any]:
        told = {"check": self.name, "ok": self.ok, "evidence": self.evidence, "what_to_do": self.what_to_do, "gpu": self.gpu}
        return told


class Baseline(msgspec.Struct, frozen=True):
    """What idle GPUs hold that nobody has."""

    recorded: dict[str, int]
    """Bytes by UUID, recorded since the host's boot."""
    accepted: dict[str, int]
    """Of these, accepted for the run."""

    @property
    def open(self) -> bool:
        """Whether there is something to accept."""
        return bool(free_memory.to_accept(self.recorded, self.accepted))


class Report(msgspec.Struct, frozen=True):
    lines: tuple[Check, ...]
    baseline: Baseline | None = None
    doubts: tuple[Check, ...] = ()
    """Why it is not as good as its lines."""

    @property
    def checks(self) -> tuple[Check, ...]:
        return self.lines + self.doubts

    @property
    def ok(self) -> bool | None:
        return _verdict(self.checks)

    def with_gpus_of(self, other: "Report") -> "Report":
        """The other one's lines about GPUs in place of these."""
        lines = tuple(one for one in self.lines if not one.gpu) + tuple(one for one in other.lines if one.gpu)
        return Report(lines, other.baseline, self.doubts + other.doubts)


def parse(reply: Any, host: str, stage: str, run: str) -> Report:
    """Whatever it holds, nothing raises, and nothing that cannot be understood makes it better: it is told as a check of its own.

    What stands for names in the host's advice is filled in.
    """
    told = reading.sequence(reply, "lines") or []
    lines = [one for one in told if isinstance(one, dict)][:_MAX_LINES]
    names = {"HOST": host, "STAGE": stage, "RUN": run}
    baseline = next((found for one in lines if (found := reading.mapping(one, "baseline")) is not None), None)
    checks = tuple(
        Check(
            name=reading.text(one, "check") or "?",
            ok=reading.flag(one, "ok"),
            evidence=reading.text(one, "evidence", _MAX_CHARS),
            what_to_do=" ".join(names.get(word, word) for word in reading.text(one, "what_to_do", _MAX_CHARS).split(" ")),
            gpu=reading.flag(one, "gpu") is True,
        )
        for one in lines
    )
    known = None if baseline is None else Baseline(_bytes(baseline, "recorded"), _bytes(baseline, "accepted"))
    return Report(checks, known, tuple(_doubts(reply, checks, len(told) - len(lines))))


def _doubts(reply: Any, checks: tuple[Check, ...], unread: int) -> list[Check]:
    found = [Check("other lines", None, f"{unread} of the host's lines were not understood, or are too many", "", False)] if unread else []
    verdict, ours = reading.flag(reply, "verdict"), _verdict((*checks, *found))
    if (verdict is False and ours is not False) or (verdict is None and ours is True):
        word = "not ok" if verdict is False else "cannot tell"
        found.append(Check("the host's verdict", verdict, f"{word}, though no line that it told says so", "", False))
    return found


def _verdict(checks: Iterable[Check]) -> bool | None:
    return preflight.verdict([{"ok": one.ok} for one in checks])


def summary(report: Report) -> str:
    """``3 of 16 checks: NOT model, port; ? versions``; for none of that: ``all of 16 checks``."""
    wrong = [one.name for one in report.checks if one.ok is False]
    unknown = [one.name for one in report.checks if one.ok is None]
    if not wrong and not unknown:
        return f"all of {len(report.checks)} checks are ok" if report.checks else "the host told no check"
    parts = [f"NOT {', '.join(wrong)}"] if wrong else []
    parts += [f"cannot tell {', '.join(unknown)}"] if unknown else []
    return f"{len(report.checks)} checks: {'; '.join(parts)}"


def _bytes(source: dict[str, Any], key: str) -> dict[str, int]:
    found = reading.mapping(source, key) or {}
    return {uuid: size for uuid in found if (size := reading.count(found, uuid)) is not None}
