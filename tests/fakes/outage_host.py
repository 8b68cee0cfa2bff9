"""An extraction on a host that goes on, and has its own lookout, whether anybody is connected or not: its frames at any time."""

from typing import Any

from pipeline.contract import signals
from tests.fakes.frames import attempt, frame, gpu, progress

BEGAN_S, UNIT_S = 10_000.0, 2.0


class Host:
    """An extraction on a host with eight GPUs: a sample every two seconds, until something happens at ``fault_s``."""

    def __init__(self) -> None:
        self.fault = ""
        self.fault_s = float("inf")

    def frame(self, boot_s: float) -> dict[str, Any]:
        works_s = min(boot_s, self.fault_s)
        done = int((works_s - BEGAN_S) / UNIT_S)
        last_s = BEGAN_S + done * UNIT_S
        still = boot_s > self.fault_s
        frozen = still and self.fault == "frozen"
        beat_s = works_s if frozen else boot_s
        told = progress(
            done=done, total=100_000, tokens=done * 1000, total_tokens=10**8, phase_boot_s=BEGAN_S - 60, first_boot_s=BEGAN_S + UNIT_S,
            last_boot_s=last_s, beat_boot_s=beat_s, boot_s=beat_s,
        )  # fmt: skip
        tree = {
            "procs": 9, "cpu_s": (works_s - BEGAN_S) * 3, "rss_bytes": 10**9, "states": {"T" if frozen else "S": 9},
            "boot_s": boot_s, "read_bytes": 10**9, "write_bytes": int(last_s * 10**6),
        }  # fmt: skip
        ledger = {"files": done, "bytes": done * 10**6, "tokens": done * 1000, "last_boot_s": last_s, "disagree": 0, "bad_lines": 0}
        one = attempt(progress=told, tree=tree, ledger=ledger, lookout=self._lookout(boot_s, still))
        if still and self.fault == "ended":
            one = attempt(
                progress=told, state="CRASHED", exit={"code": 137, "signal": 9, "boot_s": self.fault_s}, ended_boot_s=self.fault_s
            )
        idle = {"util_pct": 0, "power_w": 90.0}
        nvml = dict(frame()["nvml"], boot_s=boot_s)
        return frame(boot_s, nvml=nvml, gpus=[gpu(index, **(idle if still else {})) for index in range(8)], stages={"extract": one})

    def _lookout(self, boot_s: float, still: bool) -> dict[str, Any]:
        """What the host itself says: it has watched all the time."""
        level = (
            {"frozen": signals.STOPPED_BY_SIGNAL, "deadlocked": signals.STALLED_IDLE}.get(self.fault, signals.FINE)
            if still
            else signals.FINE
        )
        red = level != signals.FINE
        return {
            "boot_s": boot_s - 2, "level": level, "severity": signals.RED if red else signals.OK, "line": "as the host saw it",
            "since_boot_s": self.fault_s + 190 if red else BEGAN_S, "phase": "steady",
            "gaps": {"steady": {"count": 400, "median_s": UNIT_S, "q99_s": UNIT_S + 0.5, "longest_s": 9.0}},
            "power_w": {str(index): 410.0 for index in range(8)}, "ranks_seen": 8, "workers": [], "alarms": [], "alerts": [],
        }  # fmt: skip
