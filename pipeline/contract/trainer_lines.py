"""The metrics that speculators' trainer prints. Source: speculators 0.9, ``train/trainer.py`` and ``train/logger.py``.

They go through a rich handler: a record begins with a time or blanks, ``INFO``, and pairs such as ``train/loss=1.235, epoch=0``; it is
wrapped to the width of the terminal (80 columns in a file), each further line beginning with the same blanks. The first line may end in
the source's name and line.
"""

import re
from typing import Dict

_BEGIN = re.compile(r"(?:\[[\d:.]{4,15}\]|\s{3,12})?\s{0,4}INFO\s{1,8}(?=\S)")
_PAIR = re.compile(r"(?<![\w/])([A-Za-z][\w/.\-]{0,79})=([-+]?(?:\d[\d.]{0,20}(?:e[-+]?\d{1,3})?|nan|inf))(?![\w.])")
_OF_METRICS = re.compile(r"(?<![\w/])(?:train|val)/[\w/.\-]{1,79}=")
_FURTHER = re.compile(r"\s{12,}\S")
_MOST = 64


class Trainer:
    """Takes whole lines, their leading blanks included. ``metrics`` is the newest value of each name."""

    def __init__(self) -> None:
        self.metrics: Dict[str, float] = {}
        self.records = 0
        """Records of metrics so far."""
        self._open = False

    def take(self, line: str) -> bool:
        """Whether the line was one of metrics."""
        begins = _BEGIN.match(line)
        if begins is None and not (self._open and _FURTHER.match(line)):
            self._open = False
            return False
        if begins is not None:
            self._open = bool(_OF_METRICS.search(line))
            self.records += self._open
        if self._open:
            for name, value in _PAIR.findall(line):
                if name in self.metrics or len(self.metrics) < _MOST:
                    self.metrics[name] = float(value)
        return self._open
