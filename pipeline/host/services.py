"""What keeps a holder running, and how it is stopped for good: a systemd unit, a docker or podman container, an attempt of ours.

A process that a manager keeps is never signalled before its manager was stopped: another one would come.
"""

import os
import pwd
import subprocess
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from pipeline.contract import events, layout
from pipeline.contract.stages import JOBS
from pipeline.contract.telemetry import LIVE_STATES
from pipeline.host import child_pipes, managers, ours, spawn, state, stop
from pipeline.host.errors import RequestError
from pipeline.host.manager_kinds import ATTEMPT, DOCKER, PODMAN, SYSTEMD, UNIT_NAME, Manager

_POLL_S = 0.1
_SPARE_S = 15.0
"""What a command may take beyond the grace that it gives."""
_SAID_BYTES = 4000
SUPERVISOR_S = 60.0
"""A supervisor is done by then with what its attempt left: a server gets 30 s after its SIGTERM, then 10 s of SIGKILL."""
_AT_REST = ("exited", "created", "configured", "stopped", "dead")
"""States of a container that only somebody's command would start."""


class Stopped(NamedTuple):
    ok: bool
    how: str
    """The command, or what was asked."""
    said: str
    seconds: float


def of_attempt(attempt: Dict[str, Any]) -> Manager:
    return {"how": ATTEMPT, "name": "%s/%s" % (attempt["run"], attempt["stage"]), **attempt}


def of_place(place: managers.Place, uid: Optional[int]) -> Optional[Manager]:
    """The manager of a place; None when there is none, or none that is stopped from here (a pod, a nested or a foreign container)."""
    if place.unit is not None and (not place.containers or place.unit_has_container):
        if not UNIT_NAME.match(place.unit) or (place.unit_uid not in (None, os.geteuid()) and os.geteuid() != 0):
            return None
        return {"how": SYSTEMD, "name": place.unit, "unit": place.unit, "unit_uid": place.unit_uid}
    if place.unit is not None or place.pod is not None or len(place.containers) != 1:
        return None
    (container,) = place.containers
    if container.runtime not in (DOCKER, PODMAN):
        return None
    if container.runtime == PODMAN and place.unit_uid not in (None, os.geteuid()):
        return None
    return {"how": container.runtime, "name": container.id[:12], "id": container.id}


def command(manager: Manager, grace_s: float) -> List[str]:
    """The command that stops a unit or a container."""
    if manager["how"] in (DOCKER, PODMAN):
        return [manager["how"], "stop", "-t", "%d" % max(0, round(grace_s)), manager["id"]]
    return [*_systemctl(manager), "stop", manager["unit"]]


def _systemctl(manager: Manager) -> List[str]:
    uid = manager.get("unit_uid")
    if uid is None:
        return ["systemctl", "--no-ask-password"]
    if uid == os.geteuid():
        return ["systemctl", "--user"]
    return ["systemctl", "--user", "-M", "%s@" % pwd.getpwuid(uid).pw_name]


def idle_word(manager: Manager) -> str:
    """What the manager of a unit or a container says where it neither runs nor is about to; "" for all else, silence included.

    A unit that loads, or is between two restarts, is on no GPU either: only its manager can tell that from one at rest.
    """
    if manager["how"] == SYSTEMD:
        said = _asked(lambda: [*_systemctl(manager), "show", "--property=ActiveState", manager["unit"]])
        return "inactive" if said == (0, "ActiveState=inactive") else ""
    code, text = _asked(lambda: [manager["how"], "inspect", "--type", "container", "--format", "{{.State.Status}}", manager["id"]])
    if code and "no such" in text.lower() and manager["id"] in text:
        return "removed"
    return text if code == 0 and text in _AT_REST else ""


def _asked(words: Callable[[], List[str]]) -> Tuple[Optional[int], str]:
    """(exit code, what it said); (None, why) when it gave no answer."""
    try:
        done = subprocess.run(
            words(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_SPARE_S, check=False
        )
    except (OSError, KeyError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    return done.returncode, done.stdout[-_SAID_BYTES:].decode("utf-8", "replace").strip()


def stop_manager(manager: Manager, grace_s: float, data_dir: str, by: str, cancelled: Callable[[], bool]) -> Stopped:
    """Stop it and wait until it says so, in bounded time. A cancel ends the wait, not what was asked for."""
    began = time.monotonic()
    if manager["how"] == ATTEMPT:
        ok, how, said = _stop_attempt(manager, data_dir, by, cancelled)
    else:
        ok, how, said = _run(manager, grace_s, cancelled)
    return Stopped(ok, how, said, round(time.monotonic() - began, 2))


def _run(manager: Manager, grace_s: float, cancelled: Callable[[], bool]) -> Any:
    words = []
    try:
        words = command(manager, grace_s)
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except (OSError, KeyError) as error:
        return False, " ".join(words), "cannot be run: %s" % error
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    said, deadline = b"", time.monotonic() + grace_s + _SPARE_S
    why = ""
    while True:
        code = process.poll()
        said += child_pipes.drain(process.stdout)
        said = said[-_SAID_BYTES:]
        if code is not None:
            break
        if cancelled() or time.monotonic() > deadline:
            why = "cancelled while it stopped; it may still stop" if cancelled() else "no end of it after %.0f s" % (grace_s + _SPARE_S)
            child_pipes.kill(process)  # the client that waits; what it asked for goes on
            break
        time.sleep(_POLL_S)
    process.stdout.close()
    text = said.decode("utf-8", "replace").strip()
    return code == 0 and not why, " ".join(words), why or text or ("exit code %s" % code if code else "")


def _stop_attempt(manager: Manager, data_dir: str, by: str, cancelled: Callable[[], bool]) -> Any:
    """Until its supervisor is gone as well: it ends what the attempt left, in its own order, before anybody else does."""
    how = "stop of %s, attempt %s" % (manager["name"], manager["attempt"])
    directory = ours.directory_of(data_dir, manager)
    if directory is None:
        return False, how, "no such attempt"
    try:
        stop.request_stop(directory, by, None, spawn.code_root())
    except RequestError as error:
        return False, how, str(error)
    deadline = time.monotonic() + JOBS[manager["stage"]].grace_s + 2 * _SPARE_S
    while True:
        view = state.view(directory)
        if view["state"] not in LIVE_STATES:
            break
        if cancelled() or time.monotonic() > deadline:
            return False, how, "cancelled while it stopped" if cancelled() else "it is still %s" % view["state"]
        time.sleep(_POLL_S)
    deadline = time.monotonic() + SUPERVISOR_S
    while stop.supervised(directory):
        if cancelled() or time.monotonic() > deadline:
            return False, how, "its supervisor is still ending what it left"
        time.sleep(_POLL_S)
    return True, how, "%s %s%s" % (view["state"], view["why"], _left_alone(directory))


def _left_alone(directory: str) -> str:
    told = [one for one in events.read_events(os.path.join(directory, layout.EVENTS))[0] if one.get("kind") == events.LEFT_ALONE]
    pids = ", ".join(str(pid) for pid in told[-1]["pids"][:20]) if told else ""
    return "; left alone, of another user though with its cookie: %s" % pids if pids else ""
