"""When the action of a receipt ended. What it proved was so then: an old receipt is never shown as the present."""

from typing import Any

import msgspec

from console.core import fmt, reading
from console.core.action import Action
from console.core.clocks import clock
from console.core.views import HostView

FRESH_S = 60.0


class Ended(msgspec.Struct, frozen=True):
    """The end of an action, as this host's newest frame dates it."""

    boot_s: float | None
    """Host time of this boot, negative before it; None: not known."""
    age_s: float | None
    wall_s: float | None
    """By the host's wall clock."""
    restarted: bool
    """The host was restarted since."""
    later: str
    """What was started after it, and is live; empty when nothing is."""

    @property
    def fresh(self) -> bool:
        """Whether it may be read as the present: within the last minute, in this boot, and nothing was started since."""
        return self.age_s is not None and self.age_s <= FRESH_S and not self.restarted and not self.later

    def words(self, now_wall_s: float, utc_offset_s: float) -> str:
        """``ended 8 h 20 min ago (05:12)``, in this machine's zone, and what makes it the past."""
        told = "ended at an unknown time" if self.age_s is None else f"ended {fmt.age(self.age_s)} ago"
        wall_s = now_wall_s - self.age_s if self.age_s is not None and now_wall_s else self.wall_s
        if wall_s is not None:
            told += f" ({clock(wall_s, utc_offset_s, now_wall_s or None)})"
        if self.restarted:
            told += ", before the host's restart"
        return told + (f"; since then {self.later} began" if self.later else "")

    def to_json(self) -> dict[str, Any]:
        age_s = None if self.age_s is None else round(self.age_s, 3)
        return {"ended_boot_s": self.boot_s, "ended_wall_s": self.wall_s, "age_s": age_s, "fresh": self.fresh}


def of(receipt: dict[str, Any], ended: Action | None, view: HostView | None, frame_age_s: float | None) -> Ended:
    """``ended``: as a frame tells of it; its time counts where the receipt's own cannot be compared."""
    boot_id, wall_s = reading.text(receipt, "boot_id"), reading.number(receipt, "wall_s")
    restarted = bool(boot_id) and view is not None and boot_id != view.boot_id
    boot_s = reading.number(receipt, "boot_s") if boot_id and not restarted else None
    if boot_s is None and ended is not None:
        boot_s = ended.attempt.ended_boot_s
    age_s = view.age_s(boot_s, frame_age_s) if view is not None else None
    return Ended(boot_s, age_s, wall_s, restarted, _later(view, boot_s))


def _later(view: HostView | None, boot_s: float | None) -> str:
    if view is None or boot_s is None:
        return ""
    live = [*(view.stages or {}).values(), *(one.attempt for one in view.actions.values())]
    return ", ".join(one.stage for one in live if one.live and one.started_boot_s is not None and one.started_boot_s > boot_s)
