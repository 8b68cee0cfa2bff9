"""Stalls of a real job on real GPUs, as ``eaglewatch watch`` tells them: ``python -m benchmarks.gpu.stall_signals --out FILE``.

Questions, written down before the first run; expected eleven minutes on two GPUs:

1. What do NVML's utilisation and power read while the ranks work, while one rank is missing from an NCCL collective, while all wait for a
   lock, and while they are stopped? Does the limit of 60 % of the steady median part waiting inside NCCL from work?
2. SIGSTOP: seconds to ``STOPPED BY SIGNAL`` (bound 15)? And after SIGCONT: is it well again?
3. One rank lags: seconds from the last file to ``STALLED-SPIN`` (bound 190), and what is said before?
4. All ranks wait for a lock: seconds from the last file to ``STALLED`` (bound 190)?
5. Is anything amber or red while it works?

The floors are those of the product; nothing is scaled.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu.loopback_host import ALIAS, LoopbackHost
from pipeline.contract import signals

_START_S, _LIMIT_S = 120.0, 260.0


class Job:
    """The ranks, in a session of their own."""

    def __init__(self, folder: Path):
        (folder / "out").mkdir(parents=True)
        self._folder = folder
        self.mode("steady")
        with open(folder / "job.log", "wb") as log:
            words = [sys.executable, "-u", "-m", "benchmarks.gpu.ranks_job", str(folder)]
            self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)

    def mode(self, name: str) -> None:
        temporary = self._folder / "mode.tmp"
        temporary.write_text(name)
        temporary.rename(self._folder / "mode")

    def files(self) -> int:
        return sum(1 for _ in (self._folder / "out").glob("*/*.ckpt"))

    def signal(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self.process.wait()


class Watch:
    """``eaglewatch watch --json`` beside the job; ``lines`` are [monotonic seconds, object]."""

    def __init__(self, host: LoopbackHost, folder: Path, job: Job):
        words = ["watch", ALIAS, "--dir", str(folder / "out"), "--total", "100000", "--pid", str(job.process.pid)]
        self.process = host.start(*words, "--log", str(folder / "job.log"), "--json")
        self.lines: list[tuple[float, dict[str, Any]]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                self.lines.append((time.monotonic(), json.loads(line)))

    @property
    def last(self) -> "dict[str, Any] | None":
        return self.lines[-1][1] if self.lines else None

    def until(self, level: str, since_s: float, limit_s: float) -> "float | None":
        """Seconds from ``since_s`` until that level is told; None when it is not within the limit."""
        seen = len(self.lines)
        while time.monotonic() - since_s < limit_s:
            for when_s, one in self.lines[seen:]:
                seen += 1
                if one.get("level") == level:
                    return round(when_s - since_s, 1)
            time.sleep(0.2)
        return None

    def told(self, since_s: float) -> list[tuple[float, str, str]]:
        """What was told since then, each change once: (seconds after it, level, line)."""
        changes: list[tuple[float, str, str]] = []
        for when_s, one in self.lines:
            if when_s >= since_s and "level" in one and (not changes or changes[-1][1] != one["level"]):
                changes.append((round(when_s - since_s, 1), one["level"], one["line"]))
        return changes


class Power:
    """NVML's own readings of every GPU, twice a second, by what the job did."""

    def __init__(self) -> None:
        import pynvml

        pynvml.nvmlInit()
        self._nvml, self._handles = pynvml, [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        self.gpus = len(self._handles)
        self._of: dict[str, list[list[tuple[int, float]]]] = {}
        self.doing = "before"
        threading.Thread(target=self._loop, daemon=True).start()

    def _loop(self) -> None:
        while True:
            row = [
                (self._nvml.nvmlDeviceGetUtilizationRates(one).gpu, self._nvml.nvmlDeviceGetPowerUsage(one) / 1000) for one in self._handles
            ]
            self._of.setdefault(self.doing, []).append(row)
            time.sleep(0.5)

    def summary(self) -> dict[str, Any]:
        """{what it did: [{util_pct, power_w, power_w_least, power_w_most} a GPU]}, medians over the time but for its first 3 s."""
        found = {}
        for doing, rows in self._of.items():
            kept = rows[6:] or rows
            found[doing] = [
                {
                    "util_pct": statistics.median(row[gpu][0] for row in kept),
                    "power_w": round(statistics.median(row[gpu][1] for row in kept), 1),
                    "power_w_least": round(min(row[gpu][1] for row in kept), 1),
                    "power_w_most": round(max(row[gpu][1] for row in kept), 1),
                    "readings": len(kept),
                }
                for gpu in range(len(self._handles))
            ]
        return found


def steady(job: Job, power: Power, seconds: float) -> None:
    """Wait for the first file, then let it work."""
    began = time.monotonic()
    while not job.files() and job.process.poll() is None and time.monotonic() - began < _START_S:
        time.sleep(0.2)
    power.doing = "steady"
    time.sleep(seconds)


def after_last_file(job: Job) -> float:
    """Monotonic seconds of the newest file, once none has come for 3 s."""
    count, since = job.files(), time.monotonic()
    while time.monotonic() - since < 3.0:
        time.sleep(0.1)
        if job.files() != count:
            count, since = job.files(), time.monotonic()
    return since


def first_job(host: LoopbackHost, folder: Path, power: Power, answers: dict[str, Any], steady_s: float) -> None:
    """Questions 2, 3 and 5."""
    job = Job(folder)
    try:
        began = time.monotonic()
        watch = Watch(host, folder, job)
        steady(job, power, steady_s)
        answers["5_told_while_it_worked"] = watch.told(began)
        power.doing, stopped = "stopped", time.monotonic()
        job.signal(signal.SIGSTOP)
        answers["2_seconds_to_stopped"] = watch.until(signals.STOPPED_BY_SIGNAL, stopped, 60.0)
        answers["2_last"] = watch.last
        job.signal(signal.SIGCONT)
        power.doing, went_on = "steady", time.monotonic()
        answers["2_seconds_to_well_again"] = watch.until(signals.FINE, went_on, 60.0)
        time.sleep(15)
        job.mode("lag")
        power.doing, last = "lag", after_last_file(job)
        answers["3_seconds_to_spin"] = watch.until(signals.STALLED_SPIN, last, _LIMIT_S)
        answers["3_told"] = watch.told(last)
        answers["3_last"] = watch.last
        watch.process.kill()
    finally:
        power.doing = "between"
        job.end()


def second_job(host: LoopbackHost, folder: Path, power: Power, answers: dict[str, Any], steady_s: float) -> None:
    """Question 4."""
    job = Job(folder)
    try:
        watch = Watch(host, folder, job)
        steady(job, power, steady_s)
        job.mode("deadlock")
        power.doing, last = "deadlock", after_last_file(job)
        answers["4_seconds_to_stalled"] = watch.until(signals.STALLED_IDLE, last, _LIMIT_S)
        answers["4_told"] = watch.told(last)
        answers["4_last"] = watch.last
        watch.process.kill()
    finally:
        power.doing = "between"
        job.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="where the answers go, as JSON")
    parser.add_argument("--steady-s", type=float, default=75.0)
    parser.add_argument("--first-job-only", action="store_true", help="questions 1 to 3 and 5")
    arguments = parser.parse_args()
    power = Power()
    answers: dict[str, Any] = {"questions": __doc__}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with LoopbackHost(folder, expected_gpus=power.gpus) as host:
            try:
                first_job(host, folder / "one", power, answers, arguments.steady_s)
                if not arguments.first_job_only:
                    second_job(host, folder / "two", power, answers, arguments.steady_s)
            finally:
                answers["1_readings"] = power.summary()
                Path(arguments.out).write_text(json.dumps(answers, indent=1))
                print(json.dumps({key: value for key, value in answers.items() if key != "questions"}, indent=1)[:9000])
    return 0


if __name__ == "__main__":
    sys.exit(main())
