"""Where a job stands: its phase, and whether it got anywhere since the look before."""

from typing import Dict, NamedTuple, Optional

from pipeline.contract.signals import LAUNCHING, PAUSED, WARMUP, Signals
from pipeline.contract.telemetry import FINISHING, LOADING, STEADY, VERIFYING

WARMUP_ADVANCES = 30
_READ_BYTES = 16 << 20
STARTING = (LAUNCHING, LOADING)
MOVING = (*STARTING, FINISHING)
"""They have no units: memory that grows and bytes that are read or written are their advance; also in a verification without a count."""
_NEAR_FUTURE_S = 1.0


class Advance(NamedTuple):
    """The job got somewhere."""

    boot_s: float
    """When, as exactly as anybody told."""
    unit: bool
    """A unit was finished; else: its load grew, or it went from one phase to another."""


class Place:
    """The phase, and the counters whose growth is an advance."""

    def __init__(self) -> None:
        self.phase = LAUNCHING
        self.advances = 0
        """Of units while steady, in this attempt, as far as was looked."""
        self._told = ""
        self._counts: Dict[str, float] = {}

    def look(self, signals: Signals, grew: bool, learned: int) -> Optional[Advance]:
        """The advance since the look before. ``grew``: memory of processes or GPUs is beyond any before. ``learned``: gaps that
        somebody else saw of this attempt.
        """
        began = signals.phase and signals.phase != self._told
        self._told = signals.phase or self._told
        unit = self._unit(signals)
        before, self.phase = self.phase, self._phase(signals, learned)
        loaded = self._grown("load", signals.load_done) | self._grown("read", signals.read_bytes, _READ_BYTES)
        written = self._grown("written", signals.write_bytes, _READ_BYTES)
        if unit is not None:
            return Advance(unit, True)
        if began:
            return Advance(_at(signals.phase_boot_s, signals.boot_s), False)
        if self.phase != before and PAUSED in (self.phase, before):
            return Advance(signals.boot_s, False)
        uncounted = self.phase == VERIFYING and signals.done is None
        moves = (loaded or written or grew) and (uncounted or self.phase in MOVING)
        return Advance(signals.boot_s, False) if moves else None

    def _phase(self, signals: Signals, learned: int) -> str:
        if signals.pause:
            return PAUSED
        if self._told != STEADY:
            return self._told or LAUNCHING
        if signals.done is not None and signals.total is not None and 0 < signals.total <= signals.done:
            return FINISHING
        return STEADY if self.advances + learned >= WARMUP_ADVANCES else WARMUP

    def _unit(self, signals: Signals) -> Optional[float]:
        """When the newest unit was finished, if one was since the look before: by the count of units, else of files, else of bytes."""
        if signals.done is not None:
            more = self._grown("done", signals.done)
            self.advances += more and self._told == STEADY
            later = self._grown("last", signals.last_boot_s)
            return _at(signals.last_boot_s, signals.boot_s) if more or (later and self._told in ("", STEADY, VERIFYING)) else None
        if signals.files is not None:
            more = self._grown("files", signals.files)
            self.advances += more and self._told == STEADY
            return _at(signals.last_boot_s, signals.boot_s) if more else None
        return signals.boot_s if self._grown("bytes", signals.bytes) else None

    def _grown(self, name: str, value: Optional[float], least: float = 0) -> bool:
        """Whether a count grew, by ``least`` or more. One that went back belongs to something else, and is the new base."""
        if value is None:
            return False
        before = self._counts.get(name)
        if before is None or value < before:
            self._counts[name] = value
            return False
        if value == before or value < before + least:
            return False
        self._counts[name] = value
        return True


def _at(told_boot_s: Optional[float], boot_s: float) -> float:
    """When something was, as told; where that cannot be, when it was seen."""
    return told_boot_s if told_boot_s is not None and told_boot_s <= boot_s + _NEAR_FUTURE_S else boot_s
