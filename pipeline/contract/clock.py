"""The one clock for ages: seconds since the host booted, suspend counted."""

import time

# macOS has no CLOCK_BOOTTIME; its CLOCK_MONOTONIC goes on while the machine sleeps, time.monotonic there does not.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def boot_s() -> float:
    """Seconds since boot, suspend included (CLOCK_BOOTTIME, or the nearest that the system has)."""
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
