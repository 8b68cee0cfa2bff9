"""What a stage process does besides its work on the rehearsal host: it holds SIMULATED GPU memory where its kind
of stage works on GPUs, and injects the fault that is set."""

import glob
import os
import threading
from contextlib import suppress

from pipeline.contract import layout, rehearsal
from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json
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


def stage_started(stage: str, on_gpus: bool) -> None:
    """Call at the start of a stage process. Does nothing but on a rehearsal host."""
    home = os.environ.get(rehearsal.ENV_HOME)
    if home:
        threading.Thread(target=_follow, args=(home, stage, on_gpus), name=f"rehearsal-{stage}", daemon=True).start()


def _follow(home: str, stage: str, on_gpus: bool) -> None:
    """Look at the stage's own progress for as long as the process lives."""
    faults = StageFaults(home, stage)
    gpus = os.environ.get(rehearsal.ENV_GPUS) or rehearsal.gpus_file(home)
    began = boot_s()
    held: str | None = None
    held_s = float("-inf")
    attempt = None
    pause = threading.Event()
    while not pause.wait(LOOK_S):
        attempt = attempt or _attempt_directory(home, stage)
        progress = (read_json(layout.progress_file(attempt, 0)) if attempt else None) or {}
        phase = progress.get("phase") or LOADING
        now = boot_s()
        # Without an attempt it is not past its gate yet, and a real stage has no CUDA context before that.
        if attempt and on_gpus and (phase != held or now - held_s >= _REFRESH_S.get(phase, float("inf"))):
            with suppress(OSError):
                hold_all(gpus, phase, rehearsal.share(progress, "load_done", "load_total"), int((now - began) / HOLD_S))
            held, held_s = phase, now
        with suppress(OSError):
            faults.look(rehearsal.work_done(stage, progress))


def _attempt_directory(home: str, stage: str) -> "str | None":
    """This process's attempt, by its cookie; one started by hand gets it only once it holds the stage."""
    name = os.environ.get(procs.COOKIE)
    found = glob.glob(os.path.join(glob.escape(rehearsal.data_dir(home)), "runs", "*", "stages", stage, name)) if name else []
    return found[0] if found else None


def hold_all(path: str, phase: str, loaded: float, tick: int) -> None:
    """Register what this process holds on every GPU: growing with the share that is ``loaded``, then as in the reference run.

    ``tick`` moves utilisation and power a little. Raises OSError.
    """
    for index, row in sim_gpus.read(path).table.items():
        room = int(row[1]) - int(row[2])
        full = min(room, FIRST_RANK_MIB if index == 0 else OTHER_RANK_MIB)
        if phase == LOADING:
            sim_gpus.hold(path, index, CONTEXT_MIB + int((full - CONTEXT_MIB) * loaded), 0, 55 + index % 3)
        elif phase == STEADY:
            wobble = (index * 5 + tick * 3) % 7
            sim_gpus.hold(path, index, full, 97 + wobble % 2, 376 + wobble)
        else:
            sim_gpus.hold(path, index, full, 0, 58)
