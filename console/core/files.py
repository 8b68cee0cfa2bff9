"""How much a stage has written, as a frame tells it: by its ledgers, and as counted in the directory. Shape: ``telemetry.ATTEMPT``."""

from typing import Any

import msgspec

from console.core import fmt, reading


class Files(msgspec.Struct, frozen=True):
    """Files counted by the writers' own ledgers, or in the directory."""

    files: int | None
    bytes: int | None
    tokens: int | None
    boot_s: float | None
    """Newest ledger line, or when the directory was counted."""
    disagree: int | None
    """Ledger lines that contradict an earlier one; None where nobody looked."""
    bad_lines: int | None
    """Ledger lines that could not be read."""
    newest_boot_s: float | None = None
    """When the newest file in the directory was written."""
    missing: int | None = None
    """Files that the ledger names and the directory has not; None where they were not compared."""
    extra: int | None = None
    """Files that the directory has and the ledger does not name; a line that may still be written is waited for."""

    @property
    def trouble(self) -> str:
        """What is wrong with the ledger itself; empty when nothing is, as far as was looked."""
        counts = ((self.disagree, "contradictory"), (self.bad_lines, "unreadable"))
        return ", ".join(f"{count} {what} line{'s' if count != 1 else ''}" for count, what in counts if count)

    @property
    def disagreement(self) -> str:
        """Where directory and ledger tell of different files; empty where they agree, or were not compared."""
        counts = ((self.missing, "in the ledger, not on disk"), (self.extra, "on disk, not in the ledger"))
        return ", ".join(f"{fmt.count(count)} {what}" for count, what in counts if count)


def parse_files(source: dict[str, Any] | None, when: str) -> Files | None:
    """``when``: the key of its time. None when nothing was counted."""
    if source is None:
        return None
    return Files(
        files=reading.count(source, "files"),
        bytes=reading.count(source, "bytes"),
        tokens=reading.count(source, "tokens"),
        boot_s=reading.number(source, when),
        disagree=reading.count(source, "disagree"),
        bad_lines=reading.count(source, "bad_lines"),
        newest_boot_s=reading.number(source, "newest_boot_s"),
        missing=reading.count(source, "ledger_not_in_directory"),
        extra=reading.count(source, "directory_not_in_ledger"),
    )
