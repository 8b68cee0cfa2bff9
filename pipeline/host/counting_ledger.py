"""How much the writers' own ledgers say that a stage has written: the truth for its counts.

A ledger is ``ledger-RANK.jsonl`` in the output directory: one line for each published file, with ``i``, ``bytes`` and ``tokens``.
"""

import json
import os
from array import array
from typing import Any, Dict, List, Optional, Tuple

from pipeline.contract.clock import boot_s, wall_to_boot_s

_READ_BYTES = 1 << 20
"""Of one ledger in one poll, so that an agent that starts late does not stand still over a long one."""
LARGEST_INDEX = 4_000_000
"""A larger one is taken for damage: the tables grow with it, 16 bytes an index."""
_RESCAN_S = 5.0
_RESCAN_COST = 200
"""Listing the directory takes at most 1 part in so many of the time."""


class LedgerCounter:
    """Tails the ledgers of one output directory. Not thread-safe."""

    def __init__(self, directory: str):
        self._directory = directory
        self._names: List[str] = []
        self._list_next_s = float("-inf")
        self._reset()

    def _reset(self) -> None:
        self._tails: Dict[str, Tuple[int, int]] = {}  # name -> (inode, offset)
        self._bytes, self._tokens = array("q"), array("q")  # by index; -1: not there
        self._files = self._sum_bytes = self._sum_tokens = self._disagree = self._bad_lines = 0
        self._last_boot_s: Optional[float] = None
        self._complete = False

    def poll(self) -> Optional[Dict[str, Any]]:
        """{files, bytes, tokens, last_boot_s, disagree, bad_lines}; None without a ledger, or before the first full reading.

        An index that was written again counts once, with its newest line; ``disagree`` counts lines that contradict the one before.
        ``last_boot_s`` is when a ledger last grew.
        """
        names = self._list()
        if any(self._changed_identity(name) for name in names) or set(self._tails) - set(names):
            self._reset()  # a ledger was replaced: what it added before cannot be told apart
            self._list_next_s = float("-inf")
            names = self._list()
        behind = [self._read(name) for name in names]
        self._complete = self._complete or not any(behind)
        if not names or not self._complete:
            return None
        return {
            "files": self._files,
            "bytes": self._sum_bytes,
            "tokens": self._sum_tokens,
            "last_boot_s": self._last_boot_s,
            "disagree": self._disagree,
            "bad_lines": self._bad_lines,
        }

    @property
    def there(self) -> bool:
        """Whether there was any ledger at the last poll."""
        return bool(self._names)

    def sizes(self) -> "array[int]":
        """Bytes of each index, -1 where no line tells of it; a copy. Empty before the first full reading."""
        return array("q", self._bytes if self._complete and self._names else ())

    def has(self, index: int) -> bool:
        return index < len(self._bytes) and self._bytes[index] >= 0

    def _list(self) -> List[str]:
        """The ledgers' names. They lie among up to 100,000 files, which take 40 ms to list, so that is not done at every poll."""
        now = boot_s()
        if now >= self._list_next_s:
            try:
                names = [name for name in os.listdir(self._directory) if _is_ledger(name)]
            except OSError:
                names = []
            self._names = names
            self._list_next_s = now + max(_RESCAN_S if names else 0.0, _RESCAN_COST * (boot_s() - now))
        return self._names

    def _changed_identity(self, name: str) -> bool:
        if name not in self._tails:
            return False
        inode, offset = self._tails[name]
        try:
            status = os.stat(os.path.join(self._directory, name))
        except OSError:
            return True
        return status.st_ino != inode or status.st_size < offset

    def _read(self, name: str) -> bool:
        """Read on; True when there is more than one poll's worth."""
        try:
            with open(os.path.join(self._directory, name), "rb") as file:
                status = os.fstat(file.fileno())
                _, offset = self._tails.get(name, (status.st_ino, 0))
                file.seek(offset)
                data = file.read(_READ_BYTES)
        except OSError:
            return True
        whole = data[: data.rfind(b"\n") + 1]  # a last line without its end is still being written
        for line in whole.splitlines():
            self._add(line)
        self._tails[name] = (status.st_ino, offset + len(whole))
        if whole:
            newest = round(wall_to_boot_s(status.st_mtime), 3)
            self._last_boot_s = newest if self._last_boot_s is None else max(self._last_boot_s, newest)
        return bool(whole) and offset + len(data) < status.st_size

    def _add(self, line: bytes) -> None:
        try:
            value = json.loads(line.decode("utf-8", "replace"))
            index, size, tokens = value["i"], value["bytes"], value["tokens"]
        except (ValueError, TypeError, KeyError, RecursionError):
            self._bad_lines += 1
            return
        if not all(type(one) is int and one >= 0 for one in (index, size, tokens)) or index > LARGEST_INDEX:
            self._bad_lines += 1
            return
        missing = index + 1 - len(self._bytes)
        if missing > 0:
            self._bytes.extend([-1] * missing)
            self._tokens.extend([-1] * missing)
        before = self._bytes[index], self._tokens[index]
        if before[0] < 0:
            self._files += 1
        else:
            self._sum_bytes -= before[0]
            self._sum_tokens -= before[1]
            self._disagree += before != (size, tokens)
        self._bytes[index], self._tokens[index] = size, tokens
        self._sum_bytes += size
        self._sum_tokens += tokens


def _is_ledger(name: str) -> bool:
    return name.startswith("ledger-") and name.endswith(".jsonl") and name[7:-6].isdigit()
