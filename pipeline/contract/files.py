"""Small files that other processes read: published by rename or grown by whole lines, read without trust."""

import errno
import json
import os
import stat
from typing import Any, Dict, Optional

_MAX_DEPTH = 32
_MAX_DIGITS = 32
"""Some Pythons refuse integers of more than 4300 digits, others write them."""


def write_json(path: str, value: Any, durable: bool = True) -> None:
    """Publish ``value`` at ``path`` by temp file and rename, mode 0600. Raises OSError; the old file then stays.

    ``durable`` syncs file and directory: for what must outlive a power cut, not for a heartbeat.
    """
    write_bytes(path, json.dumps(value, separators=(",", ":"), sort_keys=True).encode() + b"\n", durable)


def write_bytes(path: str, data: bytes, durable: bool = True) -> None:
    """The same with bytes as they are."""
    directory = os.path.dirname(path) or "."
    # Not tempfile: its imports cost the host program 2 MiB. O_EXCL and 48 random bits do the same here.
    temporary = os.path.join(directory, f".tmp-{os.getpid()}-{os.urandom(6).hex()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
    if durable:
        sync_directory(directory)


def append_line(path: str, line: bytes, durable: bool = False) -> None:
    """Add one line, without its end, in a single write. Raises OSError unless all of it was taken.

    A full disk may have cut an earlier line short: that one gets its end first, so that it does not take this one with it.
    """
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):  # a FIFO would take the line and keep none
            raise OSError(errno.EINVAL, "no regular file", path)
        size = os.fstat(fd).st_size
        torn = size and os.pread(fd, 1, size - 1) != b"\n"
        data = (b"\n" if torn else b"") + line + b"\n"
        if os.write(fd, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def loads(text: str) -> Any:
    """JSON that somebody else wrote, so that it can be sent on whole. Raises ValueError or RecursionError.

    NaN, infinities and integers that no counter reaches become None; nesting that a reader at the other end may refuse is an error.
    """
    value = json.loads(text, parse_constant=_none, parse_int=_integer)
    _check_depth(value, _MAX_DEPTH)
    return value


def read_json(path: str) -> Optional[Dict[str, Any]]:
    """The object at ``path``; None when there is no such file, or it holds no JSON object (torn, foreign)."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            value = loads(file.read())
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _none(_text: str) -> None:
    return None


def _integer(text: str) -> Optional[int]:
    return int(text) if len(text) <= _MAX_DIGITS else None


def _check_depth(value: Any, left: int) -> None:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if inner and not left:
        raise ValueError("nested too deep")
    for one in inner:
        if isinstance(one, (dict, list)):
            _check_depth(one, left - 1)
