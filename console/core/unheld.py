"""Memory that stays on a GPU with nobody seen on it: whose it can be, and what can be done. Everything is text; nothing is run."""

from collections.abc import Sequence
from typing import Any

from console.core import reading
from pipeline.contract import free

WAIT = "wait, and look again: a driver may take its time, and what ends elsewhere gives its memory back"
_BREAKS_GPU = "needs root, nobody on the GPU and persistence mode off; where NVLink joins the GPUs, all are reset with every job on them"
_BREAKS_ALL = "takes CUDA from everybody on this host: it ends every job on every GPU, and fails while one has a device open"


def gpus(receipt: dict[str, Any]) -> list[tuple[int, str]]:
    """(index, UUID) of those that a transition stopped at."""
    rows = reading.sequence(receipt, "unheld") or []
    return [(index, reading.text(one, "uuid", 80)) for one in rows[:64] if (index := reading.count(one, "index")) is not None]


def cures(stuck: Sequence[tuple[int, str]], simulated: bool) -> list[str]:
    """What ends it, and what that would break; [] without any. ``stuck``: (index, UUID); an empty UUID has no command of its own."""
    if not stuck:
        return []
    told = [f"GPU {free.spans(index for index, _ in stuck)}: no signal frees it. An administrator can, at a price:"]
    if simulated:
        told = [
            "SIMULATED: the fault gpu-memory-stays keeps it. This clears the fault, and goes on with run rehearsal:",
            "eaglewatch rehearse --headless --fault none",
            f"on a real host, of GPU {free.spans(index for index, _ in stuck)}: no signal frees it; an administrator can, at a price:",
        ]
    told += [f"nvidia-smi --gpu-reset -i {uuid}" for _, uuid in stuck if uuid]
    return [
        *told,
        f"  {_BREAKS_GPU}",
        "rmmod nvidia_uvm && modprobe nvidia_uvm",
        f"  {_BREAKS_ALL}",
        "reboot",
        "  ends everything on the host",
    ]
