"""What the host program costs while a job runs: agent, NVML process, supervisor, shim and lookout, watched at 1 Hz with 8 SIMULATED GPUs.

They run as on a host: from an unpacked bundle, started by the bootstrap. CPU is the kernel's count over the window; memory is the
current resident size of each process (pages that they share count once for each).
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from console.remote import deploy
from pipeline.contract import boot, layout
from pipeline.contract.clock import boot_s
from pipeline.host import locks, procs
from pipeline.rehearsal import sim_gpus

WINDOW_S = 20.0
CPU_BOUND_PCT, RSS_BOUND_MIB = 1.0, 80.0
NONCE = "0" * 16
JOB = """#!{python}
import json, os, time
progress = os.path.join(os.environ["EAGLEWATCH_ATTEMPT_DIR"], "progress", "0.json")
for done in range(600):
    with open(progress + ".new", "w") as file:
        json.dump({{"phase": "steady", "unit": "sample", "done": done, "total": 600, "boot_s": time.clock_gettime(7)}}, file)
    os.replace(progress + ".new", progress)
    with open({output!r} + "/ledger-0.jsonl", "a") as file:
        file.write(json.dumps({{"i": done, "bytes": 1000, "tokens": 10}}) + "\\n")
    open({output!r} + "/hs_%d.safetensors" % done, "wb").close()
    print("sample", done, flush=True)
    time.sleep(0.5)
"""
"""Writes what a stage writes, twice a second."""


class Agent:
    """The agent at the other end of a pipe, started as a login would start it."""

    def __init__(self, data_dir: Path, environment: dict[str, str]):
        bundle = deploy.bundle()
        self.process = subprocess.Popen(
            ["sh", "-c", boot.command(sys.executable)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self.write(boot.line(NONCE, str(data_dir), bundle.code, bundle.sha256, len(bundle.data)))
        if self.message() == {"boot": "need"}:
            self.write(bundle.data)
        while "agent" not in (message := self.message()):
            if message.get("boot") == "error":
                raise RuntimeError(message["message"])

    def write(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(20)

    def message(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the agent ended")
        return json.loads(line[1 + len(NONCE) :])

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        self.write(json.dumps({"id": op, "op": op, **fields}).encode() + b"\n")
        while (reply := self.message()).get("re") != op:
            pass
        if not reply["ok"]:
            raise RuntimeError(reply["error"]["message"])
        return reply


def measure(home: Path) -> tuple[dict[str, tuple[float, float]], tuple[float, float]]:
    """{process: (% of one core, MiB)} over the window; and of all together over another one, with nobody connected."""
    state = home / "gpus.state"
    sim_gpus.create(str(state))
    environment = {**os.environ, sim_gpus.PATH_VARIABLE: str(state), "EAGLEWATCH_NVML": "pipeline.rehearsal.sim_nvml:install"}
    agent = Agent(home / "data", environment)
    job: int | None = None
    try:
        agent.ask("put-settings", run="bench", toml='[model]\npath = "/none"\n', resolved={"extract": {"output": "out"}})
        run = Path(layout.run_dir(str(home / "data"), "bench"))
        (run / "out").mkdir()
        program = home / "job"
        program.write_text(JOB.format(python=sys.executable, output=str(run / "out")))
        program.chmod(0o700)
        attempt = layout.new_attempt_id()
        gpus = {"expected_gpus": 8, "gpu_uuids": [], "wanted": []}
        job = agent.ask("launch", run="bench", stage="extract", attempt=attempt, interpreter=str(program), by="bench", gpus=gpus)["pid"]
        directory = layout.attempt_dir(str(run), "extract", attempt)
        for gpu in range(8):
            sim_gpus.hold(str(state), gpu, 80_000, 97, 300, pid=job)
        agent.ask("watch", run="bench", interval_s=1.0)
        while agent.message().get("frame", {}).get("nvml", {}).get("state") != "ok":
            pass
        pids = {
            "agent": agent.process.pid,
            "nvml": next(iter(procs.descendants([agent.process.pid]))),
            "supervisor": locks.read_holder(os.path.join(directory, layout.SUPERVISOR_LOCK))["pid"],
            "shim": locks.read_holder(os.path.join(directory, layout.LOCK))["pid"],
            "lookout": locks.read_holder(os.path.join(directory, layout.LOOKOUT_LOCK))["pid"],
        }
        before, began_s = {name: cpu_s(pid) for name, pid in pids.items()}, boot_s()
        while boot_s() - began_s < WINDOW_S:
            agent.message()
        seconds = boot_s() - began_s
        watched = {name: ((cpu_s(pid) - before[name]) / seconds * 100, rss_mib(pid)) for name, pid in pids.items()}
        agent.close()
        alone = unwatched([pids["supervisor"], pids["shim"], pids["lookout"]], pids["lookout"])
        agent = Agent(home / "data", environment)
        return watched, alone
    finally:
        if job is not None:
            agent.ask("stop", run="bench", stage="extract", attempt=None, by="bench", grace_s=1)
        agent.close()


def unwatched(pids: list[int], lookout: int) -> tuple[float, float]:
    """(% of one core, most MiB at once) of these and of what the lookout starts: it reads the GPUs itself now."""
    began_s, most = boot_s(), 0.0
    before = sum(map(whole_cpu_s, pids))
    while boot_s() - began_s < WINDOW_S:
        time.sleep(0.2)
        most = max(most, sum(map(rss_mib, pids)) + sum(stat.rss_bytes / (1 << 20) for stat in children(lookout)))
    used_s = sum(map(whole_cpu_s, pids)) + sum(stat.cpu_s for stat in children(lookout)) - before
    return used_s / (boot_s() - began_s) * 100, most


def children(pid: int) -> list[procs.Stat]:
    return [stat for one in procs.descendants([pid]) if (stat := procs.read_stat(one)) is not None]


def whole_cpu_s(pid: int) -> float:
    """With that of children that have ended, in ticks of 10 ms."""
    stat = procs.read_stat(pid)
    if stat is None:
        raise RuntimeError(f"process {pid} ended during the measurement")
    return stat.cpu_s


def cpu_s(pid: int) -> float:
    """Time on a CPU of the process's threads, in nanoseconds where the kernel counts them, else in ticks of 10 ms; see proc(5)."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        return sum(int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0]) for thread in threads) / 1e9
    except FileNotFoundError:
        stat = procs.read_stat(pid)
        if stat is None:
            raise RuntimeError(f"process {pid} ended during the measurement") from None
        return stat.cpu_s


def rss_mib(pid: int) -> float:
    stat = procs.read_stat(pid)
    if stat is None:
        raise RuntimeError(f"process {pid} ended during the measurement")
    return stat.rss_bytes / (1 << 20)


def main() -> int:
    """Print the lines; 1 when a bound is missed."""
    with tempfile.TemporaryDirectory(prefix="eaglewatch-bench-") as home:
        costs, alone = measure(Path(home))
        time.sleep(2)  # the supervisor is still writing that its job has ended
    for name, (cpu, rss) in costs.items():
        print(f"BENCH host_cpu_{name} {cpu:.2f} % - ok")
        print(f"BENCH host_rss_{name} {rss:.1f} MiB - ok")
    cpu, rss = (sum(one[column] for one in costs.values()) for column in (0, 1))
    verdicts = {"host_cpu": (cpu, "%", CPU_BOUND_PCT, 2), "host_rss": (rss, "MiB", RSS_BOUND_MIB, 1)}
    verdicts.update(host_cpu_unwatched=(alone[0], "%", CPU_BOUND_PCT, 2), host_rss_unwatched=(alone[1], "MiB", RSS_BOUND_MIB, 1))
    for name, (value, unit, bound, digits) in verdicts.items():
        print(f"BENCH {name} {value:.{digits}f} {unit} <={bound:g} {'ok' if value <= bound else 'MISS'}")
    return int(any(value > bound for value, _, bound, _ in verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
