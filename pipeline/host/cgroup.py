"""How often the kernel killed something in this memory cgroup: the only proof that a SIGKILL came from the lack of memory.

Sources: Documentation/admin-guide/cgroup-v2.rst (``memory.events``, field oom_kill) and cgroup-v1/memory.rst (``memory.oom_control``).
"""

import os
from typing import Optional


def oom_file(proc: str = "/proc/self", cgroups: str = "/sys/fs/cgroup") -> Optional[str]:
    """The file with the counter of a process's memory cgroup, or None. Where a container hides the cgroup's own path: the root it sees."""
    try:
        with open(os.path.join(proc, "cgroup")) as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return None
    candidates = []
    for line in lines:
        if len(line) != 3:
            continue
        path = line[2].lstrip("/")
        if "memory" in line[1].split(","):
            candidates += [os.path.join(cgroups, "memory", at, "memory.oom_control") for at in (path, "")]
        elif line[0] == "0" and not line[1]:
            candidates += [os.path.join(cgroups, at, "memory.events") for at in (path, "")]
    for candidate in candidates:
        if oom_kills(candidate) is not None:
            return candidate
    return None


def oom_kills(path: Optional[str]) -> Optional[int]:
    """The counter; None when it cannot be read, or the kernel has none."""
    if path is None:
        return None
    try:
        with open(path) as file:
            for line in file:
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
    except (OSError, ValueError):
        pass
    return None
