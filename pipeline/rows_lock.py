"""Prepared rows are not replaced while somebody reads them: many readers, or one writer.

The kernel frees the lock with its holder, however that ends. Where a reader may not write, it goes without: nobody else's prepare is
asked to wait for data that are not this user's.
"""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator

from pipeline.errors import BusyError, StageError

NAME = ".eaglewatch.rows.lock"
PATIENCE_S = 1.0
"""For a holder that is just ending."""


@contextlib.contextmanager
def held(directory: str, write: bool) -> Iterator[None]:
    """Hold the rows in a directory while they are read, or replaced (``write``). Raises BusyError; StageError where none can be locked."""
    try:
        fd = os.open(os.path.join(directory, NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if write and error.errno != errno.ENOENT:
            raise StageError(f"{os.path.join(directory, NAME)}: {error.strerror}") from None
        yield
        return
    try:
        _take(fd, directory, write)
        yield
    finally:
        os.close(fd)


def _take(fd: int, directory: str, write: bool) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(fd, (fcntl.LOCK_EX if write else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                who = "extract, vocab or a check reads them, and they would be replaced" if write else "prepare is at work on them"
                raise BusyError(f"the rows in {directory} are in use: {who}; wait for it or stop it") from None
            time.sleep(0.02)
        except OSError as error:
            raise StageError(f"{os.path.join(directory, NAME)}: cannot lock: {error.strerror}") from None
