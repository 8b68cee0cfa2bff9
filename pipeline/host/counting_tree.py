"""Files and bytes of any directory that grows: flat, or in folders such as ``rows_0-2000``, whatever the names.

Steady cost: a look at a directory's mtime, and at what is new. A pass over all directories takes at most a fixed share of the time;
the first one, which has to ask for every file's size, takes more of it, in slices. Finished directories are passed in turn.
"""

import os
import time
from typing import Any, Dict, Iterator, List, Optional, Set

from pipeline.contract.clock import boot_s, wall_to_boot_s
from pipeline.host.counting_folder import Folder

PASS_S = 1.0
CPU_COST, WALL_COST = 200, 20
"""A pass takes at most 1 part in so many of a core, and of the time: a slow file system waits, and costs no CPU."""
FIRST_COST = 1
"""The first pass: as long as nothing is known, all waits for it."""
DEPTH = 6
MOST_FOLDERS = 200_000
_TURNS = 8
"""Finished directories are looked at in every so manieth pass."""


class TreeCounter:
    """``poll`` it. Not thread-safe. A file system that hangs holds it up: do not call it where that matters."""

    def __init__(self, directory: str, slice_s: float = 0.2, since_s: Optional[float] = None):
        """``slice_s``: a poll takes hardly longer. ``since_s``: files of this mtime (wall clock) or later are counted apart."""
        self._directory = directory
        self._since_s = since_s
        self._slice_s = slice_s
        self._folders: Dict[str, Folder] = {}
        self._pass: Optional[Iterator[None]] = None
        self.passes = 0
        """Over the whole tree so far."""
        self._began_s = self._rest_s = 0.0
        self._next_s = self._slice_next_s = float("-inf")
        self._value: Optional[Dict[str, Any]] = None

    @property
    def counted(self) -> int:
        """Files found so far, while the first count goes on."""
        return sum(folder.files for folder in list(self._folders.values()))

    def poll(self) -> Optional[Dict[str, Any]]:
        """{files, bytes, folders, new, first_boot_s, newest_boot_s, boot_s, unreadable}; None before the first full count, and without the
        directory.

        ``new``, ``first_boot_s``: files written since ``since_s``, and when the first of them was; ``newest_boot_s``: when the newest file
        was written; ``boot_s``: when the count was known to be so; ``unreadable``: directories that could not be listed, so that there may
        be more files.
        """
        now = boot_s()
        if self._pass is None and now >= self._next_s:
            self._pass, self._began_s, self._rest_s = self._one_pass(), now, 0.0
            self._slice_next_s = now
        if self._pass is not None and now >= self._slice_next_s:
            self._go_on(now)
        return dict(self._value) if self._value is not None else None

    def _go_on(self, now: float) -> None:
        assert self._pass is not None
        cpu_s = time.process_time()
        for _ in self._pass:
            if boot_s() - now > self._slice_s:
                break
        else:
            self._pass = None
        took_s = boot_s() - now
        rest_s = max(WALL_COST * took_s, CPU_COST * (time.process_time() - cpu_s))
        if self.passes == 0:
            rest_s = FIRST_COST * took_s
        self._rest_s += rest_s
        self._slice_next_s = now + took_s + rest_s / 10
        if self._pass is None:
            self.passes += 1
            self._next_s = now + max(PASS_S, self._rest_s)
            self._tell()

    def _one_pass(self) -> Iterator[None]:
        root = self._folders.setdefault(self._directory, Folder(self._directory, self._since_s))
        turn = self.passes % _TURNS
        todo: List[Folder] = [root]
        known: Set[str] = set()
        for number, folder in enumerate(todo):
            known.add(folder.path)
            if not folder.finished or number % _TURNS == turn:
                yield from folder.look()
            depth = folder.path.count(os.sep) - self._directory.count(os.sep)
            for name in folder.folders if depth < DEPTH else ():
                path = os.path.join(folder.path, name)
                one = self._folders.get(path)
                if one is None and len(self._folders) < MOST_FOLDERS:
                    one = self._folders[path] = Folder(path, self._since_s)
                if one is not None:
                    todo.append(one)
            yield
        for path in [path for path, folder in self._folders.items() if path not in known or (folder.gone and folder is not root)]:
            del self._folders[path]

    def _tell(self) -> None:
        root = self._folders[self._directory]
        if root.gone or (root.unreadable and not root.files and not root.folders):
            self._value = None
            return
        folders = list(self._folders.values())
        first = min((folder.oldest_new_s for folder in folders if folder.oldest_new_s is not None), default=None)
        newest = max((folder.newest_s for folder in folders if folder.newest_s is not None), default=None)
        self._value = {
            "files": sum(folder.files for folder in folders),
            "bytes": sum(folder.bytes for folder in folders),
            "folders": len(folders) - 1,
            "new": sum(folder.new for folder in folders),
            "first_boot_s": None if first is None else round(wall_to_boot_s(first), 3),
            "newest_boot_s": None if newest is None else round(wall_to_boot_s(newest), 3),
            "boot_s": round(self._began_s, 3),
            "unreadable": sum(bool(folder.unreadable) for folder in folders),
        }
