"""Lines in ``DATA/audit.jsonl``: who did what on this host, when, and what came of it. Appended with one write, never rewritten."""

import json
import os
import time
from typing import Any, Dict

from pipeline.contract import layout
from pipeline.contract.clock import boot_s
from pipeline.contract.files import append_line, loads
from pipeline.host import procs

_READ_BYTES = 1 << 20
MOST_LINES = 500


def newest(data_dir: str, count: int) -> Dict[str, Any]:
    """{lines, unreadable, older}: the newest lines, oldest first, of which some are no JSON objects; ``older``: there are more in the file.

    Raises OSError.
    """
    try:
        with open(os.path.join(data_dir, layout.AUDIT), "rb") as file:
            start = max(0, os.fstat(file.fileno()).st_size - _READ_BYTES)
            file.seek(start)
            lines = file.read().splitlines()[1 if start else 0 :]
    except FileNotFoundError:
        return {"lines": [], "unreadable": 0, "older": False}
    values = [_object(line) for line in lines[-count:]]
    told = [value for value in values if value is not None]
    return {"lines": told, "unreadable": len(values) - len(told), "older": bool(start) or len(lines) > count}


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
