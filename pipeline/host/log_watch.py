"""Reads a growing log for trouble: each line once, in bounded time, whatever the log does.

A log that was truncated or replaced is read from its start. Of one that grows faster than it can be looked at, the newest part is looked
at, and what was left out is counted.
"""

import os
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from pipeline.contract.alarms import LABELS, TRACEBACK
from pipeline.host import log_rules

READ_BYTES = 1 << 18
"""Of one poll."""
SKIP_BYTES = 2 << 20
"""More than that behind, it goes on at the newest ``READ_BYTES``."""
LINE_BYTES = 4096
"""Of a longer line only the beginning is looked at."""
MAX_WORKERS = 64
POLL_S = 0.008
"""Looking at lines takes no longer than that in one poll; the next one goes on there."""
_UNENDED_S = 0.4
_OPEN_TRACEBACK_S = 0.7
"""A traceback whose last line does not come is told without it."""
_ALARM_CHARS = 500
_MAX_OPEN = 64
_NO_TROUBLE = ("KeyboardInterrupt", "SystemExit", "asyncio.exceptions.CancelledError", "CancelledError")
"""Exceptions that a stop raises."""


class Alarm(NamedTuple):
    """One line that tells trouble."""

    kind: str
    line: str
    worker: str
    boot_s: float


class LogWatch:
    """The log at ``path``. Call ``poll`` twice a second; sooner while it is ``behind``."""

    def __init__(self, path: str, state: Optional[Dict[str, Any]] = None):
        """``state`` is that of an earlier watch, which this one goes on from."""
        self._path = path
        known = state if isinstance(state, dict) else {}
        self._inode, self._offset = _whole(known.get("inode")), _whole(known.get("offset")) or 0
        self.skipped_bytes = _whole(known.get("skipped_bytes")) or 0
        self._begin_line(told=known.get("told") is True)
        self._open: Dict[str, Tuple[float, str]] = {}
        """Tracebacks whose last line has not come, by worker: (since, ``Traceback...``)."""
        self.counts: Dict[str, int] = {}
        self.newest: Dict[str, Alarm] = {}
        self.workers: List[str] = []
        self.behind = self.flooded = False
        """Whether there is more to look at now; whether the last poll left some out."""
        self._adopt(known)

    @property
    def state(self) -> Dict[str, Any]:
        """What another watch goes on from; whole lines only."""
        offset = self._offset - (0 if self._told else len(self._part))
        return {"inode": self._inode, "offset": offset, "skipped_bytes": self.skipped_bytes, "told": self._told}

    @property
    def ranks(self) -> int:
        """How many ranks the log names."""
        return sum(log_rules.is_rank(one) for one in self.workers)

    def told(self) -> List[Dict[str, Any]]:
        """[{kind, count, line, worker, boot_s}], as in a frame."""
        return [dict(self.newest[kind]._asdict(), count=self.counts[kind]) for kind in LABELS if kind in self.newest]

    def poll(self, now: float) -> List[Alarm]:
        """Alarms since the last poll. Never raises for what the log does; a log that cannot be read is as one that does not grow."""
        end_s = time.monotonic() + POLL_S
        try:
            data = self._read()
        except OSError:
            data = b""
        found = self._lines(data, now, end_s)
        if not data:
            found += self._unended(now)
        for alarm in found:
            self.counts[alarm.kind] = self.counts.get(alarm.kind, 0) + 1
            self.newest[alarm.kind] = alarm
        return found

    def _read(self) -> bytes:
        self.behind = False
        fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(fd)
            if status.st_ino != self._inode or status.st_size < self._offset:
                self._inode, self._offset = status.st_ino, 0
                self._begin_line()
            left = status.st_size - self._offset
            self.flooded = left > SKIP_BYTES
            if left > SKIP_BYTES:
                skipped = left - READ_BYTES
                self._open.clear()
                self.skipped_bytes += skipped + len(self._part)
                self._offset += skipped
                self._begin_line(told=True)  # what comes is not the beginning of a line
            data = os.pread(fd, READ_BYTES, self._offset) if left > 0 else b""
            self._offset += len(data)
            self.behind = self._offset < status.st_size
            return data
        finally:
            os.close(fd)

    def _lines(self, data: bytes, now: float, end_s: float) -> List[Alarm]:
        found: List[Alarm] = []
        if not data:
            return found
        lines = (self._part + data).replace(b"\r", b"\n").split(b"\n")
        last = len(lines) - 1
        for at, line in enumerate(lines[:-1]):
            if at == 0 and self._told:
                continue
            self._line(line[:LINE_BYTES], now, found)
            if at % 32 == 31 and time.monotonic() > end_s:
                self._offset -= sum(len(one) + 1 for one in lines[at + 1 :]) - 1
                self.behind = True
                self._begin_line()
                return found
        self._begin_line(lines[last][:LINE_BYTES], self._told and last == 0, now)
        return found

    def _begin_line(self, part: bytes = b"", told: bool = False, now: float = 0.0) -> None:
        """A line whose end has not come. ``told``: it needs no look any more."""
        self._part, self._told, self._part_s = part, told, now

    def _unended(self, now: float) -> List[Alarm]:
        """What waits for its end: a last line, and tracebacks."""
        found: List[Alarm] = []
        if self._part and not self._told and self._part_s and not 0 <= now - self._part_s < _UNENDED_S:
            self._part_s = 0.0  # once, until it grows
            self._line(self._part, now, found)
            self._told = bool(found)
        for worker, (since_s, told) in list(self._open.items()):
            if not 0 <= now - since_s < _OPEN_TRACEBACK_S:
                del self._open[worker]
                found.append(Alarm(TRACEBACK, told, worker, round(now, 3)))
        return found

    def _line(self, line: bytes, now: float, found: List[Alarm]) -> None:
        text = log_rules.text_of(line)
        worker, rest = log_rules.worker_of(text)
        if worker and worker not in self.workers and len(self.workers) < MAX_WORKERS:
            self.workers.append(worker)
        kind, told = log_rules.kind_of(rest), rest.strip()
        if worker in self._open:
            body = log_rules.bare(rest)
            if body[:1] in ("", " ", "\t", "|", "+") or body.startswith(log_rules.TRACEBACK_START):
                self._open[worker] = (now, self._open[worker][1])
                return
            if log_rules.is_quiet(rest):
                return  # another process's, in between
            started = self._open.pop(worker)[1]
            if body.startswith(_NO_TROUBLE):
                return
            kind, told = kind or TRACEBACK, "%s ... %s" % (started, body.strip())
        elif log_rules.TRACEBACK_START in rest:
            if len(self._open) < _MAX_OPEN:
                self._open[worker] = (now, log_rules.TRACEBACK_START)
            return
        if kind is not None:
            found.append(Alarm(kind, told[:_ALARM_CHARS], worker, round(now, 3)))

    def _adopt(self, known: Dict[str, Any]) -> None:
        """Counts, newest lines and workers of an earlier watch."""
        alarms = known.get("alarms")
        for one in alarms if isinstance(alarms, list) else []:
            try:
                kind, count = str(one["kind"]), int(one["count"])
                self.counts[kind], self.newest[kind] = count, Alarm(kind, str(one["line"]), str(one["worker"]), float(one["boot_s"]))
            except (TypeError, KeyError, ValueError):
                continue  # damage: it is counted anew
        workers = known.get("workers")
        self.workers = [str(one)[:40] for one in workers[:MAX_WORKERS]] if isinstance(workers, list) else []


def _whole(value: Any) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
