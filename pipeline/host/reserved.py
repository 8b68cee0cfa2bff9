"""Files that must be writable when the disk is full: their block is allocated early, filled in place, and then renamed.

An exit code that cannot be stored is lost for good, and a full disk is when an operator wants to stop a job.
"""

import json
import os
from typing import Any, Dict

from pipeline.contract.files import sync_directory, write_json

_BYTES = 4096
_PREFIX = ".reserved-"


def reserve(directory: str, name: str) -> None:
    """Allocate the block for ``name``. Raises OSError when the disk has none."""
    fd = os.open(os.path.join(directory, _PREFIX + name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(fd, b" " * _BYTES)
        os.fsync(fd)
    finally:
        os.close(fd)


def publish(directory: str, name: str, value: Dict[str, Any]) -> None:
    """Make ``name`` appear with ``value``, durably; without a reserved block it is an ordinary file. Raises OSError."""
    path = os.path.join(directory, name)
    data = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
    # The whole block in one write and no truncation: two writers at once leave one of the two values, never a mixture.
    padded = data.ljust(_BYTES - 1) + b"\n"
    try:
        fd = os.open(os.path.join(directory, _PREFIX + name), os.O_WRONLY)
    except FileNotFoundError:
        write_json(path, value)
        return
    try:
        if len(padded) > _BYTES or os.pwrite(fd, padded, 0) != _BYTES:
            write_json(path, value)
            return
        os.fsync(fd)
    finally:
        os.close(fd)
    try:
        os.rename(os.path.join(directory, _PREFIX + name), path)
    except FileNotFoundError:  # the other of two writers has just renamed it
        return
    sync_directory(directory)
