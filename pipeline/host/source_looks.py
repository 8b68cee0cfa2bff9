"""Looks at inputs that no stage made (prompts, the verifier's files) for the agent, whose one thread must not wait for a dead mount.

A forked child looks; the agent only asks whether it has ended, keeps the answer, and has it made anew every ``EVERY_S``. What has not been
looked at, or not lately, is unknown: never as good as a look that found nothing.
"""

import json
import os
import select
import signal
import time
from typing import Any, Dict, List, Optional, Tuple

from pipeline.contract import source_files
from pipeline.host import forked

EVERY_S = 10.0
FIRST_WAIT_S = 2.0
"""Waited for the first answer about an input, so that what takes milliseconds is never unknown; not while another look is that late."""
_TIMES_S = 20
"""A look is made no sooner than after so many times what the last one took."""
_GOOD_FOR = 3
"""So many intervals an answer counts without a newer one."""
_CHILDREN = 8
"""More would be of mounts that are dead."""
_ENTRIES = 256


class _Look:
    """The answers about one input, and the child that looks for the next."""

    def __init__(self, recorded: Any, path: str):
        self.recorded = recorded
        self._path = path
        self._why: Optional[str] = None
        self._ended_s: Optional[float] = None
        self._every_s = EVERY_S
        self._began_s = 0.0
        self._fd: Optional[int] = None
        self._pid = 0
        self._data = b""

    def late(self) -> bool:
        return self._fd is not None and time.monotonic() - self._began_s > FIRST_WAIT_S

    def answer(self) -> Optional[str]:
        """As ``source_files.changed``; begins with ``source_files.UNKNOWN`` while there is none, or only an old one."""
        if self._fd is None and (self._ended_s is None or time.monotonic() - self._ended_s >= self._every_s) and len(_running) < _CHILDREN:
            self._begin()
        self._listen(FIRST_WAIT_S if not self._is_good() and not any(look.late() for look in _looks.values()) else 0.0)
        if self._is_good():
            return self._why
        return "%s%s has not answered so far; is it on a mount that hangs?" % (source_files.UNKNOWN, self._path)

    def _is_good(self) -> bool:
        return self._ended_s is not None and time.monotonic() - self._ended_s < _GOOD_FOR * self._every_s

    def _begin(self) -> None:
        self._began_s, self._data = time.monotonic(), b""
        try:
            self._pid, self._fd = forked.start(lambda _: _timed(self.recorded, self._path))
            _running.append(self._pid)
        except OSError as error:  # no process may be started
            self._end(source_files.UNKNOWN + "it cannot be looked at: %s" % error.strerror, 0.0)

    def _listen(self, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        while self._fd is not None:
            poller = select.poll()
            poller.register(self._fd, select.POLLIN)
            if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                return
            data = os.read(self._fd, 1 << 16)
            self._data += data
            if not data or data.endswith(b"\n"):
                self.close()
                self._end(*_told(self._data))

    def _end(self, why: Optional[str], took_s: float) -> None:
        self._why, self._ended_s = why, time.monotonic()
        self._every_s = max(EVERY_S, _TIMES_S * took_s)

    def close(self) -> None:
        """Let go of the child, if there is one: it has answered, or nobody wants to know any more."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            try:
                os.kill(self._pid, signal.SIGKILL)  # not reaped yet, so that the number is still its
            except ProcessLookupError:
                pass


_looks: Dict[Tuple[str, str], _Look] = {}
_running: List[int] = []
"""Children that are not reaped yet."""


def changed(recorded: Any, path: str) -> Optional[str]:
    """``source_files.changed`` as it was some seconds ago. Never waits longer than ``FIRST_WAIT_S``, and mostly not at all."""
    _reap()
    key = (path, str(recorded.get("sha256") if isinstance(recorded, dict) else None))
    look = _looks.pop(key, None)
    if look is None or look.recorded != recorded:
        if look is not None:
            look.close()
        look = _Look(recorded, path)
    _looks[key] = look
    if len(_looks) > _ENTRIES:
        _looks.pop(next(iter(_looks))).close()
    return look.answer()


def close() -> None:
    """Let go of every child, and wait for none that hangs."""
    for look in _looks.values():
        look.close()
    deadline = time.monotonic() + 1.0
    while _running and time.monotonic() < deadline:
        _reap()
        time.sleep(0.01)


def _timed(recorded: Any, path: str) -> Tuple[Optional[str], float]:
    began = time.monotonic()
    return source_files.changed(recorded, path), time.monotonic() - began


def _told(line: bytes) -> Tuple[Optional[str], float]:
    """What a child said: its answer, and how long it took."""
    try:
        why, took_s = json.loads(line.decode())
        return why, took_s
    except ValueError:
        return source_files.UNKNOWN + "the look at it ended early: %s" % line[:200].decode("utf-8", "replace").strip("!\n"), 0.0


def _reap() -> None:
    for pid in list(_running):
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                _running.remove(pid)
        except ChildProcessError:
            _running.remove(pid)
