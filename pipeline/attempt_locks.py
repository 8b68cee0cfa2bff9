"""The locks of a stage and of its output directories, taken by the stage itself."""

import errno
import os
from collections.abc import Sequence

from pipeline.contract import layout
from pipeline.contract.files import read_json
from pipeline.errors import BusyError, StageError, UserError
from pipeline.host import locks, procs


def take_outputs(outputs: Sequence[str], attempt: str, by: str, held: list[locks.Lock]) -> None:
    """Make and lock every output directory, adding to ``held``. Raises BusyError, UserError."""
    for output in sorted({os.path.realpath(one) for one in outputs}):
        try:
            os.makedirs(output, mode=0o700, exist_ok=True)
        except OSError as error:
            raise UserError(f"{output}: cannot make the output directory: {error.strerror}") from None
        take(os.path.join(output, layout.OUTPUT_LOCK), attempt, by, f"output directory {output}", held)


def take(path: str, attempt: str, by: str, what: str, held: list[locks.Lock]) -> None:
    """Take one lock and add it to ``held``.

    Raises BusyError, which names the holder; UserError where nothing can be written; StageError where nothing can be locked.
    """
    try:
        lock = locks.take(path, locks.holder_line(attempt, by))
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise UserError(f"{what} cannot be written to: {error.strerror}; make it writable, or choose another place") from None
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StageError(f"{what}: {error.strerror}; free some space") from None
        raise StageError(f"{path}: cannot lock: {error.strerror}; the run must lie on a file system with flock") from None
    if lock is None:
        raise _busy(path, what)
    held.append(lock)


def check_not_held(path: str, what: str) -> None:
    """Only look. Raises BusyError, which names the holder."""
    if locks.is_held(path):
        raise _busy(path, what)


def _busy(path: str, what: str) -> BusyError:
    holder = locks.read_holder(path)
    return BusyError(f"{what} is held by {locks.describe_holder(holder)}; wait for it or stop it", holder)


def held_by_parent(path: str, directory: str) -> bool:
    """An interpreter that is a wrapper (conda run, a script) may close the descriptor, but then it holds the lock itself."""
    ident = read_json(os.path.join(directory, layout.IDENT)) or {}
    if locks.read_holder(path).get("attempt") != os.path.basename(directory) or not procs.alive(ident):
        return False
    pid = os.getpid()
    while pid > 1 and pid != ident["pid"]:
        stat = procs.read_stat(pid)
        pid = stat.ppid if stat else 0
    return pid == ident["pid"] and locks.is_held(path)


def same_file(one: str, other: str) -> bool:
    """Whether both names are the same file; False when either is missing."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
