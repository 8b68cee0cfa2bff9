"""Asking an attempt to stop: the wish is on disk first, then a supervisor carries it out, whoever asked and however long they stay."""

import os
import signal
import sys
import time
from typing import Any, Dict, Optional

from pipeline.contract import events, layout
from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json, write_json
from pipeline.contract.stages import JOBS
from pipeline.contract.telemetry import LIVE_STATES, number
from pipeline.host import launch, locks, procs, reserved, state
from pipeline.host.errors import FAILED, MISSING, USAGE, RequestError

_LONGEST_GRACE_S = 3600.0


def request_stop(directory: str, by: str, grace_s: Any, code_dir: str, python: str = sys.executable) -> Dict[str, Any]:
    """Write the stop and make sure that a supervisor lives; returns {attempt, state, asked}. Returns at once.

    ``grace_s`` None takes the stage's own. A second request keeps who asked first and may only shorten the grace. An attempt that has
    ended is left as it is (``asked`` false). Raises RequestError.
    """
    spec = read_json(os.path.join(directory, layout.SPEC))
    if spec is None:
        raise RequestError(MISSING, f"{directory}: no such attempt")
    before = state.view(directory)
    if before["state"] not in LIVE_STATES:
        return {"attempt": before["attempt"], "state": before["state"], "asked": False}
    grace = _grace(grace_s, str(spec.get("stage")))
    asked = read_json(os.path.join(directory, layout.STOP))
    try:
        if asked is None:
            value = {
                "by": by,
                "grace_s": grace,
                "boot_id": procs.this_boot(),
                "boot_s": round(boot_s(), 3),
                "wall_s": round(time.time(), 3),
            }
            reserved.publish(directory, layout.STOP, value)
        elif grace_s is not None and grace < (number(asked.get("grace_s")) or 0.0):
            write_json(os.path.join(directory, layout.STOP), dict(asked, grace_s=grace))
    except OSError as error:
        raise RequestError(FAILED, f"{directory}: cannot write the stop: {error.strerror}") from None
    try:
        events.append_event(directory, "agent", events.STOP_ASKED, who=by, grace_s=grace)
    except OSError:
        pass  # a full disk: the stop itself is written
    wake_supervisor(directory, code_dir, python)
    return {"attempt": before["attempt"], "state": state.view(directory)["state"], "asked": True}


def wake_supervisor(directory: str, code_dir: str, python: str = sys.executable) -> None:
    """Make the supervisor look at once; start one when there is none."""
    path = os.path.join(directory, layout.SUPERVISOR_LOCK)
    if not locks.is_held(path):
        launch.start_supervisor(directory, code_dir, python, adopt=True)
    else:
        procs.signal_process(locks.read_holder(path), signal.SIGUSR1)


def supervised(directory: str) -> bool:
    """Whether a supervisor holds the attempt now."""
    return locks.is_held(os.path.join(directory, layout.SUPERVISOR_LOCK))


def is_asked(directory: str) -> bool:
    """Whether a stop is on disk. An action looks itself: its supervisor may be frozen, and then no SIGTERM comes of it."""
    return os.path.exists(os.path.join(directory, layout.STOP))


def stop_taken(directory: str) -> bool:
    """Whether a supervisor has acted on the stop, or there is nothing left to stop."""
    found, _ = events.read_events(os.path.join(directory, layout.EVENTS))
    return any(event.get("kind") == events.TERM_SENT for event in found) or state.view(directory)["state"] not in LIVE_STATES


def _grace(asked: Optional[Any], stage: str) -> float:
    if asked is None:
        return JOBS[stage].grace_s if stage in JOBS else 30.0
    grace = number(asked)
    if grace is None or not 0 <= grace <= _LONGEST_GRACE_S:
        raise RequestError(USAGE, f"grace_s {asked!r}: give seconds from 0 to {_LONGEST_GRACE_S:.0f}")
    return float(grace)
