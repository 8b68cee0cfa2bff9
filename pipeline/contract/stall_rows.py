"""The evidence as people read it: a row a signal, with its value, its last change, what is usual, and one word on it."""

from typing import Dict, List, Optional, Tuple

from pipeline.contract import stall_processes, stall_words
from pipeline.contract.signals import GapStats, Row, Signals
from pipeline.contract.stall_gpus import BUSY, IDLE, LOW_POWER, NONE, STALE, Gpus
from pipeline.contract.stall_processes import Processes
from pipeline.contract.stall_words import span

MOVES, QUIET, NOT_READ, OLD, LOW, MISSING = "moves", "quiet", "not read", "old", "low", "missing"
_BEATS_S = 10.0
"""A heartbeat comes every two seconds, whatever is usual for units."""
_COUNTS = ("done", "load_done", "files", "bytes", "log_bytes", "beat_boot_s", "ranks_seen", "rss_bytes")


class Changes:
    """When each signal changed last."""

    def __init__(self) -> None:
        self._values: Dict[str, object] = {}
        self._changed: Dict[str, float] = {}
        self._lately_s = 0.0

    def look(self, look: Signals, processes: Processes, gpus: Gpus) -> None:
        values, now = self._values, look.boot_s
        for name in _COUNTS:
            value = getattr(look, name)
            if value is not None and value != values.get(name):
                if name in values:
                    self._changed[name] = now
                values[name] = value
        if look.states is not None and look.states != values.get("states"):
            if "states" in values:
                self._changed["states"] = look.tree_boot_s if look.tree_boot_s is not None else now
            values["states"] = look.states
        if processes.step_s and processes.cpu == BUSY:
            self._changed["cpu"] = processes.walk_boot_s or now
        if processes.step_s and processes.io == BUSY:
            self._changed["io"] = processes.walk_boot_s or now
        if gpus.grew:
            self._changed["gpu_bytes"] = now

    def rows(self, look: Signals, gaps: GapStats, processes: Processes, gpus: Gpus, advanced_s: float, quiet_s: float) -> Tuple[Row, ...]:
        """The rows of one look. Times are host seconds since boot. ``quiet_s``: what has not changed for so long is quiet."""
        self._lately_s = quiet_s
        rows = [self._count("units", "done", look.done, look, look.last_boot_s or advanced_s, stall_words.usual(gaps), look.total)]
        if look.load_done is not None:
            rows.append(self._count("load", "load_done", look.load_done, look, None, "", look.load_total))
        rows += [
            self._count("files", "files", look.files, look),
            self._count("bytes", "bytes", look.bytes, look),
            self._states(look, processes),
            self._measured("processor", "cpu", processes.cpu, _cores(processes.cores), _cores(processes.usual_cores) or ""),
            self._measured("storage I/O", "io", processes.io, None if processes.bytes_s is None else _size(processes.bytes_s) + "/s"),
        ]
        rows += self._gpus(look, gpus)
        rows.append(self._count("memory", "rss_bytes", look.rss_bytes, look))
        rows.append(self._time("heartbeat", look.beat_boot_s, look))
        rows.append(self._time("log", look.log_boot_s, look))
        return tuple(rows + self._ranks(look))

    def _count(
        self,
        name: str,
        field: str,
        value: Optional[int],
        look: Signals,
        changed: Optional[float] = None,
        usual: str = "",
        total: Optional[int] = None,
    ) -> Row:
        changed = changed if changed is not None else self._changed.get(field)
        if value is None:
            return Row(name, "-", changed, usual, NOT_READ)
        whole = "" if total is None else f" of {total:,}"
        text = _size(value) if field.endswith("bytes") else f"{value:,}{whole}"
        return Row(name, text, changed, usual, _moves(changed, look.boot_s, self._lately_s))

    def _states(self, look: Signals, processes: Processes) -> Row:
        if not processes.read or look.states is None:
            return Row("processes", "-", self._changed.get("states"), "", NOT_READ)
        text = ", ".join("%d %s" % (look.states[state], state) for state in sorted(look.states))
        word = "stopped" if processes.stopped else "D" if processes.blocked else "zombie" if processes.zombies else "alive"
        return Row("processes", text or "none", self._changed.get("states"), "", word)

    def _measured(self, name: str, field: str, work: str, text: Optional[str], usual: str = "") -> Row:
        word = {BUSY: MOVES, IDLE: QUIET, stall_processes.LOW: LOW}.get(work, NOT_READ)
        return Row(name, text or "-", self._changed.get(field), usual, word)

    def _gpus(self, look: Signals, gpus: Gpus) -> List[Row]:
        if gpus.work == NONE:
            return []
        word = {BUSY: MOVES, IDLE: QUIET, STALE: OLD}.get(gpus.work, NOT_READ)
        known = look.gpus or ()
        utils = [gpu.util_pct for gpu in known if gpu.util_pct is not None]
        powers = [gpu.power_w for gpu in known if gpu.power_w is not None]
        used = [gpu.used_bytes for gpu in known if gpu.used_bytes is not None]
        medians = gpus.power.medians
        usual = _range(list(medians.values()), "W")
        low = [gpu for gpu in known if gpu.power_w is not None and gpu.index in medians and gpu.power_w < LOW_POWER * medians[gpu.index]]
        power_word = LOW if len(low) == len(known) else QUIET if gpus.work == IDLE else MOVES
        power_word = OLD if gpus.work == STALE else power_word if powers else NOT_READ
        return [
            Row("GPU use", _range(utils, "%") or "-", gpus.busy_boot_s, "", word if utils else NOT_READ),
            Row("GPU power", _range(powers, "W") or "-", gpus.worked_boot_s, usual, power_word),
            Row("GPU memory", _size(sum(used)) if used else "-", self._changed.get("gpu_bytes"), "", _held(used, gpus)),
        ]

    def _time(self, name: str, when: Optional[float], look: Signals) -> Row:
        """A heartbeat proves no advance, and a quiet log no stall."""
        if when is None:
            return Row(name, "-", None, "", NOT_READ)
        return Row(name, span(look.boot_s - when) + " ago", when, "", _moves(when, look.boot_s, max(self._lately_s, _BEATS_S)))

    def _ranks(self, look: Signals) -> List[Row]:
        if look.ranks_expected is None and look.ranks_seen is None and len(look.ranks) < 2:
            return []
        seen = "-" if look.ranks_seen is None else "%d" % look.ranks_seen
        text = seen if look.ranks_expected is None else "%s of %d" % (seen, look.ranks_expected)
        told = {rank.rank for rank in look.ranks}
        gone = [rank.rank for rank in look.ranks if rank.alive is False]
        lacking = [rank for rank in range(min(look.ranks_expected or 0, 64)) if rank not in told] if len(told) > 1 else []
        short = look.ranks_seen is not None and look.ranks_expected is not None and look.ranks_seen < look.ranks_expected
        if gone:
            text += ", gone: " + ", ".join(map(str, gone))
        elif short and lacking:
            text += ", not yet: " + ", ".join(map(str, lacking))
        word = "gone" if gone else MISSING if short else NOT_READ if look.ranks_seen is None else "all there"
        return [Row("ranks", text, self._changed.get("ranks_seen"), "", word)]


def _moves(changed: Optional[float], now: float, lately_s: float) -> str:
    return MOVES if changed is not None and now - changed <= lately_s else QUIET


def _cores(cores: Optional[float]) -> Optional[str]:
    return None if cores is None else "%.1f %% of a core" % (100 * cores)


def _held(used: List[int], gpus: Gpus) -> str:
    return NOT_READ if not used else "lost" if gpus.lost is not None else MOVES if gpus.grew else "held"


def _range(values: List[float], unit: str) -> str:
    if not values:
        return ""
    low, high = min(values), max(values)
    return "%.0f %s" % (low, unit) if high - low < 1 else "%.0f-%.0f %s" % (low, high, unit)


def _size(value: float) -> str:
    """Decimal units, three digits: ``147 GB``."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 999.5 or unit == "TB":
            return ("%.3g %s" if unit != "B" else "%.0f %s") % (value, unit)
        value /= 1000.0
    return ""
