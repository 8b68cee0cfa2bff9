"""Whether ledgers and directory tell of the same files. A file is published first, its line is written after: neither moment is a fault.

A file without a line counts once it has been seen so for ``GRACE_S``; a line without its file when a scan that began after the line was
read did not find it, and the directory stood still in that scan, or the scan before had missed it too.
"""

from array import array
from typing import Any, Dict, Optional, Set

from pipeline.contract.clock import boot_s
from pipeline.host.counting_ledger import LedgerCounter

GRACE_S = 60.0


class Comparison:
    """Told by the directory's scans; asks the ledger."""

    def __init__(self, ledger: LedgerCounter):
        self._ledger = ledger
        self.forget()

    def forget(self) -> None:
        """There is no directory any more."""
        self._before: array[int] = array("q")
        self._missed: Set[int] = set()
        self._missing: Optional[int] = None
        self._extra_since: Dict[int, float] = {}
        self._compared_s: Optional[float] = None

    def scan_begins(self) -> None:
        self._before = self._ledger.sizes()

    def scan_ended(self, seen: bytearray, settled: bool) -> None:
        """``seen``: 1 for each index that the scan found. ``settled``: nothing had changed for some time when it began."""
        now, known = boot_s(), len(seen)
        missed = {index for index, size in enumerate(self._before) if size >= 0 and (index >= known or not seen[index])}
        self._missing = len(missed if settled else missed & self._missed)
        self._missed = missed
        has = self._ledger.has
        extra = (index for index, there in enumerate(seen) if there and not has(index))
        self._extra_since = {index: self._extra_since.get(index, now) for index in extra}
        self._compared_s = now

    def view(self, has_ledger: bool) -> Dict[str, Any]:
        """{ledger_not_in_directory, directory_not_in_ledger, compared_boot_s}: how many files; None where nothing was compared."""
        if not has_ledger or self._missing is None or self._compared_s is None:
            return {"ledger_not_in_directory": None, "directory_not_in_ledger": None, "compared_boot_s": None}
        now, has = boot_s(), self._ledger.has
        if self._extra_since:
            self._extra_since = {index: since_s for index, since_s in self._extra_since.items() if not has(index)}
        return {
            "ledger_not_in_directory": self._missing,
            "directory_not_in_ledger": sum(now - since_s >= GRACE_S for since_s in self._extra_since.values()),
            "compared_boot_s": round(self._compared_s, 3),
        }
