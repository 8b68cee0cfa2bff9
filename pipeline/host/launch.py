"""Launching: idempotent by attempt id, and answered only once something is known of the job."""

import os
import sys
from typing import Any, Dict, Optional, Tuple

from pipeline.contract import layout
from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json, write_json
from pipeline.contract.stages import ACTIONS, JOBS, STAGES
from pipeline.contract.telemetry import LAUNCHING
from pipeline.host import actions, asked, audit, claims, locks, settings_store, spawn, state, visible_gpus
from pipeline.host.errors import FAILED, MISSING, USAGE, RequestError
from pipeline.host.launch_words import check_arguments, find_interpreter

DEADLINE_S = 15.0
"""A launch is answered by then with what is known."""
_RETRY_S = 3.0
"""A supervisor that has not taken its lock by then is taken for dead; a second one that it outlives goes away by itself."""
_TAIL_BYTES = 4096


class Launch:
    """A launch request under way. Making it claims the attempt; ``poll`` until it answers. Nothing here blocks.

    Raises RequestError when the request cannot be carried out.
    """

    def __init__(
        self,
        data_dir: str,
        request: Dict[str, Any],
        code_dir: str,
        python: str = sys.executable,
        gpus: Optional[Dict[str, Any]] = None,
    ):
        """``gpus`` is the evidence for the spec that the GPUs of the stage are free (``gpu_gate``)."""
        self.directory, self.existing = claim(data_dir, request, code_dir, gpus)
        self._code_dir = code_dir
        self._python = python
        self._asked_s = boot_s()
        self._started_s = float("-inf")

    def poll(self) -> Optional[Dict[str, Any]]:
        """The reply, or None: ask again in some 50 ms."""
        now = boot_s()
        if needs_supervisor(self.directory) and now - self._started_s >= _RETRY_S:
            self._started_s = now
            start_supervisor(self.directory, self._code_dir, self._python)
        view = state.view(self.directory, now)
        begun = os.path.exists(os.path.join(self.directory, layout.IDENT)) or view["exit"] is not None
        if (view["state"] == LAUNCHING or not begun) and now - self._asked_s < DEADLINE_S:
            return None
        reply = {name: view[name] for name in ("attempt", "state", "why", "pid", "exit", "holder")}
        return dict(reply, existing=self.existing, log_tail=log_tail(self.directory))


def check(data_dir: str, request: Dict[str, Any]) -> str:
    """The directory that the attempt of a request has, or would get. Raises RequestError as ``claim`` does, and claims nothing."""
    stage, attempt = _check_names(request)
    run_directory = layout.run_dir(os.path.abspath(data_dir), request["run"])
    directory = layout.attempt_dir(run_directory, stage, attempt)
    if stage in ACTIONS:
        return directory
    asked.existing_run(os.path.abspath(data_dir), request["run"], "send its settings first")
    settings_store.settle(run_directory)
    if read_json(os.path.join(run_directory, settings_store.RESOLVED)) is None:
        raise RequestError(MISSING, f"run {request['run']!r} has no readable settings.json", "send its settings again")
    check_arguments(request.get("args") or [], request.get("env") or {})
    if not os.path.isdir(directory):
        find_interpreter(request.get("interpreter"))
    return directory


def claim(data_dir: str, request: Dict[str, Any], code_dir: str, gpus: Optional[Dict[str, Any]] = None) -> Tuple[str, bool]:
    """Check a launch request and claim its attempt directory; returns it, and whether it had been claimed before.

    Raises RequestError: ``usage`` for a bad request or the same id with other contents, ``missing`` without run or settings,
    ``failed`` when the disk refuses.
    """
    directory = check(data_dir, request)
    stage, attempt = str(request["stage"]), str(request["attempt"])
    if stage in ACTIONS:
        return actions.claim(os.path.abspath(data_dir), request, code_dir)
    run_directory = os.path.dirname(os.path.dirname(os.path.dirname(directory)))
    args, env = request.get("args") or [], request.get("env") or {}
    wanted = {"interpreter": request.get("interpreter"), "args": args, "env": env}
    existing = os.path.isdir(directory)
    if not existing:
        path = find_interpreter(request.get("interpreter"))
        visible_gpus.check(run_directory, stage, env, (gpus or {}).get("wanted") or [])
        given: Dict[str, Any] = dict(wanted, interpreter=path, env=visible_gpus.environment(env, gpus))
        given.update(code=os.path.basename(code_dir), code_dir=os.path.abspath(code_dir))
        if gpus is not None:
            given["gpus"] = gpus
        if request.get("retry_of") is not None:
            given["retry_of"] = request["retry_of"]
        spec = claims.new_spec(run_directory, stage, attempt, asked.by(request), asked=wanted, **given)
        audit.asked(os.path.abspath(data_dir), "launch", request, interpreter=path, args=args)
        try:
            existing = not claims.claim(run_directory, spec)
        except OSError as error:
            raise RequestError(FAILED, f"{directory}: cannot make the attempt: {error.strerror}") from None
    if existing:
        spec = read_json(os.path.join(directory, layout.SPEC)) or {}
        different = [name for name in wanted if (spec.get("asked") or {}).get(name) != wanted[name]]
        if different:
            raise RequestError(USAGE, f"attempt {attempt} exists with other {', '.join(different)}", "a new launch needs a new attempt id")
        if gpus is not None and needs_supervisor(directory):  # it was claimed and never begun: it starts on what was verified now
            try:
                write_json(os.path.join(directory, layout.SPEC), dict(spec, gpus=gpus, env=visible_gpus.environment(env, gpus)))
            except OSError as error:
                raise RequestError(FAILED, f"{directory}: cannot write the evidence: {error.strerror}") from None
    return directory, existing


def needs_supervisor(directory: str) -> bool:
    """Whether nothing has come of a claimed attempt yet and nobody is at it."""
    if any(os.path.exists(os.path.join(directory, name)) for name in (layout.IDENT, layout.EXIT)):
        return False
    return not any(locks.is_held(os.path.join(directory, name)) for name in (layout.LOCK, layout.SUPERVISOR_LOCK))


def start_supervisor(directory: str, code_dir: str, python: str = sys.executable, adopt: bool = False) -> None:
    """Start a supervisor that outlives this process. Returns at once; a superfluous one goes away by itself."""
    arguments = ["supervise", directory] + (["--adopt"] if adopt else [])
    spawn.start(python, code_dir, arguments, directory, orphan=True)


def log_tail(directory: str) -> str:
    """The last 4 KiB of the job's output, from the start of a line."""
    try:
        with open(os.path.join(directory, layout.LOG), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            data = file.read(_TAIL_BYTES)
    except OSError:
        return ""
    if size > _TAIL_BYTES and b"\n" in data:
        data = data[data.index(b"\n") + 1 :]
    return data.decode("utf-8", "replace")


def _check_names(request: Dict[str, Any]) -> Tuple[str, str]:
    stage, attempt = request.get("stage"), request.get("attempt")
    try:
        layout.check_name(request.get("run"), "run name")  # type: ignore[arg-type]
        for name in (attempt, request.get("retry_of", attempt)):
            layout.check_name(name, "attempt id")  # type: ignore[arg-type]
    except ValueError as error:
        raise RequestError(USAGE, str(error)) from None
    if attempt == layout.LOCK:
        raise RequestError(USAGE, f"attempt id {attempt!r} is reserved")
    if stage not in JOBS:
        raise RequestError(USAGE, f"no stage {stage!r}; the stages are {', '.join(STAGES)}")
    if stage in STAGES and not STAGES[stage].built:
        raise RequestError(USAGE, f"stage {stage} is catalogued, but this version cannot run it yet")
    return str(stage), str(attempt)
