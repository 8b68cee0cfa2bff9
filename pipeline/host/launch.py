"""Launching: idempotent by attempt id, and answered only once something is known of the job."""

import os
import re
import sys
from typing import Any, Dict, Optional, Tuple

from pipeline.contract import layout
from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json
from pipeline.contract.stages import ACTIONS, JOBS, STAGES
from pipeline.contract.telemetry import LAUNCHING
from pipeline.host import actions, asked, claims, locks, procs, settings_store, spawn, state
from pipeline.host.errors import FAILED, MISSING, USAGE, RequestError

DEADLINE_S = 15.0
"""A launch is answered by then with what is known."""
_RETRY_S = 3.0
"""A supervisor that has not taken its lock by then is taken for dead; a second one that it outlives goes away by itself."""
_TAIL_BYTES = 4096
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_OURS = ("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONFAULTHANDLER", spawn.ENV_DIRECTORY, spawn.ENV_STAGE_LOCK, procs.COOKIE)


class Launch:
    """A launch request under way. Making it claims the attempt; ``poll`` until it answers. Nothing here blocks.

    Raises RequestError when the request cannot be carried out.
    """

    def __init__(self, data_dir: str, request: Dict[str, Any], code_dir: str, python: str = sys.executable):
        self.directory, self.existing = claim(data_dir, request, code_dir)
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


def claim(data_dir: str, request: Dict[str, Any], code_dir: str) -> Tuple[str, bool]:
    """Check a launch request and claim its attempt directory; returns it, and whether it had been claimed before.

    Raises RequestError: ``usage`` for a bad request or the same id with other contents, ``missing`` without run or settings,
    ``failed`` when the disk refuses.
    """
    stage, attempt = _check_names(request)
    if stage in ACTIONS:
        return actions.claim(os.path.abspath(data_dir), request, code_dir)
    run_directory = asked.existing_run(os.path.abspath(data_dir), request["run"], "send its settings first")
    settings_store.settle(run_directory)
    if read_json(os.path.join(run_directory, settings_store.RESOLVED)) is None:
        raise RequestError(MISSING, f"run {request['run']!r} has no readable settings.json", "send its settings again")
    args, env = request.get("args") or [], request.get("env") or {}
    _check_arguments(args, env)
    wanted = {"interpreter": request.get("interpreter"), "args": args, "env": env}
    directory = layout.attempt_dir(run_directory, stage, attempt)
    existing = os.path.isdir(directory)
    if not existing:
        path = find_interpreter(request.get("interpreter"))
        code = {"code": os.path.basename(code_dir), "code_dir": os.path.abspath(code_dir)}
        spec = claims.new_spec(run_directory, stage, attempt, asked.by(request), asked=wanted, **dict(wanted, interpreter=path), **code)
        try:
            existing = not claims.claim(run_directory, spec)
        except OSError as error:
            raise RequestError(FAILED, f"{directory}: cannot make the attempt: {error.strerror}") from None
    if existing:
        spec = read_json(os.path.join(directory, layout.SPEC)) or {}
        different = [name for name in wanted if (spec.get("asked") or {}).get(name) != wanted[name]]
        if different:
            raise RequestError(USAGE, f"attempt {attempt} exists with other {', '.join(different)}", "a new launch needs a new attempt id")
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


def find_interpreter(asked: Any) -> str:
    """The absolute path of an interpreter given as a path, ``~/path`` or a name on PATH. Raises RequestError when there is none."""
    if not isinstance(asked, str) or not asked or "\0" in asked:
        raise RequestError(USAGE, f"interpreter {asked!r}: name the Python of the stage", "see `interpreters` of this host")
    path = os.path.expanduser(asked)
    if os.sep not in path:
        for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
            if folder and os.access(os.path.join(folder, path), os.X_OK):
                return os.path.abspath(os.path.join(folder, path))
        raise RequestError(USAGE, f"interpreter {asked}: not found on the host's PATH", "give its absolute path")
    if not os.path.isabs(path):
        raise RequestError(USAGE, f"interpreter {asked}: a relative path", "give its absolute path")
    if not os.path.exists(path):
        raise RequestError(USAGE, f"interpreter {asked}: no such file on the host")
    if os.path.isdir(path) or not os.access(path, os.X_OK):
        raise RequestError(USAGE, f"interpreter {asked}: not an executable file")
    return path


def _check_names(request: Dict[str, Any]) -> Tuple[str, str]:
    stage, attempt = request.get("stage"), request.get("attempt")
    try:
        layout.check_name(request.get("run"), "run name")  # type: ignore[arg-type]
        layout.check_name(attempt, "attempt id")  # type: ignore[arg-type]
    except ValueError as error:
        raise RequestError(USAGE, str(error)) from None
    if attempt == layout.LOCK:
        raise RequestError(USAGE, f"attempt id {attempt!r} is reserved")
    if stage not in JOBS:
        raise RequestError(USAGE, f"no stage {stage!r}; the stages are {', '.join(STAGES)}")
    if stage in STAGES and not STAGES[stage].built:
        raise RequestError(USAGE, f"stage {stage} is catalogued, but this version cannot run it yet")
    return str(stage), str(attempt)


def _check_arguments(args: Any, env: Any) -> None:
    if not isinstance(args, list) or not all(isinstance(one, str) and "\0" not in one for one in args):
        raise RequestError(USAGE, "args must be a list of strings without NUL")
    if not isinstance(env, dict):
        raise RequestError(USAGE, "env must be an object of names and strings")
    for name, value in env.items():
        if not _ENV_NAME.match(name) or not isinstance(value, str) or "\0" in value:
            raise RequestError(USAGE, f"env {name!r}: a name of letters, digits and '_', and a string without NUL")
        if name in _OURS:
            raise RequestError(USAGE, f"env {name}: set by the launch itself")
