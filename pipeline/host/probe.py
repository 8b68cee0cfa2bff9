"""The host itself: load, CPUs, memory, and room on its disks. Each value is a metric; nothing here raises."""

import os
import pwd
from typing import Any, Dict, Optional

from pipeline.contract.clock import boot_s
from pipeline.contract.telemetry import ERROR, NO_PERMISSION, NOT_SUPPORTED, missing
from pipeline.host import simulated_room


def word_for(error: BaseException) -> str:
    """The metric that says why a value could not be read."""
    if isinstance(error, PermissionError):
        return NO_PERMISSION
    if isinstance(error, (AttributeError, NotImplementedError)):
        return NOT_SUPPORTED
    return missing(ERROR, getattr(error, "strerror", None) or str(error) or type(error).__name__)


def user_name(uid: Optional[int]) -> Optional[str]:
    """What a user is called; the number where it has no name, None for nobody."""
    if uid is None:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def host() -> Dict[str, Any]:
    """The ``host`` part of a frame."""
    result: Dict[str, Any] = {"name": os.uname().nodename, "user": user_name(os.getuid())}
    try:
        result["load1"] = round(os.getloadavg()[0], 2)
    except OSError as error:
        result["load1"] = word_for(error)
    try:
        result["cpus"] = len(os.sched_getaffinity(0))
    except (OSError, AttributeError):
        result["cpus"] = os.cpu_count() or NOT_SUPPORTED
    result.update(memory())
    return result


def memory() -> Dict[str, Any]:
    """{ram_total_bytes, ram_available_bytes}; metrics."""
    wanted = {b"MemTotal": "ram_total_bytes", b"MemAvailable": "ram_available_bytes"}
    result: Dict[str, Any] = dict.fromkeys(wanted.values(), NOT_SUPPORTED)
    try:
        with open("/proc/meminfo", "rb") as file:
            for line in file:
                name, _, rest = line.partition(b":")
                if name in wanted:
                    result[wanted[name]] = int(rest.split()[0]) << 10
                    if len(wanted) == sum(isinstance(value, int) for value in result.values()):
                        break
    except (OSError, ValueError, IndexError) as error:
        result = {name: value if isinstance(value, int) else word_for(error) for name, value in result.items()}
    return result


def disk(path: str) -> Dict[str, Any]:
    """Room of the file system that holds ``path``; "free" is what this user may use. A path that is not there yet counts as its parent.

    On a rehearsal host the fault ``disk-low`` takes from what is free.
    """
    result: Dict[str, Any] = {"path": path, "boot_s": round(boot_s(), 3)}
    try:
        there = path
        while not os.path.exists(there) and os.path.dirname(there) != there:
            there = os.path.dirname(there)
        room = os.statvfs(there)
    except (OSError, ValueError) as error:
        return dict(result, **dict.fromkeys(("total_bytes", "free_bytes", "inodes_free"), word_for(error)))
    result["total_bytes"] = room.f_blocks * room.f_frsize
    result["free_bytes"] = room.f_bavail * room.f_frsize
    simulated = simulated_room.free_bytes()
    if simulated is not None:
        result["free_bytes"] = min(result["free_bytes"], simulated)
    # File systems that make inodes as they go (btrfs, some network ones) report none at all.
    result["inodes_free"] = room.f_favail if room.f_files else NOT_SUPPORTED
    return result
