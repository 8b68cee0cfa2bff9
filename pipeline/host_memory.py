"""How much of the host's memory a program here can still have: what the host has, and what its memory cgroup (a container's) lets it."""

import os
from collections.abc import Iterator


def available_bytes(meminfo: str = "/proc/meminfo", cgroup: str = "/proc/self/cgroup", root: str = "/sys/fs/cgroup") -> int | None:
    """``MemAvailable`` (proc(5)), and no more than any memory cgroup above leaves; None when the first cannot be read."""
    try:
        with open(meminfo, encoding="ascii") as file:
            found = next((int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")), None)
    except (OSError, ValueError, IndexError):
        return None
    return None if found is None else max(0, min([found, *_left(cgroup, root)]))


def _left(cgroup: str, root: str) -> Iterator[int]:
    """What each cgroup with a limit leaves. Cache that nobody has used of late counts as left, as in MemAvailable."""
    for directory, limit_name, used_name in _cgroups(cgroup, root):
        limit, used = _number(os.path.join(directory, limit_name)), _number(os.path.join(directory, used_name))
        if limit is not None and used is not None:
            yield limit - used + _inactive_file(os.path.join(directory, "memory.stat"))


def _cgroups(cgroup: str, root: str) -> Iterator[tuple[str, str, str]]:
    """(directory, file of the limit, file of the usage) up to the root that is seen here: cgroup v2 and v1."""
    try:
        with open(cgroup, encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return
    for line in lines:
        if len(line) == 3 and line[0] == "0" and not line[1]:
            base, names = root, ("memory.max", "memory.current")
        elif len(line) == 3 and "memory" in line[1].split(","):
            base, names = os.path.join(root, "memory"), ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        path = line[2].strip("/")
        while True:
            yield (os.path.join(base, path), *names)
            if not path:
                break
            path = os.path.dirname(path)


def _inactive_file(path: str) -> int:
    try:
        with open(path, encoding="ascii") as file:
            fields = dict(line.split() for line in file)
        return int(fields.get("total_inactive_file") or fields.get("inactive_file") or 0)
    except (OSError, ValueError):
        return 0


def _number(path: str) -> int | None:
    """None for no such file, and for ``max``."""
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None
