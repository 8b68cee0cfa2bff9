"""How far a job had come when: one curve over the whole attempt, which gets coarser instead of longer."""

import os
from typing import Any, Dict, List, Optional

from pipeline.contract import layout
from pipeline.contract.files import read_json, write_json
from pipeline.contract.telemetry import number

MOST_POINTS = 240
FIRST_S = 5.0


class Curve:
    """``curve.json`` of one attempt: points [boot_s, done, tokens, bytes, mean GPU MiB]. One that is there is gone on with."""

    def __init__(self, directory: str, first_s: float = FIRST_S):
        self._path = os.path.join(directory, layout.CURVE)
        points = (read_json(self._path) or {}).get("points")
        self.points: List[List[Any]] = (
            [one for one in points if isinstance(one, list) and len(one) == 5] if isinstance(points, list) else []
        )
        self._every_s = first_s
        while len(self.points) > MOST_POINTS:
            self._thin()
        if len(self.points) > 2:
            self._every_s = max(first_s, (self.points[-1][0] - self.points[0][0]) / len(self.points))

    def add(self, now: float, done: Optional[int], tokens: Optional[int], size: Optional[int], gpu_mib: Optional[float]) -> bool:
        """Take a point unless it comes too soon after the last; whether it was taken."""
        if self.points and 0 <= now - self.points[-1][0] < self._every_s:
            return False
        self.points.append([round(now, 1), done, tokens, size, gpu_mib])
        if len(self.points) > MOST_POINTS:
            self._thin()
        return True

    def write(self) -> None:
        """Raises OSError."""
        write_json(self._path, {"points": self.points}, durable=False)

    def _thin(self) -> None:
        """Every other point, the first and the last among them."""
        last = self.points[-1]
        self.points = self.points[::2]
        if self.points[-1] is not last:
            self.points.append(last)
        self._every_s *= 2


def loaded_gpu_mib(directory: str, progress: Dict[str, Any]) -> Optional[float]:
    """Mean MiB a GPU at the first point after the attempt's first unit; None where none was read."""
    first_s = number(progress.get("first_boot_s"))
    for boot_s, _, _, _, mib in Curve(directory).points:
        at_s, read_mib = number(boot_s), number(mib)
        if first_s is not None and at_s is not None and at_s >= first_s and read_mib is not None:
            return read_mib
    return None
