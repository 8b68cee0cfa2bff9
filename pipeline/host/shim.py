"""The parent of a job: starts it exactly once, waits, and writes its exit code.

Order (docs/wire.md, "Attempts on the host"): attempt lock, stage lock, fork, ``ident.json`` durable, gate open, exec. Nothing but a process
named by a durable ident.json ever execs, so a retried launch cannot start a second one, and a shim that dies early leaves nothing running.

The shim has a session of its own and the job another: the job's session can be ended as a whole without losing the exit code.
"""

import os
import signal
import sys
import time
from typing import Any, Dict, List, NoReturn

from pipeline.contract import events, layout
from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json, write_json
from pipeline.contract.stages import ACTIONS
from pipeline.host import cgroup, evidence_age, locks, procs, reserved, spawn

_OPEN, _LEAVE = b"o", b"l"
"""What comes through the gate. Nothing at all (end of file) means that the shim died."""
_EXIT_TRIES_S = 60.0
_OOM_SCORE = 300
"""Added to the job's oom_score_adj: under memory pressure the job goes before what watches it."""


def main(arguments: List[str]) -> int:
    """``shim ATTEMPT_DIR``. Exit code 0: this shim's part is done, also when another shim has the attempt."""
    directory = arguments[0]
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    spec = read_json(os.path.join(directory, layout.SPEC))
    if spec is None:
        print(f"{directory}: no readable {layout.SPEC}", file=sys.stderr)
        return 1
    attempt, by = str(spec["attempt"]), str(spec["by"])
    lock = locks.take(os.path.join(directory, layout.LOCK), locks.holder_line(attempt, by))
    if lock is None or any(os.path.exists(os.path.join(directory, name)) for name in (layout.IDENT, layout.EXIT)):
        return 0
    if os.path.exists(os.path.join(directory, layout.STOP)):
        return _finish(directory, {"code": None, "signal": None, "not_started": "it was stopped before it began"})
    try:
        if isinstance(spec.get("gpus"), dict):
            evidence_age.check(spec["gpus"], evidence_age.SPAWN_S)
    except evidence_age.StaleEvidenceError as error:
        return _finish(directory, {"code": None, "signal": None, "not_started": "%s; %s" % (error, error.hint)})
    stage_lock_path = os.path.join(os.path.dirname(directory), layout.LOCK)
    try:
        stage_lock = locks.take(stage_lock_path, locks.holder_line(attempt, by))
    except OSError as error:
        return _finish(directory, {"code": None, "signal": None, "exec_error": f"cannot lock {stage_lock_path}: {error.strerror}"})
    if stage_lock is None:
        holder = locks.read_holder(stage_lock_path)
        _event(directory, events.REFUSED, holder=holder)
        return _finish(directory, {"code": None, "signal": None, "refused": True, "holder": holder})
    return _run(directory, spec, lock, stage_lock)


def _run(directory: str, spec: Dict[str, Any], lock: locks.Lock, stage_lock: locks.Lock) -> int:
    oom_file = cgroup.oom_file()
    oom_before = cgroup.oom_kills(oom_file)
    gate_read, gate_write = os.pipe()
    report_read, report_write = os.pipe()
    os.set_inheritable(stage_lock.fd, True)
    pid = os.fork()
    if pid == 0:
        lock.close()
        os.close(gate_write)
        os.close(report_read)
        _child(directory, spec, stage_lock.fd, gate_read, report_write)
    os.close(gate_read)
    os.close(report_write)
    error = _open_gate(directory, spec, pid, stage_lock, gate_write, oom_before)
    report = b""
    while True:
        part = os.read(report_read, 4096)
        if not part:
            break
        report += part
    os.close(report_read)
    error = error or report.decode("utf-8", "replace")
    if not error:
        _event(directory, events.LAUNCHED, pid=pid)
    _, status = os.waitpid(pid, 0)
    if error:
        return _finish(directory, {"code": None, "signal": None, "exec_error": error[:1000]})
    oom_after = cgroup.oom_kills(oom_file)
    ended = exit_of(status)
    if oom_before is not None and oom_after is not None:
        ended["oom_kills"] = oom_after - oom_before
    return _finish(directory, ended)


def _open_gate(directory: str, spec: Dict[str, Any], pid: int, stage_lock: locks.Lock, gate: int, oom_before: Any) -> str:
    """Write ident.json and let the child exec; returns the reason when it must not."""
    now = {"boot_s": round(boot_s(), 3), "wall_s": round(time.time(), 3)}
    ident = dict(procs.identity(pid), attempt=spec["attempt"], own_session=True, oom_kills_before=oom_before, **now)
    error, letter = "", _OPEN
    try:
        write_json(os.path.join(directory, layout.IDENT), ident)
    except OSError as failed:
        error, letter = f"cannot write {layout.IDENT}: {failed.strerror}", _LEAVE
    else:
        stage_lock.describe(locks.holder_line(str(spec["attempt"]), str(spec["by"]), pid))
    try:
        os.write(gate, letter)
    except BrokenPipeError:
        pass  # the child could not even get ready; its report says why
    os.close(gate)
    return error


def _child(directory: str, spec: Dict[str, Any], lock_fd: int, gate: int, report: int) -> NoReturn:
    """The job before exec. Never returns."""
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        log = os.open(os.path.join(directory, layout.LOG), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(directory)
        _prefer_for_oom()
        command = command_of(spec)
        environment = environment_of(directory, spec, lock_fd)
        letter = os.read(gate, 1)
        if letter == _OPEN:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)  # what is ignored stays ignored across exec
            os.execve(command[0], command, environment)
        elif not letter and procs.alive(read_json(os.path.join(directory, layout.IDENT))):
            # It names this process, so no other shim ever starts this attempt. Without it, any retry may.
            _finish(directory, {"code": None, "signal": None, "exec_error": "the shim died before the job was started"})
    except OSError as error:
        text = f"cannot start {spec.get('interpreter')}: {error.strerror}"
        if error.errno == 2 and os.path.exists(str(spec.get("interpreter"))):
            text += " (the interpreter named in its first line is missing)"
        os.write(report, text.encode("utf-8", "replace"))
    except BaseException as error:
        os.write(report, f"{type(error).__name__}: {error}".encode("utf-8", "replace"))
    os._exit(127)


def command_of(spec: Dict[str, Any]) -> List[str]:
    """The job's argument list. An action is a part of the host program, run by its own Python."""
    if spec["stage"] in ACTIONS:
        return [str(one) for one in (spec["interpreter"], "-u", "-s", "-S", spec["code_dir"], spec["stage"])]
    fixed = [spec["interpreter"], "-u", "-m", "pipeline", spec["stage"], "--run", spec["run_dir"]]
    return [str(one) for one in fixed] + [str(one) for one in spec.get("args") or []]


def environment_of(directory: str, spec: Dict[str, Any], lock_fd: int) -> Dict[str, str]:
    """The job's environment: this one, what the launch adds, and what ties it to its attempt."""
    environment = spawn.clean_environment()
    environment.update({str(name): str(value) for name, value in (spec.get("env") or {}).items()})
    environment.update({"PYTHONPATH": str(spec["code_dir"]), "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"})
    environment.update({spawn.ENV_DIRECTORY: directory, spawn.ENV_STAGE_LOCK: str(lock_fd), procs.COOKIE: str(spec["attempt"])})
    return environment


def exit_of(status: int) -> Dict[str, Any]:
    """{code, signal} of a wait status; one of them is None."""
    if os.WIFSIGNALED(status):
        return {"code": None, "signal": os.WTERMSIG(status)}
    return {"code": os.WEXITSTATUS(status), "signal": None}


def write_exit(directory: str, by: str, value: Dict[str, Any]) -> bool:
    """Tell the event, then publish exit.json: who sees the file finds the event. A disk that is full after all is tried for a minute."""
    value = dict(value, by=by, boot_id=procs.this_boot(), boot_s=round(boot_s(), 3), wall_s=round(time.time(), 3))
    fields = {name: value[name] for name in ("code", "signal", "exec_error", "refused") if name in value}
    _event(directory, events.ENDED, by, **fields)
    deadline = time.monotonic() + _EXIT_TRIES_S
    while True:
        try:
            reserved.publish(directory, layout.EXIT, value)
            return True
        except OSError as error:
            if time.monotonic() > deadline:
                print(f"{directory}: cannot write {layout.EXIT}: {error}; it would say {value}", file=sys.stderr)
                return False
            time.sleep(1.0)


def _finish(directory: str, value: Dict[str, Any]) -> int:
    return 0 if write_exit(directory, "shim", value) else 1


def _event(directory: str, kind: str, by: str = "shim", **fields: Any) -> None:
    try:
        events.append_event(directory, by, kind, **fields)
    except OSError:
        pass  # the files that state is derived from do not depend on it


def _prefer_for_oom() -> None:
    try:
        with open("/proc/self/oom_score_adj", "r+") as file:
            value = min(1000, int(file.read()) + _OOM_SCORE)
            file.seek(0)
            file.write(str(value))
    except (OSError, ValueError):
        pass  # raising it is always allowed; some containers hide the file
