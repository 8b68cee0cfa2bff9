"""The moment in which a stage that needs GPUs is claimed: one at a time, and not while another stage has them, even without memory yet."""

import contextlib
import os
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from pipeline.contract import layout, transition
from pipeline.contract.files import read_json
from pipeline.contract.stages import STAGES
from pipeline.contract.telemetry import LIVE_STATES
from pipeline.host import audit, evidence_age, launch, locks, no_gpus, state
from pipeline.host.errors import BUSY, FAILED, GPUS, RequestError

Evidence = Dict[str, Any]
"""{free, accepted, line, verdict, gpus [[index, verdict, detail]], cards [{index, uuid, total_bytes, ...}], holders, read_boot_s (of
the last reading), boot_s, took_s, simulated} and what was asked for."""


class StageHeldError(RequestError):
    """The stage has a live attempt: whatever the GPUs hold is its own."""

    def __init__(self, view: Dict[str, Any]):
        line = "the stage is held by attempt %s (%s, started by %s)" % (view["attempt"], view["state"], view["by"])
        super().__init__(BUSY, line, "one attempt of a stage at a time")
        self.holder = {"attempt": view["attempt"], "by": view["by"], "pid": view["pid"], "since_wall_s": view["started_wall_s"]}


def claim(
    data_dir: str, request: Dict[str, Any], code_dir: str, evidence: Evidence, last_look: Callable[[], None] = lambda: None
) -> Optional[launch.Launch]:
    """Claim the attempt on this evidence; None while another one is being claimed. Raises RequestError: ``gpus`` when they are not free.

    ``last_look`` is called under the lock, right before the launch, and may raise.
    """
    if begun(data_dir, request):  # by the same request, sent twice: what the GPUs hold now may be its own
        return launch.Launch(data_dir, request, code_dir)
    check_free(data_dir, request, evidence)
    with claiming(data_dir, request, evidence) as told:
        if told is None:
            return None
        last_look()
        return launch.Launch(data_dir, request, code_dir, gpus=told)


def begun(data_dir: str, request: Dict[str, Any]) -> bool:
    """Whether the attempt of a request is under way, or has been."""
    directory = launch.check(data_dir, request)
    return os.path.isdir(directory) and not launch.needs_supervisor(directory)


def check_free(data_dir: str, request: Dict[str, Any], evidence: Evidence) -> None:
    """Raises RequestError unless the GPUs are free, or it is overridden that they are not."""
    if evidence["free"] or evidence["override"] or _none_here(evidence):
        return
    if evidence["expected_gpus"]:
        check_taken(data_dir, evidence, request)
    hint = "free the GPUs first; an override needs a reason, which is logged" if evidence["expected_gpus"] else no_gpus.HINT
    raise RequestError(GPUS, "%s needs its GPUs verified free: %s" % (request["stage"], evidence["line"]), hint)


@contextlib.contextmanager
def claiming(data_dir: str, request: Dict[str, Any], evidence: Evidence) -> Iterator[Optional[Evidence]]:
    """Gives the evidence for the spec, and holds the lock under which GPUs are given to stages; None: another stage is being claimed.

    An override is in the audit log before. ``request``: {run, stage, attempt, by}. Raises RequestError, StaleEvidenceError among them.
    """
    path = os.path.join(data_dir, layout.GPUS_LOCK)
    try:
        lock = locks.take(path, locks.holder_line(str(request["attempt"]), str(request.get("by"))), 0.0)
    except OSError as error:
        raise RequestError(FAILED, "%s: cannot lock: %s" % (path, error.strerror)) from None
    if lock is None:
        yield None
        return
    try:
        evidence_age.check(evidence, evidence_age.CLAIM_S)
        taken = None if _none_here(evidence) else check_taken(data_dir, evidence, request)
        if evidence["override"] or _none_here(evidence):
            _record(data_dir, request, evidence, taken)
        yield dict(evidence, taken=taken)
    finally:
        lock.release()


def check_taken(data_dir: str, what: Dict[str, Any], request: Dict[str, Any]) -> Optional[str]:
    """Who has the GPUs, though it may not have any memory on them yet: a stage that starts. Raises RequestError unless overridden."""
    taken = None
    for run, stage, view in takers(data_dir, what):
        if view["attempt"] == request.get("attempt"):
            continue
        taken = taken_by(run, stage, view)
        if (run, stage) == (request.get("run"), request.get("stage")):
            raise StageHeldError(view)
        if not what["override"]:
            raise RequestError(GPUS, "%s needs its GPUs for itself: %s" % (request["stage"], taken), "stop that first")
    return taken


def takers(data_dir: str, what: Dict[str, Any]) -> Iterator[Tuple[str, str, Dict[str, Any]]]:
    """(run, stage, view) of each live attempt that was given some of the ``wanted`` GPUs ([]: all)."""
    try:
        runs = sorted(os.listdir(layout.runs_dir(data_dir)))
    except OSError:
        runs = []
    for run in runs:
        for stage in filter(transition.needs_gpus, STAGES):
            view = _live(data_dir, run, stage, what)
            if view is not None:
                yield run, stage, view


def taken_by(run: str, stage: str, view: Dict[str, Any]) -> str:
    return "%s of run %s is %s (attempt %s, by %s)" % (stage, run, view["state"], view["attempt"], view["by"])


def _live(data_dir: str, run: str, stage: str, what: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """The view of a live attempt that was given some of these GPUs."""
    try:
        directory = layout.run_dir(data_dir, run)
    except ValueError:
        return None
    view = state.current(directory, stage)
    if view is None or view["state"] not in LIVE_STATES:
        return None
    spec = read_json(os.path.join(layout.attempt_dir(directory, stage, view["attempt"]), layout.SPEC)) or {}
    if not transition.needs_gpus(stage, spec.get("args")):
        return None
    told = spec.get("gpus")
    theirs: Dict[str, Any] = told if isinstance(told, dict) else {}
    if _none_here(theirs):
        return None
    ours, wanted = set(what["wanted"]), set(theirs.get("wanted") or [])
    return view if not ours or not wanted or ours & wanted else None


def _none_here(evidence: Evidence) -> bool:
    """No GPUs are expected, and none were read."""
    return evidence.get("expected_gpus") == 0 and evidence.get("free") is None


def _record(data_dir: str, request: Dict[str, Any], evidence: Evidence, taken: Optional[str]) -> None:
    line = {"what": "override", "by": str(request.get("by"))[:200], "reason": evidence["override"], "line": evidence["line"][:2000]}
    line.update({name: request[name] for name in ("run", "stage", "attempt")}, taken=taken, free=evidence["free"])
    try:
        if evidence["override"]:
            audit.append(data_dir, line)
        else:
            no_gpus.record(data_dir, request, evidence)
    except OSError as error:
        raise RequestError(FAILED, "the start cannot be recorded: %s; it is not done" % error.strerror) from None
