"""Lines in ``DATA/audit.jsonl``: who did what on this host, when, and what came of it. Appended with one write, never rewritten."""

import json
import os
import time
from typing import Any, Dict

from pipeline.contract import layout
from pipeline.contract.clock import boot_s
from pipeline.contract.files import append_line
from pipeline.host import procs


def append(data_dir: str, line: Dict[str, Any]) -> None:
    """Add one line, durably. Raises OSError: what cannot be recorded should not be done."""
    full = dict(line, wall_s=round(time.time(), 3), boot_id=procs.this_boot(), boot_s=round(boot_s(), 3))
    append_line(os.path.join(data_dir, layout.AUDIT), json.dumps(full, separators=(",", ":"), sort_keys=True).encode(), durable=True)
