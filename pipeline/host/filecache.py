"""Small files read again only when they changed, told by inode, size and mtime."""

import os
from typing import Any, Dict, List, Optional, Tuple

from pipeline.contract import events, files

_ENTRIES = 4096
_LAST = 20
MAX_BYTES = 1 << 18
"""Of one JSON file: frames carry it whole."""

_json: Dict[str, Tuple[Tuple[int, int, int], Optional[Dict[str, Any]]]] = {}
_events: Dict[str, "EventLog"] = {}


class EventLog:
    """What state needs of an event file, read on from where the last look ended."""

    def __init__(self, inode: int):
        self.inode = inode
        self.offset = 0
        self.last: List[Dict[str, Any]] = []
        """The last 20 events."""
        self.newest: Dict[str, Dict[str, Any]] = {}
        """The newest event of each kind."""
        self.last_word: Optional[Dict[str, Any]] = None
        """The newest error, refusal or interruption that the stage itself told."""

    def add(self, new: List[Dict[str, Any]]) -> None:
        for event in new:
            kind = event.get("kind")
            self.newest[str(kind)] = event
            if event.get("by") == "stage" and kind in (events.ERROR, events.REFUSED, events.INTERRUPTED):
                self.last_word = event
        self.last = (self.last + new)[-_LAST:]


def read_json(path: str) -> Optional[Dict[str, Any]]:
    """As ``files.read_json``, and None for a file that is too large; the caller must not change what it gets."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # ValueError: a NUL in a path that settings name
        _json.pop(path, None)
        return None
    key = (status.st_ino, status.st_size, status.st_mtime_ns)
    known = _json.pop(path, None)
    if known is None or known[0] != key:
        known = (key, files.read_json(path) if status.st_size <= MAX_BYTES else None)
    _keep(_json, path, known)
    return known[1]


def read_events(path: str) -> EventLog:
    """The event file at ``path`` so far; empty when there is none."""
    try:
        status = os.stat(path)
    except OSError:
        _events.pop(path, None)
        return EventLog(0)
    known = _events.pop(path, None)
    if known is None or known.inode != status.st_ino or known.offset > status.st_size:
        known = EventLog(status.st_ino)
    if known.offset < status.st_size:
        new, known.offset = events.read_events(path, known.offset)
        known.add(new)
    _keep(_events, path, known)
    return known


def _keep(cache: Dict[str, Any], path: str, value: Any) -> None:
    """Most recently used last; the oldest goes when there are too many."""
    cache[path] = value
    if len(cache) > _ENTRIES:
        del cache[next(iter(cache))]
