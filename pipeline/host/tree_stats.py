"""What the processes of an attempt use together."""

import os
from typing import Any, Dict, Iterable, List, Optional

from pipeline.host.procs import DEAD, Stat

_STILL_BYTES = 512 << 10
_MAX_THREADS = 64
"""Of each process, so that a walk stays cheap: writers are started late, and a deep look at 9 processes takes some 7 ms."""


def tree_stats(stats: Iterable[Stat], before: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    """{procs, cpu_s, rss_bytes, states, read_bytes, write_bytes}. Zombies only show in states; resident memory that processes share counts
    once for each.

    A process's state is that of its first thread. Where nothing was read or written since the walk ``before``, its newest threads are
    looked at too, and one of them in state D makes it D: writers that hang in storage look idle otherwise.
    """
    living, cpu_s, rss_bytes = [], 0.0, 0
    states: Dict[str, int] = {}
    for stat in stats:
        states[stat.state] = states.get(stat.state, 0) + 1
        if stat.state not in DEAD:
            living.append(stat)
            cpu_s, rss_bytes = cpu_s + stat.cpu_s, rss_bytes + stat.rss_bytes
    told = {"procs": len(living), "cpu_s": round(cpu_s, 2), "rss_bytes": rss_bytes, "states": states}
    told.update(_io([stat.pid for stat in living]))
    if before is not None and _still(before, told) and not set(states) & set("Tt"):
        for stat in living:
            if stat.state != "D" and _has_blocked_thread(stat.pid):
                states[stat.state] -= 1
                states["D"] = states.get("D", 0) + 1
        told["states"] = {state: count for state, count in states.items() if count}
    return told


def _still(before: Dict[str, Any], now: Dict[str, Any]) -> bool:
    """Whether hardly a byte went from or to storage. Where that may not be read, the threads may not be either."""
    for name in ("read_bytes", "write_bytes"):
        if before.get(name) is None or now[name] is None or not 0 <= now[name] - before[name] < _STILL_BYTES:
            return False
    return True


def _has_blocked_thread(pid: int) -> bool:
    """Whether one of its newest threads is in state D."""
    try:
        threads = sorted(map(int, os.listdir("/proc/%d/task" % pid)))
        return any(_thread_state(pid, thread) == b"D" for thread in threads[-_MAX_THREADS:])
    except (OSError, ValueError):
        return False  # it ended meanwhile


def _thread_state(pid: int, thread: int) -> bytes:
    try:
        with open("/proc/%d/task/%d/stat" % (pid, thread), "rb", buffering=0) as file:
            data = file.read(512)
        return data[data.rindex(b")") + 2 :][:1]
    except (OSError, ValueError):
        return b""


def _io(pids: List[int]) -> Dict[str, Optional[int]]:
    """{read_bytes, write_bytes} from and to storage, ended children that were waited for included (proc(5), /proc/PID/io); None unless the
    counters of all may be read.
    """
    total = {b"read_bytes": 0, b"write_bytes": 0}
    for pid in pids:
        try:
            with open("/proc/%d/io" % pid, "rb", buffering=0) as file:
                lines = file.read(4096).splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        except OSError:
            return {"read_bytes": None, "write_bytes": None}
        for name, _, value in (line.partition(b": ") for line in lines):
            if name in total and value.isdigit():
                total[name] += int(value)
    return {name.decode(): value for name, value in total.items()}
