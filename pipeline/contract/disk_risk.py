"""Whether a disk will hold what a job still writes, and when it is full. Host and console judge by this; pure, without a clock.

What a disk loses is the whole file system's doing and is never attributed to the job: its own rate is counted from what it wrote, and
where the disk falls faster than that, both are told. Times are host seconds since boot, as in ``signals``.
"""

from collections import deque
from typing import Deque, NamedTuple, Optional, Tuple

from pipeline.contract.signals import AMBER, GREY, OK, RED

WINDOW_S = 600.0
"""Rates are over the newest ten minutes: a checkpoint or a copied folder is soon outlived."""
_OWN_SPAN_S = 60.0
_DISK_SPAN_S = 300.0
"""What others write comes in gusts: five minutes of it before it counts."""
_APART_S = 5.0
_MAX_POINTS = 128
_RED_S = 1800.0
_HORIZON_S = 86400.0
"""Of a job whose end is not known, what happens within a day counts."""
_NEVER_S = 1e9
_FASTER = 1.25
_LEAST_BYTES_PER_S = 1e6
"""A disk that loses less than this beyond the job's own rate is not worth a word."""


class DiskLook(NamedTuple):
    """One look at a job and the disk that it writes to. None: not known."""

    boot_s: float
    free_bytes: Optional[float] = None
    disk_boot_s: Optional[float] = None
    """When the disk was read; None: with this look."""
    written_bytes: Optional[float] = None
    """Of its output, earlier attempts' included: it only grows."""
    total_bytes: Optional[float] = None
    """What the output will have, by the plan."""
    min_free_bytes: float = 0.0
    """What the job itself keeps free: it ends rather than go below."""
    left_s: Optional[float] = None
    """Until it has written everything, by whoever estimates that; None: by its own rate of writing."""
    bytes_per_s: Optional[float] = None
    """Its mean rate of writing, for as long as too little was seen here; None: not known."""


class DiskRisk(NamedTuple):
    """How it stands."""

    level: str
    """``ok``, ``amber`` or ``red``; ``grey`` when the disk was not read."""
    line: str
    """Why, with durations and no time of day; empty when there is no risk."""
    full_s: Optional[float] = None
    """Seconds from the look until the disk is full for this job; None: not before the job ends, or not known."""
    by_disk: bool = False
    """At the disk's own fall, which is faster than the job writes."""
    room_bytes: Optional[float] = None
    """Free above what is kept free."""
    left_bytes: Optional[float] = None
    """Still to be written by the plan."""
    own_bytes_per_s: Optional[float] = None
    disk_bytes_per_s: Optional[float] = None
    """What the disk loses, whoever writes; negative when it gains."""

    @property
    def short_bytes(self) -> float:
        """How much more the plan needs than there is room; 0 when it fits or nothing is known."""
        if self.room_bytes is None or self.left_bytes is None:
            return 0.0
        return max(self.left_bytes - self.room_bytes, 0.0)


class DiskMeter:
    """The looks of one attempt: ``look`` gives the risk at each. Bounded."""

    def __init__(self) -> None:
        self._free = _Slope()
        self._written = _Slope()

    def look(self, look: DiskLook) -> DiskRisk:
        """Take a look. An output that shrank was begun anew: its rate is measured anew."""
        if look.free_bytes is not None:
            self._free.add(look.boot_s if look.disk_boot_s is None else look.disk_boot_s, look.free_bytes)
        if look.written_bytes is not None:
            if self._written.newest is not None and look.written_bytes < self._written.newest:
                self._written = _Slope()
            self._written.add(look.boot_s, look.written_bytes)
        fall = self._free.per_s(_DISK_SPAN_S)
        own = self._written.per_s(_OWN_SPAN_S)
        return judge(look, look.bytes_per_s if own is None else own, None if fall is None else -fall)


def judge(look: DiskLook, own_bytes_per_s: Optional[float], disk_bytes_per_s: Optional[float]) -> DiskRisk:
    """The rule. A risk is told where the plan does not fit, or where the disk is full before the job has written everything."""
    left = None if look.total_bytes is None or look.written_bytes is None else max(look.total_bytes - look.written_bytes, 0.0)
    if look.free_bytes is None:
        return DiskRisk(GREY, "disk not read", left_bytes=left, own_bytes_per_s=own_bytes_per_s, disk_bytes_per_s=disk_bytes_per_s)
    room = look.free_bytes - look.min_free_bytes
    known = (room, left, own_bytes_per_s, disk_bytes_per_s)
    if left == 0:
        return DiskRisk(OK, "", None, False, *known)
    if room <= 0:
        kept = " (%s kept free)" % _size(look.min_free_bytes) if look.min_free_bytes else ""
        return DiskRisk(RED, "disk full: %s free%s" % (_size(look.free_bytes), kept), 0.0, False, *known)
    own_s = _until(room, own_bytes_per_s)
    end_s = _until(left, own_bytes_per_s) if look.left_s is None else look.left_s
    fits = left is None or left <= room
    faster = disk_bytes_per_s is not None and disk_bytes_per_s > max(_FASTER * (own_bytes_per_s or 0.0), _LEAST_BYTES_PER_S)
    disk_s = _until(room, disk_bytes_per_s) if faster else None
    before_s = _HORIZON_S if end_s is None else end_s
    # By the plan a job that fits is never in its own way, whatever its rate is at the moment.
    own_s = own_s if not fits or (left is None and own_s is not None and own_s < before_s) else None
    disk_s = disk_s if disk_s is not None and (disk_s < before_s or not fits) else None
    if fits and own_s is None and disk_s is None:
        return DiskRisk(OK, "", None, False, *known)
    full_s = min((one for one in (own_s, disk_s) if one is not None), default=None)
    level = RED if full_s is not None and full_s < _RED_S else AMBER
    by_disk = disk_s is not None and full_s == disk_s
    return DiskRisk(level, _line(room, left, own_bytes_per_s, disk_bytes_per_s if faster else None, own_s, disk_s), full_s, by_disk, *known)


def _line(
    room: float, left: Optional[float], own: Optional[float], fall: Optional[float], own_s: Optional[float], disk_s: Optional[float]
) -> str:
    parts = []
    if left is not None and left > room:
        parts.append("%s short: %s still to write, room for %s" % (_size(left - room), _size(left), _size(room)))
    else:
        parts.append("room for %s" % _size(room))
    if own_s is not None and own:
        parts.append("full in %s at this job's %s/s" % (_duration(own_s), _size(own)))
    if disk_s is not None and fall:
        whose = "all that is written there" if own else "what others write there"
        parts.append("full in %s at %s/s, %s" % (_duration(disk_s), _size(fall), whose))
    return "; ".join(parts)


class _Slope:
    """A quantity over the newest ten minutes; points at least five seconds apart, the newest always among them."""

    def __init__(self) -> None:
        self._points: Deque[Tuple[float, float]] = deque(maxlen=_MAX_POINTS)

    @property
    def newest(self) -> Optional[float]:
        return self._points[-1][1] if self._points else None

    def add(self, boot_s: float, value: float) -> None:
        points = self._points
        if points and boot_s <= points[-1][0]:
            return  # the same reading again
        if len(points) > 1 and boot_s - points[-2][0] < _APART_S:
            points.pop()
        points.append((boot_s, value))
        while len(points) > 2 and points[1][0] <= boot_s - WINDOW_S:
            points.popleft()

    def per_s(self, least_span_s: float) -> Optional[float]:
        if len(self._points) < 2:
            return None
        (begin_s, low), (end_s, high) = self._points[0], self._points[-1]
        return (high - low) / (end_s - begin_s) if end_s - begin_s >= least_span_s else None


def _until(amount: Optional[float], per_s: Optional[float]) -> Optional[float]:
    if amount is None or per_s is None or per_s <= 0:
        return None
    seconds = amount / per_s
    return seconds if seconds < _NEVER_S else None


def _size(count: float) -> str:
    """As ``pipeline.sizes.size``, which is no part of the host program."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 999.5:
            return "%.3g %s" % (count, unit)
        count /= 1000
    return "%.3g PB" % count


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than a minute"
    hours, rest = divmod(minutes, 60)
    if hours >= 48:
        return "%d days" % (hours // 24)
    if not hours:
        return "%d min" % rest
    return "%d h %d min" % (hours, rest) if rest else "%d h" % hours
