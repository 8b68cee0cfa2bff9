"""Free space where something is to be written, before the directory exists."""

import os

from pipeline.errors import UserError
from pipeline.sizes import size


def nearest(path: str) -> str:
    """The directory itself, or the nearest one above it that is there already."""
    while not os.path.isdir(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


def free_bytes(path: str) -> int:
    """What this user may write there. Raises OSError."""
    stat = os.statvfs(nearest(path))
    return stat.f_bavail * stat.f_frsize


def check_writable(path: str, setting: str) -> None:
    """Raise UserError when nothing can be made in a directory, or it cannot be made itself."""
    there = nearest(path)
    if not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"{setting}: {there} cannot be written to by this user; choose another {setting}, or change its mode")
    if os.path.lexists(path) and not os.path.isdir(path):
        raise UserError(f"{setting}: {path} is no directory; choose another {setting}, or move that file away")
    if os.statvfs(there).f_flag & os.ST_RDONLY:
        raise UserError(f"{setting}: {there} is mounted read-only; choose another {setting}")


def check_room(path: str, setting: str, need_bytes: int, what: str) -> int:
    """The free bytes; raises UserError when ``what`` needs more than that, OSError."""
    free = free_bytes(path)
    if free < need_bytes:
        raise UserError(
            f"{setting}: {nearest(path)} has {size(free)} free and {what} needs {size(need_bytes)}; free {size(need_bytes - free)} or more"
        )
    return free
