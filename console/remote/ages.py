"""How old a frame is, told by clocks and not by when it arrived: what waited in a buffer looks as old as it is."""

ROUNDING_S = 0.002
MAX_DRIFT = 1e-4
"""Seconds a second by which two clocks may part (100 ppm; NTP-kept clocks stay well below)."""


class ClockOffset:
    """Local clock minus the host's, both in seconds since boot with suspend counted.

    Each ping bounds it: the host answered after ``sent_s`` and before ``received_s``. The smallest ``received_s - host_boot_s`` is kept,
    because delay only ever makes it larger. It may rise by MAX_DRIFT since it was taken, so that a day of drift does not
    make every frame look old, while the answer to a ping that waited for seconds is still not believed.
    """

    def __init__(self) -> None:
        self.boot_id: str | None = None
        self.offset_s: float | None = None
        self._taken_s = 0.0

    def host(self, boot_id: str) -> None:
        """Which boot of the host the next samples are from; another one forgets the offset."""
        if boot_id != self.boot_id:
            self.boot_id = boot_id
            self.offset_s = None

    def sample(self, sent_s: float, received_s: float, host_boot_s: float) -> None:
        """One ping: local time when it was sent and when its answer was read, and the host's clock in the answer."""
        upper = received_s - host_boot_s
        if self.offset_s is not None:
            drift = MAX_DRIFT * max(0.0, received_s - self._taken_s)
            impossible = sent_s - host_boot_s > self.offset_s + drift + ROUNDING_S  # the host's clock stood still: a paused virtual machine
            if upper > self.offset_s + drift and not impossible:
                return
        self.offset_s = upper
        self._taken_s = received_s

    def age_s(self, host_boot_s: float, now_s: float) -> float | None:
        """Age at local time ``now_s`` of what the host did at ``host_boot_s``; None before the first ping's answer."""
        if self.offset_s is None:
            return None
        return max(0.0, now_s - (host_boot_s + self.offset_s))
