"""Which files are NVIDIA's devices, told by device number, so that renamed and bind-mounted ones count too.

Numbers: character major 195 (minor 255 control, 254 modeset, the others GPUs) is fixed in NVIDIA's driver; the majors of nvidia-uvm,
nvidia-caps and so on are in /proc/devices. Which GPU has which minor is in /proc/driver/nvidia/gpus/*/information.
"""

import os
import re
import stat
from typing import Dict, Iterable, List, Optional, Set

MAJOR = 195
CONTROL, MODESET = 255, 254
_GPU = re.compile(r"nvidia([0-9]+)\Z")
_MAJOR_LINE = re.compile(r"\s*([0-9]+)\s+(nvidia\S*)\s*\Z")


class Devices:
    """The device numbers of this host. ``proc`` and ``dev`` are roots; beneath another root than /dev plain files count by their path."""

    def __init__(self, proc: str = "/proc", dev: str = "/dev"):
        self.proc = proc
        self.dev = dev.rstrip("/")
        self.majors = _majors(proc)
        self.uuids = _minors(proc)
        """{minor: UUID}."""

    def of_descriptor(self, path: str) -> Optional[str]:
        """The device behind ``/proc/PID/fd/N``: nvidia0, nvidiactl, nvidia-uvm, ...; None for anything else. Raises OSError.

        Only what can be a device is looked up: a stat of a file on a dead network file system would not come back.
        """
        target = os.readlink(path)
        if not target.startswith("/") or ("nvidia" not in target and "/dev/" not in target):
            return None
        by_path = self.of_path(target) if self.dev != "/dev" else None
        if by_path is not None:
            return by_path
        status = os.stat(path)
        return self.of_number(os.major(status.st_rdev), os.minor(status.st_rdev)) if stat.S_ISCHR(status.st_mode) else None

    def of_number(self, major: int, minor: int) -> Optional[str]:
        if major == MAJOR:
            return "nvidiactl" if minor == CONTROL else "nvidia-modeset" if minor == MODESET else "nvidia%d" % minor
        return self.majors.get(major)

    def of_path(self, path: str) -> Optional[str]:
        """The device by its path: for mappings, which the kernel tells by path only."""
        folder, _, name = path.rpartition("/")
        name = name.partition(" ")[0]
        return name if name.startswith("nvidia") and (folder == self.dev or folder == self.dev + "/nvidia-caps") else None


def minors(names: Iterable[str]) -> Set[int]:
    """The GPUs among device names."""
    return {int(match.group(1)) for match in map(_GPU.match, names) if match}


def _majors(proc: str) -> Dict[int, str]:
    found: Dict[int, str] = {}
    try:
        with open(os.path.join(proc, "devices")) as file:
            for line in file:
                match = _MAJOR_LINE.match(line)
                if line.startswith("Block"):
                    break
                if match and int(match.group(1)) != MAJOR:
                    found[int(match.group(1))] = match.group(2)
    except OSError:
        pass
    return found


def _minors(proc: str) -> Dict[int, str]:
    base = os.path.join(proc, "driver", "nvidia", "gpus")
    found: Dict[int, str] = {}
    for name in _names(base):
        try:
            with open(os.path.join(base, name, "information"), encoding="utf-8", errors="replace") as file:
                fields = dict(part.split(":", 1) for part in file.read(1 << 14).splitlines() if ":" in part)
            found[int(fields["Device Minor"])] = fields["GPU UUID"].strip()
        except (OSError, KeyError, ValueError):
            continue
    return found


def _names(directory: str) -> List[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
