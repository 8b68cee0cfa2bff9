"""A job for the stall rules, look by look: what it does is set, time goes on by ``step``."""

from typing import Any

from pipeline.contract.signals import GpuSignal, Row, Signals, Verdict
from pipeline.contract.stall import Judge

WORKS = {"cores": 2.0, "util_pct": 98.0, "power_w": 400.0, "bytes_s": 10**7}
IDLE = {"cores": 0.0, "util_pct": 0.0, "power_w": 80.0, "bytes_s": 0}
SPINS = {"cores": 8.0, "util_pct": 100.0, "power_w": 150.0, "bytes_s": 0}
COMPILES = {"cores": 6.0, "util_pct": 0.0, "power_w": 90.0, "bytes_s": 0}
BLOCKED = {**IDLE, "states": {"S": 8, "D": 1}}
STOPPED = {**IDLE, "states": {"T": 9}}


class Job:
    """Eight GPUs, a unit every ``every_s`` while it works; ``hides`` names signals that cannot be read."""

    def __init__(self, judge: Judge | None = None, every_s: float = 5.0, gpus: int = 8, step_s: float = 5.0, **more: Any):
        self.judge = Judge() if judge is None else judge
        self.every_s, self.gpus, self.step_s = every_s, gpus, step_s
        self.more: dict[str, Any] = {
            "phase": "steady",
            "phase_boot_s": 10_000.0,
            "total": 10**6,
            "ranks_seen": 8,
            "ranks_expected": 8,
            **more,
        }
        self.now_s, self.done, self.cpu_s, self.written = 10_000.0, 0, 0.0, 0
        self.last_s: float | None = None
        self.hides: tuple[str, ...] = ()
        self._next_s = self.now_s + every_s

    def look(self, does: dict[str, Any], units: bool = False, **more: Any) -> Verdict:
        """A step of ``does``, then a look."""
        self.now_s += self.step_s
        self.cpu_s += does["cores"] * self.step_s
        self.written += int(does["bytes_s"] * self.step_s)
        if not units:
            self._next_s = max(self._next_s, self.now_s + 0.1)
        while self._next_s <= self.now_s:
            self.done, self.last_s = self.done + 1, self._next_s
            self._next_s += self.every_s
        power = tuple(GpuSignal(index, does["util_pct"], does["power_w"], 80 << 30) for index in range(self.gpus))
        told = {
            "boot_s": self.now_s, "done": self.done, "last_boot_s": self.last_s, "states": does.get("states", {"S": 9}),
            "tree_boot_s": self.now_s, "cpu_s": self.cpu_s, "read_bytes": 0, "write_bytes": self.written, "rss_bytes": 10 << 30,
            "gpus": power, "gpus_boot_s": self.now_s, "beat_boot_s": self.now_s, "log_bytes": 10, "log_boot_s": 10_000.0,
        }  # fmt: skip
        told.update(self.more)
        told.update(more)
        told.update(dict.fromkeys(self.hides))
        return self.judge.look(Signals(**told))

    def works(self, seconds: float) -> "Job":
        """Healthy work, in which nothing is said but OK."""
        for verdict in self.during(WORKS, seconds, units=True):
            assert verdict.severity == "ok", verdict
        return self

    def during(self, does: dict[str, Any], seconds: float, units: bool = False, **more: Any) -> list[Verdict]:
        return [self.look(does, units, **more) for _ in range(int(seconds / self.step_s))]

    def levels(self, does: dict[str, Any], seconds: float, **more: Any) -> list[tuple[float, str, str]]:
        """(seconds after the begin, level, severity) of every change."""
        began_s, found = self.now_s, []
        for _ in range(int(seconds / self.step_s)):
            verdict = self.look(does, **more)
            if not found or found[-1][1:] != (verdict.level, verdict.severity):
                found.append((self.now_s - began_s, verdict.level, verdict.severity))
        return found


def row(verdict: Verdict, name: str) -> Row:
    """The row of that name."""
    return next(row for row in verdict.rows if row.name == name)
