"""Every path on the host, in one place.

``DATA`` is the host's data directory (``data_dir`` in hosts.toml)::

    DATA/code/HASH/                      the shipped bundle, one directory a version
    DATA/control/RUN.json                which console may act on the run
    DATA/audit.jsonl                     take-overs of control, overridden inputs, actions; a line each, never rewritten
    DATA/history.jsonl                   what each ended attempt came to; a line each, never rewritten
    DATA/free-gpus.lock                  held by the one action that frees GPUs on this host, or is between doing so and a launch
    DATA/gpus.lock                       held for the moment in which a stage that needs GPUs is claimed
    DATA/gpu-baseline.json               what each GPU holds when it is provably idle
    DATA/gpu-readings.json               the newest readings of a connected agent, for the lookouts; not kept durable
    DATA/runs/RUN/settings.toml          the run's settings; once written, this copy rules
    DATA/runs/RUN/settings.toml.NNN      copies that were replaced, the oldest 001
    DATA/runs/RUN/settings.json          the same, resolved, for the host program
    DATA/runs/RUN/settings.pending       both, while they are being written
    DATA/runs/RUN/provenance.json        {STAGE: what its newest attempt ran with}
    DATA/runs/RUN/baseline-accepted.json the idle baseline that the operator accepted for this run
    DATA/runs/RUN/data/                  prepared data, hidden states (unless the settings say elsewhere)
    DATA/runs/RUN/stages/STAGE/lock      held by the one live attempt of the stage
    DATA/runs/RUN/stages/STAGE/ATTEMPT/  the files named below

Actions (``stages.ACTIONS``) lie where stages lie. Those of no run are in the run named ``HOST_RUN``, which has no settings.
"""

import os
import re
import time
from typing import List

from pipeline.contract.stages import JOBS, STAGES

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")

HOST_RUN = "eaglewatch-host"
"""Not a run of anybody: actions that belong to the host alone."""
ORDER = "order.json"
"""Of an action, beside its spec: what was confirmed."""
FREE_LOCK = "free-gpus.lock"
GPUS_LOCK = "gpus.lock"
FREE_RECEIPT = "free-receipt.json"
"""Of a transition that freed GPUs: what ``receipt.json`` is to the action that only does that."""
BASELINE = "gpu-baseline.json"
GPU_READINGS = "gpu-readings.json"
ACCEPTED = "baseline-accepted.json"
"""In a run."""

SPEC = "spec.json"
"""Written by the launch before the claim: what is to run."""
IDENT = "ident.json"
"""Written by the shim before exec: which process it is."""
STATUS = "status.json"
"""Written by the supervisor: heartbeat and what it saw last."""
SUPERVISOR_LOCK = "supervisor.lock"
LOCK = "lock"
"""In an attempt: held by the shim for life. In a stage: held by its one live attempt."""
OUTPUT_LOCK = ".eaglewatch.lock"
"""In a stage's output directory: one writer, whichever run it belongs to."""
EVENTS = "events.jsonl"
PROGRESS = "progress"
LOG = "stdout.log"
HOST_LOG = "host.log"
"""What supervisor and shim print: empty unless one of them breaks."""
EXIT = "exit.json"
"""Exit code or signal; written by the shim, by the supervisor when the shim was killed, by the stage when started by hand."""
STOP = "stop.json"
"""Written by a stop request: who asked, and how long the stage has."""
LOOKOUT = "lookout.json"
"""Written by the lookout: its judgement, what it learned, alarms and alerts."""
LOOKOUT_LOCK = "lookout.lock"
CURVE = "curve.json"
"""Written by the lookout: {"points": [[boot_s, done, tokens, bytes, mean GPU MiB or null], ...]} of the whole attempt."""
DUMPS = "dumps"
"""In an attempt: stack dumps that somebody asked for."""
HISTORY = "history.jsonl"
"""In the data directory: a line an ended attempt."""
AUDIT = "audit.jsonl"
"""In the data directory: take-overs of control, inputs that were used although they are outdated, and actions."""
RECEIPT = "receipt.json"
"""Written by the stage at its end: what it checked of its own output."""
PROVENANCE = "provenance.json"
"""Written before the stage's work: code, versions, settings, arguments, inputs."""


def check_name(name: str, what: str = "run name") -> str:
    """Return ``name`` if it can be a single path component. Raises ValueError, which says what is allowed."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise ValueError(f"{what} {name!r}: use 1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit")
    return name


def new_attempt_id() -> str:
    """A fresh attempt id: UTC time to sort by, and 48 random bits. The client makes it before it asks for a launch."""
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + os.urandom(6).hex()


def code_dir(data_dir: str, code_hash: str) -> str:
    return os.path.join(data_dir, "code", check_name(code_hash, "code hash"))


def runs_dir(data_dir: str) -> str:
    return os.path.join(data_dir, "runs")


def control_file(data_dir: str, run: str) -> str:
    return os.path.join(data_dir, "control", check_name(run) + ".json")


def run_dir(data_dir: str, run: str) -> str:
    return os.path.join(data_dir, "runs", check_name(run))


def stage_dir(run_directory: str, stage: str) -> str:
    if stage not in JOBS:
        raise ValueError(f"no stage {stage!r}; the stages are {', '.join(STAGES)}")
    return os.path.join(run_directory, "stages", stage)


def attempt_dir(run_directory: str, stage: str, attempt: str) -> str:
    return os.path.join(stage_dir(run_directory, stage), check_name(attempt, "attempt id"))


def attempts(run_directory: str, stage: str) -> List[str]:
    """Attempt ids of a stage, oldest first; empty when there is none."""
    try:
        names = os.listdir(stage_dir(run_directory, stage))
    except OSError:
        return []
    return sorted(name for name in names if _NAME.match(name) and name != LOCK)


def stacks_file(pid: int) -> str:
    """In an attempt: where a process of it writes its stacks on SIGUSR1."""
    return "stacks-%d.txt" % pid


def stacks_head(start_ticks: int) -> str:
    """First line of that file: whose it is, since pids are used again."""
    return "SIGUSR1 writes stacks here; start ticks %d" % start_ticks


def progress_file(attempt_directory: str, rank: int) -> str:
    return os.path.join(attempt_directory, PROGRESS, f"{rank}.json")
