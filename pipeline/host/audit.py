"""Lines in ``DATA/audit.jsonl``: who did what on this host, when, and what came of it. Appended with one write, never rewritten."""

import errno
import json
import os
import stat
import time
from typing import Any, Dict

from pipeline.contract import layout
from pipeline.contract.clock import boot_s
from pipeline.contract.files import append_line, loads
from pipeline.host import procs
from pipeline.host.asked import by
from pipeline.host.errors import FAILED, RequestError

_READ_BYTES = 1 << 20
MOST_LINES = 500


def newest(data_dir: str, count: int) -> Dict[str, Any]:
    """{lines, unreadable, older}: the newest lines, oldest first, of which some are no JSON objects; ``older``: there are more in the file.

    Raises OSError.
    """
    try:
        with open(_regular(os.path.join(data_dir, layout.AUDIT)), "rb") as file:
            start = max(0, os.fstat(file.fileno()).st_size - _READ_BYTES)
            file.seek(start)
            lines = file.read().splitlines()[1 if start else 0 :]
    except FileNotFoundError:
        return {"lines": [], "unreadable": 0, "older": False}
    values = [_object(line) for line in lines[-count:]]
    told = [value for value in values if value is not None]
    return {"lines": told, "unreadable": len(values) - len(told), "older": bool(start) or len(lines) > count}


def _regular(path: str) -> int:
    """An open descriptor of a file. Raises OSError: of anything else, such as a FIFO, which would hold up whoever reads it."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "no regular file", path)
    return fd


def _object(line: bytes) -> "Dict[str, Any] | None":
    try:
        value = loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def append(data_dir: str, line: Dict[str, Any]) -> None:
    """Add one line, durably. Raises OSError: what cannot be recorded should not be done."""
    full = dict(line, wall_s=round(time.time(), 3), boot_id=procs.this_boot(), boot_s=round(boot_s(), 3))
    append_line(os.path.join(data_dir, layout.AUDIT), json.dumps(full, separators=(",", ":"), sort_keys=True).encode(), durable=True)


def asked(data_dir: str, what: str, request: Dict[str, Any], **more: Any) -> None:
    """A launch or a stop, before it is done. Raises RequestError: what cannot be recorded is not done."""
    line = {"what": what, "by": by(request), **{name: request.get(name) for name in ("run", "stage", "attempt")}, **more}
    try:
        append(data_dir, line)
    except OSError as error:
        path = os.path.join(data_dir, layout.AUDIT)
        raise RequestError(FAILED, f"{path}: {error.strerror}; a {what} that cannot be recorded is not done") from None
