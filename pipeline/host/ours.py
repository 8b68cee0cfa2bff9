"""Which of this data directory's attempts a process belongs to, by the cookie in its environment."""

import os
from typing import Any, Dict, Optional

from pipeline.contract import layout
from pipeline.contract.stages import ACTIONS, STAGES
from pipeline.contract.telemetry import LIVE_STATES
from pipeline.host import procs, state

_ENVIRONMENT_BYTES = 1 << 20


def attempt_of(pid: int, data_dir: str) -> Optional[Dict[str, Any]]:
    """{run, stage, attempt}; None without a cookie. Run and stage are None when the attempt is none of this data directory's.

    Raises OSError: the environment may not be read, or the process is gone.
    """
    with open("/proc/%d/environ" % pid, "rb") as file:
        environment = file.read(_ENVIRONMENT_BYTES)
    start = procs.COOKIE.encode() + b"="
    attempt = next((one[len(start) :].decode("utf-8", "replace") for one in environment.split(b"\0") if one.startswith(start)), None)
    if attempt is None:
        return None
    try:
        runs = os.listdir(layout.runs_dir(data_dir))
    except OSError:
        runs = []
    for run in sorted(runs):
        for stage in [*STAGES, *ACTIONS]:
            directory = directory_of(data_dir, {"run": run, "stage": stage, "attempt": attempt})
            if directory is not None and os.path.isdir(directory):
                return {"run": run, "stage": stage, "attempt": attempt}
    return {"run": None, "stage": None, "attempt": attempt[:80]}


def directory_of(data_dir: str, ours: Dict[str, Any]) -> Optional[str]:
    """The attempt's directory, whether it is there or not; None when the names cannot be one."""
    try:
        return layout.attempt_dir(layout.run_dir(data_dir, ours["run"]), ours["stage"], ours["attempt"])
    except ValueError:
        return None


def state_of(data_dir: str, ours: Dict[str, Any]) -> Optional[str]:
    """State of the attempt; None without one."""
    directory = directory_of(data_dir, ours) if ours.get("run") else None
    return None if directory is None else state.view(directory)["state"]


def lives(data_dir: str, ours: Dict[str, Any]) -> bool:
    """Whether the attempt is alive: its supervisor then ends it better than a signal to one of its processes."""
    return state_of(data_dir, ours) in LIVE_STATES
