"""Who has an NVIDIA device open or mapped: every process of this pid namespace, from /proc, with what could not be read.

A thread-group leader that has ended while its threads live shows no descriptors; its threads do. A child forked without exec keeps its
parent's. Only nvidiactl or nvidia-uvm open is enough to hold memory: what belongs to a client is freed when the descriptor it was made on
closes. Processes outside this pid namespace are not in this /proc at all.

What maps a GPU's device file uses its memory. Measured on H200, driver 580: CUDA maps nvidia0 (3 times), nvidiactl (27) and nvidia-uvm
(1), its forked child the first two; a client of NVML alone has the same files open and maps none, nvidia-smi nvidiactl only.
"""

import os
from typing import Any, Dict, List, Optional

from pipeline.host.devices import Devices
from pipeline.host.forked import Told

_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD in field 9 of /proc/PID/stat: the kernel's own, which have no descriptors."""


def scan(devices: Devices, skip: List[int], told: Told) -> Dict[str, Any]:
    """{found: {pid: {fds, task_fds, maps}}, unreadable: [pid], looked: how many processes}.

    ``skip`` are left out: looking at them hangs. JSON, so the pids are strings.
    """
    found: Dict[str, Dict[str, List[str]]] = {}
    unreadable: List[int] = []
    pids = sorted(int(name) for name in os.listdir(devices.proc) if name.isdigit())
    for pid in pids:
        if pid in skip:
            continue
        told(pid)
        try:
            evidence = _look(devices, pid)
        except PermissionError:
            if not _is_kernel_thread(devices.proc, pid):
                unreadable.append(pid)
            continue
        except OSError:
            continue  # it ended meanwhile
        if evidence is not None:
            found[str(pid)] = evidence
    return {"found": found, "unreadable": unreadable, "looked": len(pids)}


def _look(devices: Devices, pid: int) -> Optional[Dict[str, List[str]]]:
    base = "%s/%d" % (devices.proc, pid)
    fds, total = _descriptors(devices, base + "/fd")
    task_fds: List[str] = []
    threads = [base + "/task/" + one for one in os.listdir(base + "/task") if int(one) != pid] if not total else []
    for thread in threads:
        task_fds += _descriptors(devices, thread + "/fd")[0]
    maps = _mappings(devices, (threads or [base])[0] + "/maps")
    if not (fds or task_fds or maps):
        return None
    return {"fds": sorted(set(fds)), "task_fds": sorted(set(task_fds)), "maps": sorted(set(maps))}


def _descriptors(devices: Devices, directory: str) -> Any:
    """(the devices, how many descriptors there are in all). Raises OSError, above all PermissionError."""
    names = os.listdir(directory)
    found = []
    for name in names:
        try:
            device = devices.of_descriptor(directory + "/" + name)
        except FileNotFoundError:
            continue  # closed meanwhile
        if device is not None:
            found.append(device)
    return found, len(names)


def _mappings(devices: Devices, path: str) -> List[str]:
    found = []
    with open(path, "rb") as file:
        for line in file:
            if b"nvidia" in line:
                fields = line.rstrip(b"\n").split(None, 5)
                device = devices.of_path(fields[5].decode("utf-8", "replace")) if len(fields) == 6 else None
                if device is not None:
                    found.append(device)
    return found


def _is_kernel_thread(proc: str, pid: int) -> bool:
    try:
        with open("%s/%d/stat" % (proc, pid), "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return bool(int(fields[6]) & _KERNEL_THREAD)
    except (OSError, IndexError, ValueError):
        return False
