"""The one clock for ages: seconds since the host booted, suspend counted."""

import time

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


def boot_s() -> float:
    """Seconds since boot, suspend included (CLOCK_BOOTTIME; elsewhere than Linux the monotonic clock)."""
    if _BOOTTIME is not None:
        return time.clock_gettime(_BOOTTIME)
    return time.monotonic()


def boot_id() -> str:
    """This boot's id, or "unknown" where the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return "unknown"


def wall_to_boot_s(wall_s: float) -> float:
    """A file's time on the boot clock, as the wall clock stands now."""
    return wall_s - (time.time() - boot_s())
