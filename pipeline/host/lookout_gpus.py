"""What the job's GPUs do, asked seldom: each reading holds a lock in the driver that the job needs too.

While an agent reads them for a console, its readings do. Else a short-lived NVML process reads about once a minute, and each look while
something seems wrong; it gives way to whoever wants to know what the GPUs hold without it, and to an action that frees GPUs.
"""

import os
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Set, Tuple

from pipeline.contract import layout, telemetry, transition
from pipeline.contract.signals import GpuSignal
from pipeline.contract.stages import STAGES
from pipeline.host import gpu_shared, locks, spawn
from pipeline.host.consoles import DIRECTORY

if TYPE_CHECKING:
    from pipeline.host.nvml_client import NvmlClient

READING_S, CLOSE_S, LEARNING_S, SHARED_S = 60.0, 5.0, 10.0, 4.0
"""Between readings: usually, while something seems wrong, while the usual power is being learned, and of an agent's."""
_LEARNED = 24
"""Readings at work after which the usual power is known."""
_HELD_BYTES = 512 << 20
"""A GPU that was free at the launch and holds more is this job's."""
_STALE_S = 150.0


class Gpus:
    """Of one attempt, by its spec. Call ``turn`` twice a second; it never waits."""

    def __init__(self, data_dir: str, stage: str, spec: Dict[str, Any], settings: Dict[str, Any], scale: float = 1.0):
        self._data_dir = data_dir
        self._wanted = wanted(stage, spec, settings)
        self._scale = scale
        self._client: Optional[NvmlClient] = None
        self._asked_s = self._handed_s = self._shared_s = float("-inf")
        self._stays = False
        self._learned, self._learned_s = 0, float("-inf")
        self._reading: Optional[List[Dict[str, Any]]] = None
        self._taken_s: Optional[float] = None

    def turn(self, now: float, closely: bool, working: bool) -> None:
        """Take what has come, and ask when it is due. ``closely``: something seems wrong. ``working``: units come as usual."""
        if self._wanted is not None and not self._wanted:
            return
        self._take(working)
        learning = working and self._learned < _LEARNED
        self._stays = closely or learning  # a process a reading would cost more than one that stays
        every_s = max(1.0, self._scale * (CLOSE_S if closely else LEARNING_S if learning else READING_S))
        if now >= self._shared_s:
            self._shared_s = now + SHARED_S * min(self._scale, 1.0)
            self._take_shared(now, working)
        if now >= max(self._asked_s + every_s, self._handed_s + gpu_shared.YOUNG_S):
            self._asked_s = now
            self._ask()

    def _take_shared(self, now: float, working: bool) -> None:
        found = gpu_shared.newest(self._data_dir, now)
        if found is not None:
            self.close()
            self._keep(*found, working)
            self._handed_s = found[1]

    def _keep(self, gpus: List[Dict[str, Any]], taken_s: float, working: bool) -> None:
        if working and taken_s >= self._learned_s + CLOSE_S:
            self._learned, self._learned_s = self._learned + 1, taken_s
        self._reading, self._taken_s = gpus, taken_s

    def _ask(self) -> None:
        if locks.is_held(os.path.join(self._data_dir, layout.FREE_LOCK)):
            self.close()
            return
        if self._client is None:
            from pipeline.host.nvml_client import NvmlClient  # here: while an agent reads the GPUs it is not needed

            command = [sys.executable, "-u", "-s", "-S", spawn.code_root(), "nvml"]
            self._client = NvmlClient(command, os.path.join(self._data_dir, DIRECTORY))
        self._client.ask(b"light")

    def signals(self, now: float) -> Tuple[Optional[Tuple[GpuSignal, ...]], Optional[float]]:
        """(GPUs, when they were read): () where the job uses none, None where they were not read, or not lately."""
        if self._wanted is not None and not self._wanted:
            return (), now
        if self._reading is None or self._taken_s is None or not 0 <= now - self._taken_s < _STALE_S:
            return None, None
        return tuple(_signal(gpu) for gpu in self._mine(self._reading)), self._taken_s

    @property
    def held(self) -> Optional[int]:
        """How many of the job's GPUs hold memory; None when they were not read, or are all of somebody else's as well."""
        if not self._wanted or self._reading is None:
            return None
        return sum((telemetry.number(gpu.get("used_bytes")) or 0) >= _HELD_BYTES for gpu in self._mine(self._reading))

    def mean_mib(self, now: float) -> Optional[float]:
        """Of the job's GPUs; None without a reading."""
        gpus, _ = self.signals(now)
        used = [gpu.used_bytes for gpu in gpus or () if gpu.used_bytes is not None]
        return round(sum(used) / len(used) / (1 << 20), 1) if used else None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _take(self, working: bool) -> None:
        client = self._client
        if client is None:
            return
        came = [client.readable(fd) for fd in client.fds]
        client.tick()
        part, gpus = client.view()
        if gpus is not None and part["state"] == telemetry.NVML_OK and part["boot_s"] != self._taken_s:
            self._keep(gpus, part["boot_s"], working)
        if any(came) and not self._stays and client.due_s is None:
            self.close()

    def _mine(self, reading: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
        return [gpu for gpu in reading if self._wanted is None or gpu.get("uuid") in self._wanted]


def wanted(stage: str, spec: Dict[str, Any], settings: Dict[str, Any]) -> Optional[Set[str]]:
    """UUIDs of the GPUs that a job works on; empty: none; None: whichever the host has."""
    gpus = spec.get("gpus")
    if stage not in STAGES:
        return set()
    if transition.needs_gpus(stage, spec.get("args")):
        if not isinstance(gpus, dict):
            return None
        named = gpus.get("wanted") or [card.get("uuid") for card in gpus.get("cards") or [] if isinstance(card, dict)]
        return {one for one in named if isinstance(one, str)}
    if STAGES[stage].gpus != "server":
        return set()
    generate = settings.get("generate")
    address = generate.get("endpoint") if isinstance(generate, dict) else None
    # Through a server elsewhere no GPU of this host works for it.
    here = not isinstance(address, str) or any(one in address for one in ("//127.", "//localhost", "//[::1]"))
    return None if here else set()


def _signal(gpu: Dict[str, Any]) -> GpuSignal:
    used = telemetry.number(gpu.get("used_bytes"))
    index = gpu.get("index")
    util, power = telemetry.number(gpu.get("util_pct")), telemetry.number(gpu.get("power_w"))
    return GpuSignal(index if isinstance(index, int) else -1, util, power, None if used is None else int(used))
