"""What the requests about runs and attempts do. Each function takes the request; it returns the reply, or a poll that will give it.

All raise RequestError for what cannot be done, and ValueError or OSError never on purpose.
"""

import contextlib
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from pipeline.contract import events, layout, lineage, transition
from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json
from pipeline.contract.telemetry import DONE, LIVE_STATES, number
from pipeline.host import asked, audit, filecache, settings_store, source_looks, state, stop
from pipeline.host.errors import MISSING, USAGE, RequestError
from pipeline.host.tail import Tail

SUPERVISOR_PATIENCE_S = 5.0
"""How long stop and adopt wait for a supervisor before they say that none has come."""
MAX_EVENTS = 2000
_OBJECTS = {
    "spec": layout.SPEC,
    "receipt": layout.RECEIPT,
    "ident": layout.IDENT,
    "exit": layout.EXIT,
    "provenance": layout.PROVENANCE,
    "curve": layout.CURVE,
}

Request = Dict[str, Any]
Reply = Dict[str, Any]
Poll = Callable[[], Optional[Reply]]


class Watch(NamedTuple):
    """What a client wants frames of."""

    run: Optional[str]
    interval_s: float
    disk_path: Optional[str]


def watch(data_dir: str, request: Request) -> Watch:
    run, disk_path = request.get("run"), request.get("disk_path")
    if run is not None:
        with contextlib.suppress(OSError):  # a disk that takes nothing can still be looked at
            settings_store.settle(asked.run_dir(data_dir, run))
    interval = number(request.get("interval_s", 1.0))
    if interval is None or not 0.2 <= interval <= 60:
        raise RequestError(USAGE, f"interval_s {request.get('interval_s')!r}: give seconds from 0.2 to 60")
    if disk_path is not None and (not isinstance(disk_path, str) or "\0" in disk_path):
        raise RequestError(USAGE, "disk_path must be a path")
    return Watch(run, interval, os.path.expanduser(disk_path) if disk_path else None)


def read(data_dir: str, request: Request) -> Reply:
    what = request.get("what")
    if what == "settings":
        data = settings_store.read(asked.run_dir(data_dir, request.get("run")))
        if data is None:
            raise RequestError(MISSING, f"run {request.get('run')!r} has no settings")
        return {"value": data.decode("utf-8", "replace"), "sha256": settings_store.digest(data)}
    if what != "events" and what not in _OBJECTS:
        raise RequestError(USAGE, f"read what? {what!r}; there are settings, events, {', '.join(_OBJECTS)}")
    directory = attempt_dir(data_dir, request)
    if what == "events":
        found, _ = events.read_events(os.path.join(directory, layout.EVENTS))
        return {"value": found[-MAX_EVENTS:], "attempt": os.path.basename(directory)}
    value = read_json(os.path.join(directory, _OBJECTS[what]))
    if value is None:
        raise RequestError(MISSING, f"attempt {os.path.basename(directory)} has no {what}")
    return {"value": value, "attempt": os.path.basename(directory)}


def runs(data_dir: str) -> Reply:
    found = []
    for name in _names(layout.runs_dir(data_dir)):
        if name == layout.HOST_RUN:
            continue
        try:
            directory = layout.run_dir(data_dir, name)
        except ValueError:
            continue
        if os.path.isdir(directory):
            found.append({"name": name, "stages": _stages(directory), "transition": _transition(directory)})
    return {"runs": found}


def _transition(directory: str) -> Optional[Dict[str, Any]]:
    """How the newest transition of a run stands; None without any."""
    one = state.current(directory, transition.ACTION)
    return None if one is None else {name: one[name] for name in ("attempt", "state", "by", "ended_boot_s")}


def _stages(directory: str) -> Dict[str, Any]:
    """The stages of one run, with why the output of a DONE one does not count any more."""
    resolved = filecache.read_json(os.path.join(directory, settings_store.RESOLVED)) or {}
    outdated = lineage.outdated(directory, resolved, filecache.read_json, source_looks.changed)
    stages = {}
    for stage, view in state.newest(directory).items():
        why = lineage.why_not_usable(directory, stage, resolved, outdated) if view["state"] == DONE else None
        stages[stage] = {"attempt": view["attempt"], "state": view["state"], "outdated": why}
    return stages


def ask_stop(data_dir: str, request: Request, code_dir: str) -> Poll:
    """{attempt, state, asked, taken}: ``taken`` once a supervisor has acted on it, or there was nothing left to stop."""
    directory = attempt_dir(data_dir, request, live=True)
    audit.asked(data_dir, "stop", dict(request, attempt=os.path.basename(directory)))
    told = stop.request_stop(directory, asked.by(request), request.get("grace_s"), code_dir)
    deadline = boot_s() + SUPERVISOR_PATIENCE_S

    def taken() -> Optional[Reply]:
        done = stop.stop_taken(directory)
        return dict(told, state=state.view(directory)["state"], taken=done) if done or boot_s() >= deadline else None

    return taken


def adopt(data_dir: str, request: Request, code_dir: str) -> Poll:
    """{attempt, supervised}, once a supervisor is there or none has come in time."""
    directory = attempt_dir(data_dir, request, live=True)
    if state.view(directory)["state"] not in LIVE_STATES:
        raise RequestError(MISSING, f"attempt {os.path.basename(directory)} has ended: nothing to adopt")
    if not stop.supervised(directory):
        stop.wake_supervisor(directory, code_dir)
    deadline = boot_s() + SUPERVISOR_PATIENCE_S

    def adopted() -> Optional[Reply]:
        there = stop.supervised(directory)
        return {"attempt": os.path.basename(directory), "supervised": there} if there or boot_s() >= deadline else None

    return adopted


def open_tail(data_dir: str, request: Request) -> Tail:
    offset = request.get("offset", 0)
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise RequestError(USAGE, f"offset {offset!r}: give a number of bytes")
    directory = attempt_dir(data_dir, request)
    name = os.path.basename(directory)
    try:
        return Tail(os.path.join(directory, layout.LOG), name, offset, bool(request.get("follow", True)), boot_s())
    except OSError as error:
        raise RequestError(MISSING, f"attempt {name} has no log: {error.strerror}") from None


def attempt_dir(data_dir: str, request: Request, live: bool = False) -> str:
    """The attempt that a request names; without a name the live one (``live``), or the one that stands for the stage."""
    run, stage, attempt = asked.run_dir(data_dir, request.get("run")), request.get("stage"), request.get("attempt")
    try:
        layout.stage_dir(run, stage)  # type: ignore[arg-type]
        directory = None if attempt is None else layout.attempt_dir(run, str(stage), attempt)
    except (ValueError, TypeError) as error:
        raise RequestError(USAGE, str(error)) from None
    if directory is not None:
        if not os.path.isdir(directory):
            raise RequestError(MISSING, f"no attempt {attempt} of {stage} in run {request['run']}")
        return directory
    view = state.current(run, str(stage))
    if view is None or (live and view["state"] not in LIVE_STATES):
        raise RequestError(MISSING, f"no {'live ' if live else ''}attempt of {stage} in run {request['run']}")
    return layout.attempt_dir(run, str(stage), view["attempt"])


def _names(directory: str) -> List[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
