"""How long a load still takes: by its shards, by the GPU memory that it has filled, and by earlier loads on the same host.

No number before a tenth is loaded or there is an earlier load: the first shards say nothing of the rest. A load that takes longer than
any of that allows has no number either; how long it has taken is told instead.
"""

from collections.abc import Sequence

import msgspec

from console.core import fmt
from console.core.lookout import LoadPrior
from console.core.progress import Progress
from console.core.views import Gpu

LEAST_SHARE = 0.1
_MIB, _HELD_MIB = 1 << 20, 512


class LoadLeft(msgspec.Struct, frozen=True):
    """Seconds until it is loaded and what they rest on; or None and why."""

    seconds: float | None
    basis: str = ""
    """Such as ``14/64 loaded; 2 earlier loads: 24 min``."""
    why: str = ""


class LoadMeter:
    """When the share that is loaded last grew: shards come in steps, and between two of them nothing is lost."""

    def __init__(self) -> None:
        self._share: float | None = None
        self._grown_boot_s = 0.0
        self._words = ""

    def observe(self, progress: Progress, frame_boot_s: float, gpu_mib: float | None, prior: LoadPrior | None) -> None:
        share, words = shards(progress)
        if share is None:
            share, words = memory(gpu_mib, prior)
        if share is None or (self._share is not None and share < self._share):
            self._share, self._grown_boot_s, self._words = share, frame_boot_s, words  # none, or begun anew
        elif self._share is None or share > self._share:
            self._share, self._grown_boot_s, self._words = share, frame_boot_s, words

    def left(self, progress: Progress, frame_boot_s: float, prior: LoadPrior | None) -> LoadLeft:
        if progress.phase_boot_s is None or progress.phase_boot_s > frame_boot_s:
            return LoadLeft(None, why="loading")
        elapsed_s = frame_boot_s - progress.phase_boot_s
        earlier = earlier_words(prior)
        share = self._share if self._share is not None and self._share >= LEAST_SHARE else None
        basis = "; ".join(part for part in (self._words if share is not None else "", earlier) if part)
        whole_s = prior.median_s if prior else 0.0
        if share is None and prior is None:
            return LoadLeft(None, why="loading")
        if share is not None and share >= 1 and prior is None:
            return LoadLeft(None, why=f"{self._words}, still starting")
        if share is not None and share < 1:
            by_share_s = (self._grown_boot_s - progress.phase_boot_s) / share
            # What is loaded speaks for this load, an earlier one for what is not: warming up comes after the last shard.
            whole_s = by_share_s if prior is None else share * by_share_s + (1 - share) * prior.median_s
        if whole_s <= elapsed_s:
            return LoadLeft(None, why=f"longer than expected by {basis}")
        return LoadLeft(whole_s - elapsed_s, basis)


def shards(progress: Progress) -> tuple[float | None, str]:
    """The share by what the stage counts, and in words."""
    done, total = progress.load_done, progress.load_total
    if done is None or not total:
        return None, ""
    return min(done / total, 1.0), f"{fmt.share(done, total)} loaded"


def memory(gpu_mib: float | None, prior: LoadPrior | None) -> tuple[float | None, str]:
    """The share by the mean memory of the GPUs against what earlier loads reached; None where that is not known."""
    reached_mib = prior.gpu_mib if prior else None
    if gpu_mib is None or not reached_mib:
        return None, ""
    return min(gpu_mib / reached_mib, 1.0), f"{fmt.count(gpu_mib)}/{fmt.count(reached_mib)} MiB a GPU"


def loaded_mib(gpus: Sequence[Gpu] | None) -> float | None:
    """Mean of the GPUs that hold what no idle process does; None when none does, or none could be read."""
    used = [gpu.used_bytes.value / _MIB for gpu in gpus or () if gpu.used_bytes.value is not None]
    held = [one for one in used if one >= _HELD_MIB]
    return sum(held) / len(held) if held else None


def earlier_words(prior: LoadPrior | None) -> str:
    """``2 earlier loads: 24 min``; empty when there is none."""
    if prior is None:
        return ""
    return f"{prior.count} earlier load{'s' if prior.count != 1 else ''}: {fmt.duration(60 * round(prior.median_s / 60) or prior.median_s)}"
