"""What a stage process does besides its work on the rehearsal host: it holds SIMULATED GPU memory where its kind
of stage works on GPUs, and injects the fault that is set."""

import glob
import os
import threading
import time
from collections import deque
from contextlib import suppress

from pipeline.contract import layout, rehearsal
from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json
from pipeline.contract.stages import STAGES
from pipeline.contract.telemetry import LOADING, STEADY
from pipeline.host import procs
from pipeline.rehearsal import sim_gpus
from pipeline.rehearsal.faults import StageFaults

LOOK_S = 0.25
HOLD_S = 2.0
_REFRESH_S = {LOADING: 0.5, STEADY: HOLD_S}
FIRST_RANK_MIB, OTHER_RANK_MIB = 82_611, 82_604
"""What the reference run's GPUs held of 97,253 MiB at a memory utilisation of 0.85."""
CONTEXT_MIB = 612
"""A CUDA context and nothing else."""
BUSY, SPIN, NONE = "busy", "spin", "none"
"""What runs on the GPUs: work, a collective that waits for another rank (all utilisation, little power), or no kernel."""
SPIN_W = 96
"""Above idle. horovod/horovod#3611 shows 47 W of a card's 250 W under such a wait; here it is a quarter of what work takes."""
WINDOW_S = 1.0
LEAST_SHARE = 0.02
"""Of one core: below it the process does nothing, whatever it holds."""


def stage_started(stage: str, on_gpus: bool) -> None:
    """Call at the start of a stage process. Does nothing but on a rehearsal host."""
    home = os.environ.get(rehearsal.ENV_HOME)
    if home:
        threading.Thread(target=_follow, args=(home, stage, on_gpus), name=f"rehearsal-{stage}", daemon=True).start()


def _follow(home: str, stage: str, on_gpus: bool) -> None:
    """Look at the stage's own progress for as long as the process lives."""
    faults = StageFaults(home, stage)
    gpus = os.environ.get(rehearsal.ENV_GPUS) or rehearsal.gpus_file(home)
    work = Work()
    began = boot_s()
    held: tuple[str, str] | None = None
    held_s = float("-inf")
    attempt = None
    pause = threading.Event()
    while not pause.wait(LOOK_S):
        attempt = attempt or _attempt_directory(home, stage)
        progress = (read_json(layout.progress_file(attempt, 0)) if attempt else None) or {}
        phase = progress.get("phase") or LOADING
        now = boot_s()
        # A service's kernels are its child's, which nothing here looks into.
        busy = work.moves(now) or faults.slows or STAGES[stage].service
        kernels = SPIN if faults.spins else BUSY if busy else NONE
        # Without an attempt it is not past its gate yet, and a real stage has no CUDA context before that.
        if attempt and on_gpus and ((phase, kernels) != held or now - held_s >= _REFRESH_S.get(phase, float("inf"))):
            with suppress(OSError):
                tick = int((now - began) / HOLD_S)
                hold_all(gpus, phase, rehearsal.share(progress, "load_done", "load_total"), tick, kernels)
            held, held_s = (phase, kernels), now
        with suppress(OSError):
            total, written = progress.get("total_bytes"), progress.get("bytes")
            left = total - written if isinstance(total, int) and isinstance(written, int) else None
            faults.look(rehearsal.work_done(stage, progress), left)


class Work:
    """Whether this process computes: CPU time of all its threads but the one that asks, over the last second or so."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, float]] = deque()

    def moves(self, now: float) -> bool:
        """``now``: seconds since boot. True at first."""
        self._looks.append((now, time.process_time() - time.thread_time()))
        while len(self._looks) > 2 and now - self._looks[1][0] >= WINDOW_S:
            self._looks.popleft()
        (since, before), (_, after) = self._looks[0], self._looks[-1]
        return now - since < WINDOW_S or after - before >= LEAST_SHARE * (now - since)


def _attempt_directory(home: str, stage: str) -> "str | None":
    """This process's attempt, by its cookie; one started by hand gets it only once it holds the stage."""
    name = os.environ.get(procs.COOKIE)
    found = glob.glob(os.path.join(glob.escape(rehearsal.data_dir(home)), "runs", "*", "stages", stage, name)) if name else []
    return found[0] if found else None


def hold_all(path: str, phase: str, loaded: float, tick: int, kernels: str = BUSY) -> None:
    """Register what this process holds on every GPU: growing with the share that is ``loaded``, then as in the reference run.

    ``tick`` moves utilisation and power a little; ``kernels``: BUSY, SPIN or NONE. Raises OSError.
    """
    for index, row in sim_gpus.read(path).table.items():
        room = int(row[1]) - int(row[2])
        full = min(room, FIRST_RANK_MIB if index == 0 else OTHER_RANK_MIB)
        if phase == LOADING:
            sim_gpus.hold(path, index, CONTEXT_MIB + int((full - CONTEXT_MIB) * loaded), 0, 55 + index % 3)
        elif kernels == SPIN:
            sim_gpus.hold(path, index, full, 100, SPIN_W + (index + tick) % 3)
        elif phase == STEADY and kernels == BUSY:
            wobble = (index * 5 + tick * 3) % 7
            sim_gpus.hold(path, index, full, 97 + wobble % 2, 376 + wobble)
        else:
            sim_gpus.hold(path, index, full, 0, sim_gpus.HELD_W)
