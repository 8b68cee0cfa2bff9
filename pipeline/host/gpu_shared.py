"""The newest readings of the GPUs, handed on: while an agent reads them every second, no lookout needs a process of its own for that."""

import os
from typing import Any, Dict, List, Optional, Tuple

from pipeline.contract import layout
from pipeline.contract.files import read_json, write_json
from pipeline.contract.telemetry import NVML_OK, number
from pipeline.host import procs

YOUNG_S = 8.0
_EVERY_S = 0.9
_FIELDS = ("index", "uuid", "used_bytes", "util_pct", "power_w")


class Publisher:
    """An agent's side. A disk that refuses it, or GPUs that cannot be read, leave every lookout to read for itself."""

    def __init__(self, data_dir: str):
        self._path = path(data_dir)
        self._written_s = float("-inf")

    def publish(self, nvml: Dict[str, Any], gpus: Optional[List[Dict[str, Any]]]) -> None:
        """Hand on a reading, at most once a second."""
        taken_s = number(nvml.get("boot_s"))
        if gpus is None or nvml.get("state") != NVML_OK or taken_s is None or 0 <= taken_s - self._written_s < _EVERY_S:
            return
        self._written_s = taken_s
        told = [{name: gpu.get(name) for name in _FIELDS} for gpu in gpus]
        try:
            write_json(self._path, {"boot_id": procs.this_boot(), "boot_s": taken_s, "gpus": told}, durable=False)
        except OSError:
            return


def newest(data_dir: str, now: float) -> Optional[Tuple[List[Dict[str, Any]], float]]:
    """(GPUs, when they were read) if an agent has read them lately; else None."""
    value = read_json(path(data_dir)) or {}
    taken_s, gpus = number(value.get("boot_s")), value.get("gpus")
    if value.get("boot_id") != procs.this_boot() or taken_s is None or not 0 <= now - taken_s < YOUNG_S or not isinstance(gpus, list):
        return None
    return [gpu for gpu in gpus if isinstance(gpu, dict)], taken_s


def path(data_dir: str) -> str:
    return os.path.join(data_dir, layout.GPU_READINGS)
