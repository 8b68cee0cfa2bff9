"""Files and bytes of one directory of whatever names, looked at again only as far as it may have changed."""

import os
import stat
import time
from itertools import islice
from typing import Dict, Iterator, List, Optional, Tuple

from pipeline.host.counting_known import Known, key

SETTLED_S = 2.0
"""A directory whose mtime is younger may still get files within the same tick of that clock; a file may still grow."""
FINISHED_S = 300.0
"""A directory and its newest files that stood still so long are taken for finished: only its mtime is looked at, and seldom."""
_KEEP_NAMES = 5000
"""A finished directory of more files keeps what it knows: to ask for all their sizes again would take seconds."""
_NEWEST = 16
"""So many of the newest files are looked at again even when they seem settled: who writes one may pause."""
_LOOKED_AT = 256
"""Files looked at again in one look at most."""
_SLICE_ENTRIES = 256
_IGNORED = (".tmp", ".partial")


def counts(name: str) -> bool:
    """Whether a file of this name is one of the output: not hidden, not one that is still being written under another name."""
    return not name.startswith(".") and not name.endswith(_IGNORED)


class Folder:
    """One directory, without what lies in its subdirectories. ``look`` again and again."""

    def __init__(self, path: str, since_s: Optional[float] = None):
        """``since_s``: files of this mtime or later are counted apart, as ``new``."""
        self.path = path
        self.files = self.bytes = 0
        self._since_s = float("-inf") if since_s is None else since_s
        self._new = 0
        self.oldest_new_s: Optional[float] = None
        """mtime of the oldest of them so far."""
        self.newest_s: Optional[float] = None
        """mtime of the newest file so far."""
        self.folders: List[str] = []
        """Subdirectories that the newest scan found."""
        self.gone = False
        self.unreadable = ""
        """Why it could not be listed; empty when it could."""
        self.finished = False
        self._mtime_ns: Optional[int] = None
        self._settled = False
        self._changed_s = float("-inf")
        self._known = Known()
        self._growing: Dict[str, Tuple[int, float]] = {}
        """Files that may still grow: size and mtime as last seen."""

    @property
    def new(self) -> int:
        """Files written since. One that was removed meanwhile is taken for an older one, as long as there are such."""
        return min(self._new, self.files)

    def look(self) -> Iterator[None]:
        """Bring it up to date; yields now and then, so that the caller can put the rest off. Nothing is raised."""
        try:
            mtime_ns = os.stat(self.path).st_mtime_ns
        except OSError as error:
            self.gone = isinstance(error, (FileNotFoundError, NotADirectoryError))
            self.unreadable = error.strerror or str(error)
            if self.gone:
                self.files = self.bytes = 0
            return
        if mtime_ns != self._mtime_ns or not self._settled:
            self.finished, began_s = False, time.time()
            try:
                yield from self._scan()
            except OSError as error:
                self.unreadable = error.strerror or str(error)
                return
            self._settled = began_s - mtime_ns / 1e9 > SETTLED_S
            self._mtime_ns, self.unreadable = mtime_ns, ""
            still_s = began_s - max(mtime_ns / 1e9, self.newest_s or 0.0)
            self._changed_s = time.monotonic() - max(still_s, 0.0)
            if still_s > FINISHED_S:
                self._finish()
        elif not self.finished:
            self._look_at_growing()
            if time.monotonic() - self._changed_s > FINISHED_S:
                self._finish()

    def _scan(self) -> Iterator[None]:
        files = size = 0
        folders: List[str] = []
        self._known.begin()
        if not len(self._known):  # all are asked for again
            self._new = 0
        with os.scandir(self.path) as entries:
            while True:
                some = list(islice(entries, _SLICE_ENTRIES))
                if not some:
                    break
                count, total, unknown = self._known.take(some)
                files, size = files + count, size + total
                for entry in unknown:
                    if not counts(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.name)
                    elif entry.is_file(follow_symlinks=False) and (one := self._size(entry)) is not None:
                        files, size = files + 1, size + one
                yield
        self._known.end()
        self._forget_settled()
        self.files, self.bytes, self.folders = files, size, folders

    def _size(self, entry: "os.DirEntry[str]") -> Optional[int]:
        """Of a file that was not seen before."""
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return None  # gone since the listing
        self._known.put(key(entry.name, entry.inode()), status.st_size)
        self._note(entry.name, status)
        return status.st_size

    def _note(self, name: str, status: os.stat_result) -> None:
        if status.st_mtime >= self._since_s:
            self._new += 1
            self.oldest_new_s = status.st_mtime if self.oldest_new_s is None else min(self.oldest_new_s, status.st_mtime)
        self.newest_s = status.st_mtime if self.newest_s is None else max(self.newest_s, status.st_mtime)
        if len(self._growing) < _NEWEST or time.time() - status.st_mtime <= SETTLED_S or status.st_mtime >= self.newest_s:
            self._growing[name] = (status.st_size, status.st_mtime)
        if len(self._growing) > 2 * _LOOKED_AT:
            self._growing = {one: self._growing[one] for one in self._newest(_LOOKED_AT)}

    def _newest(self, count: int) -> List[str]:
        return sorted(self._growing, key=lambda name: self._growing[name][1])[-count:]

    def _forget_settled(self) -> None:
        """Of those that may still grow only the young ones stay, and the newest: there may be thousands of directories."""
        now, newest = time.time(), self._newest(_NEWEST)
        self._growing = {name: seen for name, seen in self._growing.items() if now - seen[1] <= SETTLED_S or name in newest}

    def _look_at_growing(self) -> None:
        """A directory's mtime does not move when a file only grows: the newest files' sizes are asked for again until they stay."""
        now = time.time()
        newest = self._newest(_NEWEST)
        for name in list(self._growing)[:_LOOKED_AT]:
            before, _ = self._growing.pop(name)
            try:
                status = os.stat(os.path.join(self.path, name), follow_symlinks=False)
            except OSError:
                continue  # gone: the directory's mtime tells
            if not stat.S_ISREG(status.st_mode):
                continue
            if status.st_size != before:
                self.bytes += status.st_size - before
                self._known.put(key(name, status.st_ino), status.st_size)
                self._changed_s = time.monotonic()
            self.newest_s = status.st_mtime if self.newest_s is None else max(self.newest_s, status.st_mtime)
            if status.st_size != before or now - status.st_mtime <= SETTLED_S or name in newest:
                self._growing[name] = (status.st_size, status.st_mtime)

    def _finish(self) -> None:
        self.finished = True
        if self.files <= _KEEP_NAMES:
            self._known, self._growing = Known(), {}
