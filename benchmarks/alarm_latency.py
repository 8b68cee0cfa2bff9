"""How soon trouble in a job's log is in a frame: from the line being written, through lookout and agent, at one frame a second."""

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.host_cost import Agent
from pipeline.contract import layout
from pipeline.contract.clock import boot_s
from pipeline.rehearsal import sim_gpus

BOUND_S = 1.0
LINES = {
    "memory": "torch.OutOfMemoryError: CUDA out of memory.",
    "cuda": "RuntimeError: CUDA error: device-side assert triggered",
    "nccl": "[rank3]: NCCL error in: x.cpp:1, unhandled system error",
    "xid": "NVRM: Xid (PCI:0000:04:00): 79",
    "disk": "OSError: [Errno 28] No space left on device",
    "vllm": "RuntimeError: Engine core initialization failed.",
    "segfault": "Fatal Python error: Segmentation fault",
}
JOB = """#!{python}
import time
from pathlib import Path
for kind, line in {lines!r}.items():
    time.sleep(2.37)
    print(line, flush=True)
    Path({times!r}, kind).write_text(str(time.clock_gettime(7)))
time.sleep(600)
"""


def measure(home: Path) -> list[float]:
    """Seconds from line to frame, one for each kind."""
    state, times = home / "gpus.state", home / "times"
    times.mkdir()
    sim_gpus.create(str(state))
    stand_in = {sim_gpus.PATH_VARIABLE: str(state), "EAGLEWATCH_NVML": "pipeline.rehearsal.sim_nvml:install"}
    agent = Agent(home / "data", {**os.environ, **stand_in})
    try:
        agent.ask("put-settings", run="bench", toml='[model]\npath = "/none"\n', resolved={"model": {"path": "/none"}})
        program = home / "job"
        program.write_text(JOB.format(python=sys.executable, lines=LINES, times=str(times)))
        program.chmod(0o700)
        launch = {"run": "bench", "stage": "prepare", "attempt": layout.new_attempt_id(), "interpreter": str(program), "by": "bench"}
        agent.ask("launch", **launch)
        agent.ask("watch", run="bench", interval_s=1.0)
        seen: dict[str, float] = {}
        began_s = boot_s()
        while len(seen) < len(LINES) and boot_s() - began_s < 120:
            stage = (agent.message().get("frame") or {}).get("stages", {}).get("prepare") or {}
            for alarm in (stage.get("lookout") or {}).get("alarms") or []:
                seen.setdefault(alarm["kind"], boot_s())
        time.sleep(0.5)
        return [seen[kind] - float((times / kind).read_text()) for kind in LINES if kind in seen]
    finally:
        agent.ask("stop", run="bench", stage="prepare", attempt=None, by="bench", grace_s=1)
        agent.close()


def main() -> int:
    """Print the lines; 1 when the bound is missed."""
    with tempfile.TemporaryDirectory(prefix="eaglewatch-bench-") as home:
        delays = measure(Path(home))
        time.sleep(3)  # supervisor and lookout are still writing that their job has ended
    missed = len(delays) < len(LINES) or max(delays) > BOUND_S
    middle, longest = statistics.median(delays or [0.0]), max(delays or [0.0])
    print(f"BENCH alarm_to_frame_p50 {middle:.2f} s <={BOUND_S:g} {'ok' if middle <= BOUND_S else 'MISS'}")
    print(f"BENCH alarm_to_frame_max {longest:.2f} s <={BOUND_S:g} {'MISS' if missed else 'ok'}")
    print(f"BENCH alarm_kinds {len(delays)} kinds - {json.dumps(sorted(LINES)) if len(delays) < len(LINES) else 'ok'}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
