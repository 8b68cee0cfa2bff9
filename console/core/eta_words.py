"""The time left in words, the same on the screen and in lines: ``done 14:10 (14:04-14:18)``, ``loaded about 13:40``, ``ETA paused``."""

from typing import TYPE_CHECKING, NamedTuple

from console.core import fmt
from console.core.clocks import clock

if TYPE_CHECKING:
    from console.core.attempt import Attempt
    from console.core.eta import Eta
    from console.core.store import Store
    from pipeline.contract.disk_risk import DiskRisk

ZONES_DIFFER_S = 60.0
_ROUGH_FROM_S = 600.0
_HALF_A_DAY_S = 43200.0


class Here(NamedTuple):
    """The clock of whoever reads the words, and how old the newest frame is."""

    wall_s: float
    utc_offset_s: float
    age_s: float
    host_offset_s: float | None = None
    """The host's zone; where it differs, a time of day says that it is local."""

    def clock(self, wall_s: float) -> str:
        return clock(wall_s, self.utc_offset_s, self.wall_s)

    @property
    def whose(self) -> str:
        differs = self.host_offset_s is not None and abs(self.host_offset_s - self.utc_offset_s) >= ZONES_DIFFER_S
        return " local" if differs else ""


class Done(NamedTuple):
    """When it will be done: ``14:10``, ``14:04-14:18`` (empty without a range), ``local`` where that has to be said."""

    at: str
    span: str
    whose: str

    @property
    def words(self) -> str:
        return f"{self.at}{f' ({self.span})' if self.span else ''}{self.whose}"


def about(seconds: float) -> str:
    """An estimate as rough as it is: ``57 min``, ``1 h 30 min``, ``2 d 3 h``; seconds only below ten minutes."""
    return fmt.duration(seconds if seconds < _ROUGH_FROM_S else 60 * round(seconds / 60))


def done(store: "Store", attempt: "Attempt", here: Here) -> Done | None:
    """None without an estimate."""
    times = store.done_at(attempt, here.wall_s, here.age_s)
    if times is None:
        return None
    span = ""
    if times.low_s is not None and times.high_s is not None:
        near = max(times.end_s - times.low_s, times.high_s - times.end_s) < _HALF_A_DAY_S
        low, high = (clock(one, here.utc_offset_s, None if near else here.wall_s) for one in (times.low_s, times.high_s))
        span = f"{low}-{high}" if low != high else ""
    return Done(here.clock(times.end_s), span, here.whose)


def loaded(store: "Store", attempt: "Attempt", here: Here) -> str:
    """``loaded about 13:40``; empty without an estimate."""
    times = store.loaded_at(attempt, here.wall_s, here.age_s)
    return "" if times is None else f"loaded about {here.clock(times.end_s)}{here.whose}"


def paused(left: "Eta") -> str:
    """``ETA paused: STALLED``; empty when it is not."""
    return f"ETA paused: {left.paused}" if left.paused else ""


def by(left: "Eta") -> str:
    """``by samples``: what an estimate rests on where that is not the tokens."""
    return "" if left.basis in ("", "tokens") or left.loaded_s is not None else f"by {left.basis}"


def disk(store: "Store", attempt: "Attempt", risk: "DiskRisk", here: Here) -> str:
    """``9 GB SHORT, full about 17:05``, ``full about 17:05``; empty where there is no risk."""
    if not risk.line or risk.room_bytes is None:
        return ""
    if risk.room_bytes <= 0:
        return "FULL"
    short = f"{fmt.size(risk.short_bytes)} SHORT" if risk.short_bytes else ""
    times = store.disk_full_at(attempt, risk, here.wall_s, here.age_s)
    full = "" if times is None else f"full about {here.clock(times.end_s)}{here.whose}"
    return ", ".join(part for part in (short, full) if part)
