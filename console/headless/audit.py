"""What this machine did to hosts: an append-only log, and launches whose reply never came.

Both are under the state directory. A launch is written down with its attempt id before it is sent: whoever runs the same
command after a crash then asks for the same launch, not for a second one.
"""

import contextlib
import fcntl
import getpass
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console import config
from console.headless.output import FailedError
from pipeline.contract import files, layout

_SWEEP_AFTER_S = 60.0


def record(what: str, **fields: Any) -> None:
    """Append one line to ``audit.jsonl``: when, who, and the fields. On disk when this returns.

    Raises FailedError unless all of it is there: an action that leaves no record is not taken.
    """
    entry = {"wall_s": round(time.time(), 3), "who": who(), "what": what, **fields}
    path = _directory() / "audit.jsonl"
    try:
        files.append_line(str(path), json.dumps(entry, sort_keys=True).encode(), durable=True)
    except OSError as error:
        raise FailedError(f"{path}: {error.strerror}; an action that cannot be recorded is not taken") from None


@contextlib.contextmanager
def action(what: str, asked: Mapping[str, Any] | None = None, /, **fields: Any) -> Iterator[dict[str, Any]]:
    """Recorded before the block asks for it, and after: the block puts ``reply`` and what else it was told into what it gets.

    ``asked`` is told with the question only.

    An error, or an interrupt before the answer, is recorded too. Raises FailedError, before the block.
    """
    record(what, **fields, **(asked or {}), reply=None)
    told: dict[str, Any] = {"reply": None}
    try:
        yield told
    except BaseException as error:
        record(what, **fields, reply=f"error: {error}" if str(error) else "interrupted before the answer came")
        raise
    record(what, **fields, **told)


def who() -> str:
    """``user on machine``, as hosts record it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a uid without a name, as in some containers
        user = f"uid {os.getuid()}"
    return f"{user} on {socket.gethostname()}"


@dataclass(frozen=True)
class Pending:
    """A launch that was written down; ``found`` when an earlier command that is gone now wrote it."""

    attempt: str
    found: bool
    path: Path
    asked: dict[str, Any]
    """What it was asked with; empty when the record does not tell."""

    def settle(self) -> None:
        """The host has answered: the record has done its work."""
        self.path.unlink(missing_ok=True)


@contextlib.contextmanager
def pending_launch(host: str, run: str, stage: str, asked: dict[str, Any]) -> Iterator[Pending]:
    """The attempt to ask for: one that a dead command wrote down, else a new one, on disk before it is handed out.

    ``asked`` is what a new one is asked with; whoever finds an earlier one compares, since another order is another launch.
    The record of a command that is still alive is locked by it and left alone. Raises FailedError when it cannot be written.
    """
    try:
        directory = _directory() / "launches"
        directory.mkdir(mode=0o700, exist_ok=True)
        _sweep(directory)
        wanted = {"host": host, "run": run, "stage": stage}
        fd, pending = _adopt(directory, wanted) or _create(directory, wanted, asked)
    except OSError as error:
        raise FailedError(f"{config.state_dir()}: {error.strerror}; a launch is written down there before it is sent") from None
    try:
        yield pending
    finally:
        os.close(fd)


@contextlib.contextmanager
def orphaned_launch(host: str, run: str, stage: str, attempt: str) -> Iterator[Pending | None]:
    """The record of one launch that a command which is gone wrote down, for as long as the block runs; None without one."""
    try:
        found = _adopt(_directory() / "launches", {"host": host, "run": run, "stage": stage, "attempt": attempt})
    except OSError:
        found = None
    try:
        yield found[1] if found else None
    finally:
        if found:
            os.close(found[0])


def _adopt(directory: Path, wanted: dict[str, str]) -> tuple[int, Pending] | None:
    for path in sorted(directory.glob("*.json"), reverse=True):
        value = files.read_json(str(path)) or {}
        if {key: value.get(key) for key in wanted} != wanted:
            continue
        try:
            attempt = layout.check_name(value.get("attempt", ""), "attempt id")
            fd = _lock(path)
        except (ValueError, FileNotFoundError):
            continue
        if fd is not None:
            asked = value.get("asked")
            return fd, Pending(attempt, True, path, asked if isinstance(asked, dict) else {})
    return None


def _sweep(directory: Path) -> None:
    """Remove what a command left that was killed before its record had its name: nothing was sent yet."""
    for path in directory.glob(".*"):
        with contextlib.suppress(FileNotFoundError):  # another command was faster
            if time.time() - path.stat().st_mtime < _SWEEP_AFTER_S:
                continue  # its command may not have locked it yet
            fd = _lock(path)
            if fd is not None:
                path.unlink()
                os.close(fd)


def _create(directory: Path, wanted: dict[str, str], asked: dict[str, Any]) -> tuple[int, Pending]:
    attempt = layout.new_attempt_id()
    # The lock is taken before the file has its name, so that no other command takes it for an orphan.
    temporary = directory / f".{attempt}"
    files.write_json(str(temporary), {**wanted, "attempt": attempt, "asked": asked, "wall_s": round(time.time(), 3)})
    fd = _lock(temporary)
    if fd is None:
        raise FailedError(f"{temporary}: locked by another process")
    path = directory / f"{attempt}.json"
    temporary.rename(path)
    files.sync_directory(str(directory))
    return fd, Pending(attempt, False, path, asked)


def _lock(path: Path) -> int | None:
    """A locked descriptor; None when another process holds it, or has removed the file meanwhile."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_nlink:
            return fd
    except BlockingIOError:
        pass
    os.close(fd)
    return None


def _directory() -> Path:
    directory = config.state_dir()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FailedError(f"{directory}: {error.strerror}; the audit log and launches are kept there (XDG_STATE_HOME)") from None
    return directory
