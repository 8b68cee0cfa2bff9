"""Looks at a directory and a log for an agent: a child, because a storage that hangs holds up whoever looks at it.

``observe-dir REQUEST``, REQUEST being JSON {dir, log (or null), since_wall_s (or null)}: prints a line of JSON a second until stdin ends.
The first line is {"error": {kind, message}} where the directory cannot be looked at.
"""

import json
import os
import select
import sys
import time
from typing import Any, Dict, List, Optional

from pipeline.contract.clock import boot_s, wall_to_boot_s
from pipeline.contract.log_lines import LogLines
from pipeline.contract.tqdm_lines import Bar
from pipeline.host import probe
from pipeline.host.counting_tree import TreeCounter
from pipeline.host.errors import FAILED, MISSING
from pipeline.host.log_watch import LogWatch

EVERY_S, COUNTING_EVERY_S = 1.0, 0.1
"""Between looks; and while the first count goes on."""
_FIRST_BYTES = 1 << 18
"""Of a log that is long already, so much of its end is read."""
_READ_BYTES = 1 << 20
_BEHIND_BYTES = 8 << 20
_NICE = 10
_TAIL_CHARS = 300


class Log:
    """A log file of any path: its size and age, what it tells, and the trouble in it."""

    def __init__(self, path: str):
        self._path = path
        self._watch = LogWatch(path)
        self._inode = 0
        self._offset = 0
        self._lines = LogLines()

    def poll(self, now: float) -> Dict[str, Any]:
        """{bytes, last_boot_s, error, told, alarms, workers, tail}; ``error`` is why it cannot be read, else empty."""
        value: Dict[str, Any] = {"bytes": None, "last_boot_s": None, "error": ""}
        try:
            status = os.stat(self._path)
            value["bytes"], value["last_boot_s"] = status.st_size, round(wall_to_boot_s(status.st_mtime), 3)
            self._read(status)
        except OSError as error:
            value["error"] = error.strerror or str(error)
            return value
        self._watch.poll(now)
        while self._watch.behind and boot_s() - now < EVERY_S / 2:
            self._watch.poll(now)
        # What stood in it before the watch began is no younger than its newest byte.
        alarms = [dict(one, boot_s=min(one["boot_s"] or now, value["last_boot_s"])) for one in self._watch.told()]
        tail = [line[:_TAIL_CHARS] for line in self._lines.end()]
        return dict(value, told=_told(self._lines), alarms=alarms, workers=self._watch.workers, tail=tail)

    def _read(self, status: os.stat_result) -> None:
        if status.st_ino != self._inode or status.st_size < self._offset:
            self._inode, self._offset, self._lines = status.st_ino, max(0, status.st_size - _FIRST_BYTES), LogLines()
        if status.st_size - self._offset > _BEHIND_BYTES:
            self._offset, self._lines = status.st_size - _FIRST_BYTES, LogLines()
        if status.st_size > self._offset:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                data = file.read(_READ_BYTES)
            self._offset += len(data)
            self._lines.feed(data)


def _told(lines: LogLines) -> Dict[str, Any]:
    """As JSON: see ``log_lines.Told``."""
    told = lines.told()._asdict()
    return {name: value._asdict() if isinstance(value, Bar) else value for name, value in told.items()}


def main(arguments: List[str]) -> int:
    """Exit code 0 once stdin has ended."""
    request = json.loads(arguments[0])
    os.nice(_NICE)
    directory, log = request["dir"], request["log"]
    if not _print(_trouble(directory) or {"ready": True}):
        return 0
    counter = TreeCounter(directory, since_s=request["since_wall_s"])
    lines = None if log is None else Log(log)
    due_s, count = 0.0, None
    while not _ended(COUNTING_EVERY_S if count is None else EVERY_S):
        count, now = counter.poll(), boot_s()
        if count is None and now < due_s:
            continue
        due_s = now + EVERY_S
        told = {"boot_s": round(now, 3), "count": count, "counted": counter.counted if count is None else None}
        told.update(disk=probe.disk(directory), log=None if lines is None else lines.poll(now), there=os.path.isdir(directory))
        if not _print(told):
            return 0
    return 0


def _trouble(directory: str) -> Optional[Dict[str, Any]]:
    try:
        with os.scandir(directory) as entries:
            next(entries, None)
    except FileNotFoundError:
        return _error(MISSING, "no directory %s on this host" % directory)
    except NotADirectoryError:
        return _error(MISSING, "%s is no directory" % directory)
    except OSError as error:
        return _error(FAILED, "%s cannot be listed: %s" % (directory, error.strerror))
    return None


def _error(kind: str, message: str) -> Dict[str, Any]:
    return {"error": {"kind": kind, "message": message}}


def _print(value: Dict[str, Any]) -> bool:
    """Whether somebody reads it."""
    try:
        sys.stdout.write(json.dumps(value, separators=(",", ":")) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return False
    return "error" not in value


def _ended(wait_s: float) -> bool:
    """Whether stdin ended within that time."""
    end_s = time.monotonic() + wait_s
    while True:
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            return False
        if select.select([0], [], [], left_s)[0] and not os.read(0, 1 << 12):
            return True
