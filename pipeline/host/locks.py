"""One holder at a time: flock on a file that also says who holds it.

The kernel frees the lock with the last descriptor, so a dead holder never blocks anybody; what the file says is only for people
and for telling a dead holder from a live one. A lock can be passed to a child by letting it inherit the descriptor.
"""

import errno
import fcntl
import json
import os
import time
from typing import Any, Dict, Optional

from pipeline.contract.files import loads
from pipeline.contract.telemetry import number
from pipeline.host import procs

PATIENCE_S = 1.0
"""How long ``take`` waits for a holder that is not alive: somebody who only looks, or a shim that still writes an exit code."""


class Lock:
    """A lock that this process holds."""

    def __init__(self, path: str, fd: int, shared: bool = False):
        self.path = path
        self.fd = fd
        self.shared = shared
        """Other processes hold the same lock by the same descriptor."""

    def describe(self, holder: Dict[str, Any]) -> None:
        """Write who holds it. A full disk is no reason to give the lock up."""
        data = json.dumps(holder, sort_keys=True).encode() + b"\n"
        try:
            os.pwrite(self.fd, data, 0)
            os.ftruncate(self.fd, len(data))
        except OSError:
            pass

    def close(self) -> None:
        """Give up this process's descriptor; the lock stays while another process has inherited it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def release(self) -> None:
        """Give the lock up, and say so in the file unless others go on holding it."""
        if self.fd >= 0 and not self.shared:
            try:
                os.ftruncate(self.fd, 0)
            except OSError:
                pass
        self.close()


def holder_line(attempt: str, by: str, pid: Optional[int] = None) -> Dict[str, Any]:
    """What a lock file says: {attempt, by, since_wall_s} and the identity of the holder, by default this process."""
    return dict(procs.identity(pid), attempt=attempt, by=by, since_wall_s=round(time.time(), 3))


def take(path: str, holder: Dict[str, Any], patience_s: float = PATIENCE_S) -> Optional[Lock]:
    """Take the lock, or return None when somebody else holds it. Raises OSError where the file system cannot lock.

    The descriptor is not inherited unless ``os.set_inheritable`` says so.
    """
    deadline = time.monotonic() + patience_s
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            locked = _try_lock(fd, fcntl.LOCK_EX)
            if locked and _same_file(fd, path):
                lock = Lock(path, fd)
                lock.describe(holder)
                fd = -1
                return lock
        finally:
            if fd >= 0:
                os.close(fd)
        if not locked:
            if procs.alive(read_holder(path)) or time.monotonic() >= deadline:
                return None
            time.sleep(0.02)


def inherited(path: str, fd: int) -> Optional[Lock]:
    """The lock that ``fd`` already holds, given by the parent; None when ``fd`` is not that file, or others hold the lock."""
    try:
        if not _same_file(fd, path) or not _try_lock(fd, fcntl.LOCK_EX):
            return None
    except OSError:
        return None
    os.set_inheritable(fd, False)
    return Lock(path, fd, shared=True)


def read_holder(path: str) -> Dict[str, Any]:
    """What the lock file says; {} when it says nothing readable. It may be about somebody who is gone: see ``is_held``."""
    try:
        with open(path, "rb") as file:
            value = loads(file.readline(1 << 16).decode("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def is_held(path: str) -> bool:
    """Whether anybody holds the lock. Looks for a live holder first, so that a look seldom touches the lock itself."""
    if procs.alive(read_holder(path)):
        return True
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _try_lock(fd, fcntl.LOCK_SH)
    except OSError:
        return False
    finally:
        os.close(fd)


def describe_holder(holder: Any) -> str:
    """One line for people: attempt, pid, who started it and since when; "an unknown process" when the file does not tell."""
    if not isinstance(holder, dict) or not holder.get("attempt"):
        return "an unknown process (the lock file does not name it)"
    since = number(holder.get("since_wall_s"))
    try:
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(since)) if since is not None else "unknown"
    except (ValueError, OverflowError, OSError):  # no year that the C library knows
        when = "unknown"
    gone = "" if procs.alive(holder) else ", which has ended"
    return "attempt {} (pid {}{}, started by {}, since {})".format(holder["attempt"], holder.get("pid"), gone, holder.get("by"), when)


def _try_lock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
        return True
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise


def _same_file(fd: int, path: str) -> bool:
    try:
        there, here = os.stat(path), os.fstat(fd)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
