"""For a few seconds no NVML process of ours: so that what the GPUs hold then is not held for our own handle's sake."""

import os
from typing import Any, Dict

from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json, write_json
from pipeline.contract.telemetry import number
from pipeline.host import procs

_NAME = "quiet.json"
LONGEST_S = 15.0


def ask(markers: str) -> None:
    """Ask every agent of this data directory to close its NVML process. Void once this process has ended. Raises OSError."""
    os.makedirs(markers, mode=0o700, exist_ok=True)
    write_json(os.path.join(markers, _NAME), dict(procs.identity(), until_boot_s=boot_s() + LONGEST_S), durable=False)


def end(markers: str) -> None:
    try:
        os.unlink(os.path.join(markers, _NAME))
    except OSError:
        pass  # it ends by itself


def asked_for(markers: str) -> bool:
    """Whether somebody who lives asks for it now."""
    path = os.path.join(markers, _NAME)
    if not os.path.exists(path):
        return False
    entry: Dict[str, Any] = read_json(path) or {}
    left = (number(entry.get("until_boot_s")) or 0.0) - boot_s()
    return 0 < left <= LONGEST_S and procs.alive(entry)
