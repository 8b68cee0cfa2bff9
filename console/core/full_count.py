"""What a full count of a stage's output found: the host's answer to ``count``, and its words."""

from typing import Any

import msgspec

from console.core import fmt, reading, sanitize

_SHOWN = 20


class Counted(msgspec.Struct, frozen=True):
    """Files in the directory, files by the ledger, and where the two do not agree."""

    directory: str
    files: int
    bytes: int
    ledger_files: int | None
    """None: there is no ledger, and so nothing to agree with."""
    ledger_bytes: int | None
    missing: int
    extra: int
    differ: int
    names: tuple[str, ...]
    """What does not agree, by name, the first of each kind."""
    took_s: float | None
    raw: dict[str, Any]

    @property
    def agrees(self) -> bool | None:
        """None: cannot be told."""
        return None if self.ledger_files is None else not (self.missing or self.extra or self.differ)

    def lines(self) -> list[str]:
        """The first one says it all."""
        there = f"{fmt.count(self.files)} files, {fmt.size(self.bytes)} in {self.directory}"
        took = f", counted in {fmt.duration(self.took_s)}" if self.took_s is not None else ""
        if self.agrees is None:
            return [f"{there}{took}; there is no ledger to hold them against"]
        ledger = f"the ledger tells of {fmt.count(self.ledger_files)} files, {fmt.size(self.ledger_bytes)}"
        if self.agrees:
            return [f"ledger and directory agree: {there}{took}"]
        counts = (
            (self.missing, "in the ledger and not on disk"),
            (self.extra, "on disk and not in the ledger"),
            (self.differ, "of another size"),
        )
        words = ", ".join(f"{fmt.count(count)} {what}" for count, what in counts if count)
        return [f"ledger and directory do NOT agree: {words}; {there}; {ledger}{took}", *self.names]


def parse(reply: Any) -> Counted | None:
    """None for an answer that is none."""
    files, size = reading.count(reply, "files"), reading.count(reply, "bytes")
    parts = [reading.mapping(reply, name) for name in ("missing", "extra", "sizes")]
    counts = [reading.count(part, "count") for part in parts]
    if files is None or size is None or None in counts:
        return None
    ledger = reading.mapping(reply, "ledger")
    names: list[str] = []
    for part, what in zip(parts, ("not on disk", "not in the ledger", ""), strict=True):
        for one in (reading.sequence(part, "first") or [])[:_SHOWN]:
            names.append(_named(one, what))
    return Counted(
        directory=reading.text(reply, "dir", 1000),
        files=files,
        bytes=size,
        ledger_files=reading.count(ledger, "files"),
        ledger_bytes=reading.count(ledger, "bytes"),
        missing=counts[0] or 0,
        extra=counts[1] or 0,
        differ=counts[2] or 0,
        names=tuple(name for name in names if name),
        took_s=reading.number(reply, "took_s"),
        raw={
            name: reply[name]
            for name in ("run", "stage", "dir", "files", "bytes", "ledger", "missing", "extra", "sizes", "took_s")
            if name in reply
        },
    )


def _named(one: Any, what: str) -> str:
    if isinstance(one, str):
        return f"{sanitize.line(one, 200)}: {what}"
    if isinstance(one, list) and len(one) == 3:
        name, told, there = one
        return (
            f"{sanitize.line(str(name), 200)}: {sanitize.line(str(told), 30)} bytes by the ledger, {sanitize.line(str(there), 30)} on disk"
        )
    return ""
