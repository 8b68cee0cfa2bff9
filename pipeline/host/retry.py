"""``retry = 1``: a stage that crashed is started again, once, as it was; unless that would only end it again.

The new attempt goes through the same gate as any launch, in a process of its own that waits until the GPUs are verified free.
"""

import os
import signal
import sys
import time
from typing import Any, Dict, List, Optional

from pipeline.contract import layout, telemetry
from pipeline.contract.alarms import DISK, LABELS, MEMORY
from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json
from pipeline.contract.stages import STAGES
from pipeline.contract.telemetry import number
from pipeline.host import asked_child, gpu_gate, locks, spawn, state
from pipeline.host.errors import BUSY, FAILED, GPUS, RequestError

WAIT_S, EVERY_S = 300.0, 10.0
"""For the GPUs, and for whatever of the old attempt still ends."""
LONGEST_S = WAIT_S + 120.0
_WANTED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""Nothing crashes by these: somebody on the host wanted it to end."""
_LOW_SHARE, _LOW_FREE_BYTES = 0.05, 1 << 30
"""Memory that was so low when a SIGKILL came, and a disk that has so little left, count as the cause."""


def why_not(view: Dict[str, Any], spec: Dict[str, Any], settings: Dict[str, Any], seen: Dict[str, Any]) -> Optional[str]:
    """Why an ended attempt is not started again; "" when it is; None when nobody asked for that, or it did not crash.

    ``seen``: {grew (it made something), alarms {kind: count}, free_bytes, min_free_bytes, memory_share (least of late), exit, newest}.
    """
    code = (view["exit"] or {}).get("code")
    crashed = view["state"] == telemetry.CRASHED or (view["state"] == telemetry.FAILED and code == 1)
    if settings.get("retry") != 1 or not crashed or view["stage"] not in STAGES:
        return None
    if spec.get("retry_of"):
        return "it was a retry itself, of attempt %s" % spec["retry_of"]
    if seen["exit"].get("signal") in _WANTED:
        return "somebody ended it by %s" % signal.Signals(seen["exit"]["signal"]).name
    if not seen["grew"]:
        return "it had made nothing since its start"
    for kind in (DISK, MEMORY):
        if seen["alarms"].get(kind):
            return "its log tells: %s" % LABELS[kind]
    if (number(seen["exit"].get("oom_kills")) or 0) > 0:
        return "out of memory: cgroup oom_kill +%d" % seen["exit"]["oom_kills"]
    free, least = seen["free_bytes"], max(number(seen["min_free_bytes"]) or 0, _LOW_FREE_BYTES)
    if free is not None and free < least:
        return "its disk has only %.1f GB left" % (free / 1e9)
    share = seen["memory_share"]
    if seen["exit"].get("signal") == signal.SIGKILL and (share is None or share < _LOW_SHARE):
        low = "could not be read" if share is None else "was down to %.0f %%" % (share * 100)
        return "SIGKILL, and the host's available memory %s" % low
    if seen["newest"] != view["attempt"]:
        return "the stage was started again since: attempt %s" % seen["newest"]
    return ""


def request_of(spec: Dict[str, Any], attempt: str) -> Dict[str, Any]:
    """The launch request that makes the same attempt again, under a new id. A person's override of the gate is not repeated: by now
    somebody else may be on the GPUs.
    """
    wanted = spec.get("asked")
    asked: Dict[str, Any] = wanted if isinstance(wanted, dict) else {}
    request: Dict[str, Any] = {name: spec.get(name) for name in ("run", "stage")}
    request.update({name: asked.get(name) for name in ("interpreter", "args", "env")})
    request.update(attempt=attempt, by="retry of %s" % spec.get("attempt"), retry_of=spec.get("attempt"))
    gpus = spec.get("gpus")
    if isinstance(gpus, dict):
        request["gpus"] = {name: gpus.get(name) for name in ("expected_gpus", "gpu_uuids", "wanted", "label")}
    return request


def launch(data_dir: str, spec: Dict[str, Any], attempt: str, code_dir: str) -> Dict[str, Any]:
    """Start it and return the reply. Raises RequestError when it cannot be started within ``WAIT_S``."""
    directory = layout.attempt_dir(layout.run_dir(data_dir, spec["run"]), spec["stage"], spec["attempt"])
    end = boot_s() + WAIT_S
    while locks.is_held(os.path.join(directory, layout.SUPERVISOR_LOCK)) and boot_s() < end:
        time.sleep(0.2)  # it still ends what the job left
    while True:
        newest = _newest(data_dir, spec)
        if newest != spec["attempt"]:
            raise RequestError(BUSY, "the stage was started again since: attempt %s" % newest)
        try:
            return _try(gpu_gate.GatedLaunch(data_dir, request_of(spec, attempt), code_dir))
        except RequestError as error:
            if error.kind not in (GPUS, BUSY) or boot_s() + EVERY_S >= end:
                raise
            time.sleep(EVERY_S)


def _try(started: gpu_gate.GatedLaunch) -> Dict[str, Any]:
    while True:
        reply = started.poll()
        if reply is not None:
            if reply["state"] not in telemetry.LIVE_STATES and reply["state"] != telemetry.DONE:
                raise RequestError(FAILED, "it is %s: %s" % (reply["state"], reply["why"]))
            return reply
        time.sleep(0.05)


def _newest(data_dir: str, spec: Dict[str, Any]) -> Optional[str]:
    """The attempt that stands for the stage; None when that cannot be told."""
    view = state.current(layout.run_dir(data_dir, spec["run"]), spec["stage"])
    newest = None if view is None else view["refused"] or view
    return None if newest is None else newest["attempt"]


def main(arguments: List[str]) -> int:
    """``retry DATA ATTEMPT_DIR NEW_ATTEMPT``: start it again, print {attempt, state, pid} or {why_not}."""
    if len(arguments) != 3:
        print("use: retry DATA ATTEMPT_DIR NEW_ATTEMPT", file=sys.stderr)
        return 2
    spec = read_json(os.path.join(arguments[1], layout.SPEC)) or {}
    code_dir = str(spec.get("code_dir") or "")
    code_dir = code_dir if os.path.exists(os.path.join(code_dir, "__main__.py")) else spawn.code_root()
    try:
        reply = launch(arguments[0], spec, arguments[2], code_dir)
    except (RequestError, OSError, KeyError) as error:
        asked_child.answer({"why_not": str(error)[:500]})
        return 0
    asked_child.answer({name: reply[name] for name in ("attempt", "state", "pid")})
    return 0
