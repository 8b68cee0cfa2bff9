"""Which of this data directory's attempts a process belongs to, by the cookie in its environment."""

import os
from typing import Any, Dict, Optional

from pipeline.contract import layout
from pipeline.contract.files import read_json
from pipeline.contract.stages import ACTIONS, STAGES
from pipeline.contract.telemetry import LIVE_STATES, UNREADABLE
from pipeline.host import locks, procs, state

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
    found = []
    for run in sorted(runs):
        for stage in [*STAGES, *ACTIONS]:
            one = {"run": run, "stage": stage, "attempt": attempt}
            directory = directory_of(data_dir, one)
            if directory is not None and os.path.isdir(directory):
                if _is_at_home(directory, layout.run_dir(data_dir, run)):
                    return one
                found.append(one)
    return found[0] if found else {"run": None, "stage": None, "attempt": attempt[:80]}


def _is_at_home(directory: str, run_directory: str) -> bool:
    """Whether the attempt was made in this run, which may have been copied since with all that is in it."""
    made = (read_json(os.path.join(directory, layout.SPEC)) or {}).get("run_dir")
    try:
        return isinstance(made, str) and os.path.samefile(made, run_directory)
    except OSError:
        return False


def directory_of(data_dir: str, ours: Dict[str, Any]) -> Optional[str]:
    """The attempt's directory, whether it is there or not; None when the names cannot be one."""
    try:
        return layout.attempt_dir(layout.run_dir(data_dir, ours["run"]), ours["stage"], ours["attempt"])
    except ValueError:
        return None


def state_of(data_dir: str, ours: Dict[str, Any]) -> Optional[str]:
    """State of the attempt; None without one. One whose files are there and torn is UNREADABLE: it may well be alive."""
    directory = directory_of(data_dir, ours) if ours.get("run") else None
    if directory is None:
        return None
    word = state.view(directory)["state"]
    paths = [os.path.join(directory, name) for name in (layout.SPEC, layout.IDENT)]
    torn = word not in LIVE_STATES and any(os.path.lexists(path) and read_json(path) is None for path in paths)
    return UNREADABLE if torn else word


def lives(data_dir: str, ours: Dict[str, Any]) -> bool:
    """Whether the attempt is alive: its supervisor then ends it better than a signal to one of its processes."""
    return state_of(data_dir, ours) in LIVE_STATES


def supervised(data_dir: str, ours: Dict[str, Any]) -> bool:
    """Whether a supervisor holds the attempt now: also of one that has ended, whose leftovers it ends in their own order."""
    directory = directory_of(data_dir, ours) if ours.get("run") else None
    return directory is not None and locks.is_held(os.path.join(directory, layout.SUPERVISOR_LOCK))
