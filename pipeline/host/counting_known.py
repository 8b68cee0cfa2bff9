"""Sizes of the files of one directory, so that only new ones are asked of the file system: 16 bytes a file, however many there are."""

import os
from array import array
from bisect import bisect_left
from typing import Dict, Iterable, List, Tuple

_FRESH = 64
_FACTOR = 1_000_003
_MASK = (1 << 64) - 1


def key(name: str, inode: int) -> int:
    """Of a name and the file behind it: a number that is given to a new file after another was deleted is another file."""
    return (hash(name) * _FACTOR + inode) & _MASK


class Known:
    """Sizes by key, from scan to scan: ``begin``; ``take`` all entries, and ``put`` those that it did not know; ``end``."""

    def __init__(self) -> None:
        self._keys, self._sizes = array("Q"), array("q")  # sorted by key
        self._fresh: Dict[int, int] = {}
        self._seen = bytearray()
        self._next: Dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._keys) + len(self._fresh)

    def begin(self) -> None:
        self._seen, self._next = bytearray(len(self._keys)), {}

    def take(self, entries: "Iterable[os.DirEntry[str]]") -> "Tuple[int, int, List[os.DirEntry[str]]]":
        """(files, bytes, unknown): how many of the entries are known files, their bytes, and the other entries.

        One loop without calls: a directory of 100,000 files goes through it again and again.
        """
        keys, sizes, seen, fresh, known = self._keys, self._sizes, self._seen, self._fresh, len(self._keys)
        files = total = 0
        unknown: List[os.DirEntry[str]] = []
        for entry in entries:
            one = (hash(entry.name) * _FACTOR + entry.inode()) & _MASK
            at = bisect_left(keys, one)
            if at < known and keys[at] == one:
                seen[at] = 1
                total += sizes[at]
                files += 1
            elif one in fresh:
                self._next[one] = fresh[one]
                total += fresh[one]
                files += 1
            else:
                unknown.append(entry)
        return files, total, unknown

    def put(self, one: int, size: int) -> None:
        """A file's size, new or changed. Between scans too."""
        at = bisect_left(self._keys, one)
        if at < len(self._keys) and self._keys[at] == one:
            self._sizes[at] = size
        else:
            self._next[one] = size

    def end(self) -> None:
        """What was not seen since ``begin`` is forgotten."""
        self._fresh = self._next
        if all(self._seen) and len(self._fresh) <= max(_FRESH, len(self._keys) // 4):
            return
        pairs = [(one, size) for one, size, there in zip(self._keys, self._sizes, self._seen) if there]
        pairs = sorted(pairs + list(self._fresh.items()))
        self._keys, self._sizes = array("Q", (one for one, _ in pairs)), array("q", (size for _, size in pairs))
        self._fresh, self._next = {}, {}
