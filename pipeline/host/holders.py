"""Who holds a GPU, from several sources, each row with its evidence; and how much could not be read.

Sources: NVML's three process lists; descriptors of device files in /proc/PID/fd and task/TID/fd; mappings. NVML's pid alone is never
believed: inside a container some drivers tell pids of the host, which name another process here. A second source must agree.
"""

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from pipeline.contract.clock import boot_s
from pipeline.contract.telemetry import NOT_SUPPORTED
from pipeline.host import device_scan, forked, procs, simulated_holds
from pipeline.host.devices import Devices, minors
from pipeline.host.holder_rows import Describer, gpus_of, mib_of

INITIAL_PID_NS = 4026531836
"""PROC_PID_INIT_INO: the first pid namespace; from any other one, processes are out of sight."""
_TRIES = 4
_EVIDENCE = 12
_NAMED = 3
MAX_ROWS, MAX_UNREADABLE = 500, 20
"""Told one by one; with more rows the look is not complete. The unreadable are all counted."""


class Holders(NamedTuple):
    """One look. Rows: docs/wire.md, ``free.plan``."""

    rows: List[Dict[str, Any]]
    unreadable: int
    """Processes whose descriptors could not be read: any of them may hold a GPU."""
    some_unreadable: List[int]
    hidden: str
    """Why holders may be out of sight altogether; "" when this /proc shows every process."""
    failed: str
    """Why the look itself is not complete; "" when it is."""
    boot_s: float
    seconds: float
    simulated: bool = False
    """SIMULATED GPUs: who holds them is registered, so that descriptors which cannot be read hide nobody."""

    @property
    def complete(self) -> bool:
        """Whether "nobody" may be concluded from not seeing anybody."""
        return not self.why_incomplete()

    def why_incomplete(self) -> str:
        if self.simulated:
            return self.failed
        unread = "%d process%s could not be read" % (self.unreadable, "es" * (self.unreadable != 1)) if self.unreadable else ""
        if self.some_unreadable and self.unreadable <= _NAMED:
            unread += " (pid %s%s)" % (", ".join(str(pid) for pid in self.some_unreadable), "; root can" if os.geteuid() else "")
        return "; ".join(one for one in (self.failed, unread, self.hidden) if one)

    def on(self, uuid: Any) -> List[Dict[str, Any]]:
        """Rows that hold this GPU, or may: a client without the device file of any GPU can hold memory on each."""
        return [row for row in self.rows if row["any_gpu"] or any(one["uuid"] == uuid for one in row["gpus"])]


def look(
    reading: Optional[Dict[str, Any]],
    data_dir: str,
    run: Optional[str] = None,
    dev: str = "/dev",
    cancelled: Callable[[], bool] = lambda: False,
    stall_s: float = forked.STALL_S,
) -> Holders:
    """Look at every process. ``reading`` is NVML's (``nvml_read``), None when there is none; ``dev`` is for tests.

    Takes at most a few times ``stall_s``, whatever a process does to its readers. Raises forked.CancelledError.
    """
    began = boot_s()
    skip: List[int] = []
    why = ""
    for _ in range(_TRIES):
        value, at, why = forked.answer(lambda told: _work(reading, data_dir, run, dev, skip, told), stall_s, cancelled)
        if value is not None:
            hung = ", ".join(str(pid) for pid in skip)
            rows = sorted(value["rows"], key=lambda row: not row["uses_memory"])[:MAX_ROWS]
            over = "%d processes more than %d have a GPU open" % (len(value["rows"]) - len(rows), len(rows))
            reasons = (
                "looking at process %s hangs" % hung if hung else "",
                value["failed"],
                over if len(rows) < len(value["rows"]) else "",
            )
            failed = "; ".join(filter(None, reasons))
            unread = skip + value["unreadable"]
            taken = (rows, len(unread), unread[:MAX_UNREADABLE])
            return Holders(*taken, hidden(), failed, round(began, 3), round(boot_s() - began, 3), bool((reading or {}).get("simulated")))
        if at is None:
            break
        skip.append(at)
    return Holders(
        [], len(skip), skip, hidden(), "the processes could not be looked at: " + why, round(began, 3), round(boot_s() - began, 3)
    )


def hidden() -> str:
    """Why this /proc may not show every process of the host."""
    namespace = procs.this_pid_ns()
    return "" if namespace == INITIAL_PID_NS else "processes outside this pid namespace (a container) are not visible from here"


def _work(reading: Any, data_dir: str, run: Optional[str], dev: str, skip: List[int], told: forked.Told) -> Dict[str, Any]:
    devices = Devices(dev=dev)
    seen = device_scan.scan(devices, skip, told)
    gpus = (reading or {}).get("gpus") or []
    simulated = bool((reading or {}).get("simulated"))
    registered: Dict[int, List[int]] = {}
    failed = ""
    if simulated:
        try:
            registered = simulated_holds.holders()
        except (OSError, KeyError) as error:
            failed = "the state of the SIMULATED GPUs cannot be read: %s" % error
    named = _named(gpus)
    by_minor = _by_minor(gpus, devices)
    describer = Describer(data_dir, run)
    rows: List[Dict[str, Any]] = []
    for pid in sorted({int(one) for one in seen["found"]} | set(named) | set(registered)):
        if pid in skip or pid == os.getpid():
            continue
        told(pid)
        found = seen["found"].get(str(pid), {"fds": [], "task_fds": [], "maps": []})
        names = found["fds"] + found["task_fds"] + found["maps"]
        listed = named.get(pid, {})
        evidence = ["NVML " + one["kind"] for one in listed.values()][:1] + _evidence(found)
        held = {index: _share(one, listed[index]["bytes"]) for index, one in _by_index(gpus, listed).items()}
        if pid in registered:
            evidence.append("simulated")
            held = {**_by_index(gpus, registered[pid]), **held}
        for one in gpus_of(names, by_minor):
            held.setdefault(one["index"], one)
        on = [held[index] for index in sorted(held)]
        if not names and pid not in registered:
            rows.append(describer.unresolved(pid, on, evidence, _why_unresolved(pid, seen["unreadable"], simulated)))
            continue
        known = all(one in by_minor for one in minors(names))
        uses_memory = bool(listed or minors(found["maps"]) or pid in registered)
        row = describer.row(pid, evidence[:_EVIDENCE], uses_memory, on, any_gpu=not on or not known)
        if row is not None:
            rows.append(row)
    return {"rows": rows, "unreadable": seen["unreadable"], "failed": failed}


def _named(gpus: List[Dict[str, Any]]) -> Dict[int, Dict[int, Dict[str, Any]]]:
    """{pid: {GPU index: NVML's row}}."""
    named: Dict[int, Dict[int, Dict[str, Any]]] = {}
    for gpu in gpus:
        for one in gpu["procs"] if isinstance(gpu.get("procs"), list) else []:
            named.setdefault(one["pid"], {})[gpu["index"]] = one
    return named


def _share(gpu: Dict[str, Any], size: Any) -> Dict[str, Any]:
    """What the driver lists of a process on a GPU. ``untold``: it does not tell how much, as in some containers."""
    mib = mib_of(size)
    return dict(gpu, mib=mib) if mib is not None else dict(gpu, mib=None, untold=True)


def _by_index(gpus: List[Dict[str, Any]], indices: Any) -> Dict[int, Dict[str, Any]]:
    return {gpu["index"]: {"uuid": gpu["uuid"], "index": gpu["index"], "mib": None} for gpu in gpus if gpu["index"] in indices}


def _by_minor(gpus: List[Dict[str, Any]], devices: Devices) -> Dict[int, Dict[str, Any]]:
    """GPU rows by the number of their device file: NVML's own word for it, else the driver's /proc."""
    found = {}
    numbers = {uuid: minor for minor, uuid in devices.uuids.items()}
    for gpu in gpus:
        minor = gpu.get("minor")
        minor = minor if isinstance(minor, int) else numbers.get(gpu["uuid"])
        if minor is not None:
            found[minor] = gpu
    return found


def _evidence(found: Dict[str, List[str]]) -> List[str]:
    kinds = (("fd", "fds"), ("task fd", "task_fds"), ("maps", "maps"))
    return ["%s:/dev/%s" % (word, name) for word, key in kinds for name in found[key]]


def _why_unresolved(pid: int, unreadable: List[int], simulated: bool) -> str:
    stat = procs.read_stat(pid)
    if stat is None or stat.state in procs.DEAD:
        return "no such process in this pid namespace" if stat is None else "that process has ended"
    if pid in unreadable:
        return "process %d may not be read by this user" % pid
    other = "is not the one that registered" if simulated else "has no NVIDIA device open"
    return "the process that has this number here %s" % other


def process_lists(reading: Dict[str, Any]) -> List[str]:
    """Lines about GPUs whose process lists cannot be read; "not supported" counts as well."""
    told = []
    for gpu in reading.get("gpus") or []:
        if not isinstance(gpu.get("procs"), list):
            word = gpu.get("procs") or NOT_SUPPORTED
            told.append("GPU %s: its process list cannot be read (%s)" % (gpu.get("index"), word))
    return told
