"""Processes that are never ended from here, and why: NVIDIA's daemons, what keeps the host reachable, and this program itself."""

import os
import re
from typing import Any, Dict, List, Optional, Set

from pipeline.host import procs, spawn

NVIDIA_DAEMONS = (
    "nvidia-persistenced", "nv-fabricmanager", "nv-hostengine", "dcgm-exporter", "nvidia-imex", "nvidia-powerd", "nvidia-topologyd"
)  # fmt: skip
"""They have devices open and no memory of their own worth speaking of; a GPU that only they have open is free."""
_OTHERS = (
    "nvidia-cuda-mps-server", "nvidia-cuda-mps-control", "nvidia-device-plugin", "gpu-feature-discovery", "Xorg", "Xwayland", "X", "gdm",
    "gdm3", "gdm-x-session", "gnome-shell", "sshd", "sshd-session", "dockerd", "containerd", "containerd-shim", "containerd-shim-runc-v2",
    "crio", "conmon", "podman", "kubelet", "k3s", "systemd", "init", "dumb-init", "tini", "tmux", "tmux: server", "screen", "SCREEN",
    "login", "slurmd", "slurmstepd",
)  # fmt: skip
_PARTS = (
    "agent", "supervise", "shim", "nvml", "free-plan", "free-gpus", "gpu-gate", "gpu-check", "transition-plan", "transition", "lookout",
    "alert", "retry", "dump",
)  # fmt: skip
_PYTHON = re.compile(r"(python|pypy)[0-9.]*\Z")
_OPTIONS = ("-u", "-s", "-S")
"""Of Python, as those parts are started."""
SYSTEM, SELF = "system", "self"


def family() -> Set[int]:
    """This process and everything above it: ending one of them could end the one who ends."""
    found: Set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        stat = procs.read_stat(pid)
        pid = stat.ppid if stat is not None else 0
    return found


def why(pid: int, exe: Optional[str], comm: str, argv: List[str], data_dir: str, ancestors: Set[int]) -> Optional[Dict[str, Any]]:
    """{relation, why, daemon} of a process that is never ended from here; None for any other.

    ``exe`` decides where it can be read: a process can call itself what it likes.
    """
    name = os.path.basename(exe.replace(" (deleted)", "")) if exe else comm
    if pid == 1:
        return {"relation": SYSTEM, "why": "process 1: the host or the container ends with it", "daemon": False}
    if pid in ancestors or (exe and _PYTHON.match(name) and procs.is_of_user(pid, os.geteuid()) and _is_host_program(argv, data_dir)):
        return {"relation": SELF, "why": "eaglewatch's own", "daemon": True}
    if name in NVIDIA_DAEMONS:
        return {"relation": SYSTEM, "why": "%s: the driver's own daemon; it holds no job's memory" % name, "daemon": True}
    if name in _OTHERS:
        return {"relation": SYSTEM, "why": "%s: never ended from here; stop it where it belongs" % name, "daemon": False}
    return None


def _is_host_program(argv: List[str], data_dir: str) -> bool:
    """Whether the words are those of one of this program's parts: ``python ... CODE PART ...``, CODE being one of ours, and there."""
    code_dir = os.path.join(os.path.abspath(data_dir), "code")
    at = next((at for at, word in enumerate(argv) if at and word not in _OPTIONS), len(argv))
    if at + 1 >= len(argv) or argv[at + 1] not in _PARTS:
        return False
    ours = os.path.dirname(argv[at]) == code_dir or argv[at] == spawn.code_root()
    return ours and os.path.isfile(os.path.join(argv[at], "__main__.py"))
