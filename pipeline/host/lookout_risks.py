"""What the lookout keeps an eye on besides the stall: the disk's room, the host's memory, and whether the job has made anything."""

from typing import Any, Dict, List, Optional, Tuple

from pipeline.contract import layout, signals
from pipeline.contract.disk_risk import DiskLook, DiskMeter, DiskRisk
from pipeline.contract.files import read_json
from pipeline.contract.telemetry import number
from pipeline.host import probe
from pipeline.host.lookout_output import Output

AMBER_S = 300.0
"""A disk that will be full some day is told when it stays so."""
_MEMORY_S = 60.0


class DiskWatch:
    """Whether the disk of a stage's output will hold what is to come."""

    def __init__(self, settings: Dict[str, Any], stage: str, scale: float):
        section = settings.get(stage)
        self._least = (number(section.get("min_free_bytes")) if isinstance(section, dict) else None) or 0.0
        self._amber_s = AMBER_S * min(scale, 1.0)
        self._meter = DiskMeter()
        self._since_s: Optional[float] = None

    def look(self, now: float, output: Optional[Output], written: Optional[float], total: Optional[float]) -> Optional[DiskRisk]:
        """The risk when it is to be told; else None."""
        if output is None:
            return None
        risk = self._meter.look(DiskLook(now, output.free_bytes, output.boot_s, written, total, self._least))
        if risk.level not in (signals.AMBER, signals.RED):
            self._since_s = None
            return None
        self._since_s = now if self._since_s is None else self._since_s
        return risk if risk.level == signals.RED or now - self._since_s >= self._amber_s else None


class MemoryWatch:
    """The host's available memory of late: whether a SIGKILL may have come from its lack."""

    def __init__(self) -> None:
        self._shares: List[Tuple[float, float]] = []

    def look(self, now: float) -> None:
        host = probe.memory()
        available, total = number(host.get("ram_available_bytes")), number(host.get("ram_total_bytes"))
        if available is not None and total:
            self._shares = [one for one in self._shares if 0 <= now - one[0] < _MEMORY_S] + [(now, available / total)]

    @property
    def least_share(self) -> Optional[float]:
        """Of all memory; None when it could not be read."""
        return min((share for _, share in self._shares), default=None)


class Growth:
    """Whether an attempt has made anything since its start, by its own count or by ledgers."""

    def __init__(self) -> None:
        self.seen = False
        self._first_files: Optional[float] = None

    def look(self, directory: str, output: Optional[Output]) -> None:
        progress = read_json(layout.progress_file(directory, 0)) or {}
        done, resumed = number(progress.get("done")), number(progress.get("resumed_done"))
        files = number(((output.ledger if output else None) or {}).get("files"))
        if files is not None and self._first_files is None:
            self._first_files = files
        self.seen = self.seen or (done is not None and done > (resumed or 0)) or (files or 0) > (self._first_files or 0)
