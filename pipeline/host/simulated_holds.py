"""On a rehearsal host: what processes registered with the SIMULATED GPUs, as the second source that device files are elsewhere.

The file's records are those of ``pipeline.rehearsal.sim_gpus``: ``hold PID START_TICKS GPU MIB ...``.
"""

import os
from typing import Dict, List

from pipeline.host import procs

PATH_VARIABLE = "EAGLEWATCH_SIM_GPUS"


def holders() -> Dict[int, List[int]]:
    """{pid: GPU indices} of living processes whose start ticks are the registered ones. Raises OSError when the file cannot be read."""
    last: Dict[tuple, int] = {}
    with open(os.environ[PATH_VARIABLE], "rb") as file:
        data = file.read()
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        words = line.split()
        if len(words) >= 5 and words[0] == b"hold":
            try:
                last[(int(words[1]), int(words[2]), int(words[3]))] = int(words[4])
            except ValueError:
                continue
    found: Dict[int, List[int]] = {}
    for (pid, ticks, gpu), mib in last.items():
        stat = procs.read_stat(pid)
        if mib and stat is not None and stat.start_ticks == ticks and stat.state not in procs.DEAD:
            found.setdefault(pid, []).append(gpu)
    return found
