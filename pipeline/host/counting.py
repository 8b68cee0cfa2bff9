"""How much a stage has written, counted in its output directory, as the cross-check of its ledgers."""

import os
import time
from array import array
from typing import Any, Dict, Iterator, Optional, Tuple

from pipeline.contract.clock import boot_s, wall_to_boot_s
from pipeline.host.counting_compare import Comparison
from pipeline.host.counting_ledger import LARGEST_INDEX, LedgerCounter

COUNTED = ("extract",)
"""Stages with ledgers and a file a sample; the others' own progress is their count."""
_SETTLED_S = 2.0
"""A directory whose mtime is younger may still get files within the same tick of that clock."""
_RESCAN_S = 5.0
_RESCAN_COST = 200
"""A scan takes at most 1 part in so many of the time."""
SLICE_S = 0.05
"""Of a scan in one poll: the agent does not stand still over a directory of 100,000 files."""
_SLICE_COST = 10
"""While a scan goes on, it takes at most 1 part in so many of the time."""
_SLICE_ENTRIES = 256


class OutputCounter:
    """Ledgers and directory of one output, and whether they agree."""

    def __init__(self, directory: str):
        self._ledger = LedgerCounter(directory)
        self._comparison = Comparison(self._ledger)
        self._directory = DirectoryCounter(directory, self._comparison)

    def poll(self) -> Tuple[Optional[Dict[str, Any]], Optional[Dict[str, Any]]]:
        """(``ledger``, ``directory``) of an attempt view: see ``telemetry.ATTEMPT``."""
        ledger = self._ledger.poll()
        directory = self._directory.poll()
        if directory is not None:
            directory.update(self._comparison.view(ledger is not None))
        return ledger, directory


class DirectoryCounter:
    """Counts ``hs_N.safetensors`` in one directory, and looks again only when the directory changed."""

    def __init__(self, directory: str, comparison: Optional[Comparison] = None):
        self._directory = directory
        self._comparison = comparison
        self._inodes, self._sizes = array("Q"), array("q")  # by N
        self._seen = bytearray()  # by N: in the scan under way
        self._mtime_ns: Optional[int] = None
        self._settled = False
        self._next_s = self._slice_next_s = float("-inf")
        self._scan: Optional[Iterator[None]] = None
        self._spent_s = 0.0
        self._value: Optional[Dict[str, Any]] = None
        self._newest_s: Optional[float] = None

    def poll(self) -> Optional[Dict[str, Any]]:
        """{files, bytes, newest_boot_s, boot_s}; ``boot_s`` is when that was known to be so, ``newest_boot_s`` when the newest file was
        written. None when there is no such directory, or before the first full scan.
        """
        now = boot_s()
        try:
            mtime_ns = os.stat(self._directory).st_mtime_ns
        except OSError:
            self._forget()
            return None
        if self._scan is not None:
            if now >= self._slice_next_s:
                self._go_on(now)
        elif self._value is not None and self._settled and mtime_ns == self._mtime_ns:
            self._value["boot_s"] = round(now, 3)
        elif now >= self._next_s:
            self._settled = time.time() - mtime_ns / 1e9 > _SETTLED_S
            self._mtime_ns = mtime_ns
            self._spent_s = 0.0
            self._scan = self._scanning(now)
            self._go_on(now)
        return dict(self._value) if self._value is not None else None

    def _forget(self) -> None:
        self._mtime_ns = self._value = self._scan = None
        if self._comparison is not None:
            self._comparison.forget()

    def _go_on(self, now: float) -> None:
        """A slice of the scan."""
        assert self._scan is not None
        try:
            for _ in self._scan:
                if boot_s() - now > SLICE_S:
                    break
            else:
                self._scan = None
        except OSError:
            self._scan, self._settled = None, False
        spent_s = boot_s() - now
        self._spent_s += spent_s
        self._slice_next_s = now + (1 + _SLICE_COST) * spent_s
        if self._scan is None:
            self._next_s = now + max(_RESCAN_S, _RESCAN_COST * self._spent_s)

    def _scanning(self, began_s: float) -> Iterator[None]:
        files = size = 0
        self._seen = bytearray(len(self._inodes))
        if self._comparison is not None:
            self._comparison.scan_begins()
        with os.scandir(self._directory) as entries:
            for number, entry in enumerate(entries):
                name = entry.name
                if name.startswith("hs_") and name.endswith(".safetensors") and name[3:-12].isdigit():
                    one = self._size(int(name[3:-12]), entry)
                    if one is not None:
                        files, size = files + 1, size + one
                if number % _SLICE_ENTRIES == _SLICE_ENTRIES - 1:
                    yield
        newest = None if self._newest_s is None else round(wall_to_boot_s(self._newest_s), 3)
        self._value = {"files": files, "bytes": size, "newest_boot_s": newest, "boot_s": round(began_s, 3)}
        if self._comparison is not None:
            stood_still = self._settled and os.stat(self._directory).st_mtime_ns == self._mtime_ns
            self._comparison.scan_ended(self._seen, stood_still)

    def _size(self, index: int, entry: "os.DirEntry[str]") -> Optional[int]:
        """Size of a file; asked of the file system only for a name or an inode not seen before."""
        if index > LARGEST_INDEX:
            return None
        missing = index + 1 - len(self._inodes)
        if missing > 0:
            self._inodes.extend([0] * missing)
            self._sizes.extend([0] * missing)
            self._seen.extend(bytes(missing))
        if self._inodes[index] != entry.inode():
            try:
                status = entry.stat()
            except OSError:
                return None  # gone since the listing
            self._sizes[index] = status.st_size
            self._newest_s = status.st_mtime if self._newest_s is None else max(self._newest_s, status.st_mtime)
            self._inodes[index] = entry.inode()
        self._seen[index] = 1
        return self._sizes[index]
