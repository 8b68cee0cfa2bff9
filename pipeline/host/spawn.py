"""Starts supervisor and shim: own session, no inherited descriptors, nothing of another attempt in the environment."""

import os
import sys
from typing import Dict, List

from pipeline.contract import layout
from pipeline.host import procs

ENV_DIRECTORY = "EAGLEWATCH_ATTEMPT_DIR"
"""Tells a stage which attempt it is."""
ENV_STAGE_LOCK = "EAGLEWATCH_STAGE_LOCK_FD"
"""Tells a stage which descriptor holds the stage lock."""

ENV_REHEARSAL = "EAGLEWATCH_REHEARSAL"
"""Set for everything on a rehearsal host; the same as ``contract.rehearsal.ENV_HOME``, whose module costs 3 MiB to load."""


def code_root() -> str:
    """The directory that this code runs from: an unpacked bundle, or a checkout."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def clean_environment() -> Dict[str, str]:
    """This process's environment without what ties a process to an attempt."""
    ours = (ENV_DIRECTORY, ENV_STAGE_LOCK, procs.COOKIE)
    return {name: value for name, value in os.environ.items() if name not in ours}


def start(python: str, code_dir: str, arguments: List[str], attempt_dir: str, orphan: bool) -> int:
    """Start ``python code_dir ARGUMENTS``, what it prints going to the attempt's host.log; returns at once.

    ``orphan`` forks twice: the program then belongs to init or a subreaper, leaves no zombie here, and 0 is returned.
    Otherwise it is a child and its pid is returned. An exec that fails is told in host.log.
    """
    environment = clean_environment()
    command = [python, "-s", "-S", code_dir, *arguments]
    pid = os.fork()
    if pid:
        if not orphan:
            return pid
        os.waitpid(pid, 0)
        return 0
    try:
        os.setsid()
        if orphan and os.fork():
            os._exit(0)
        _redirect(os.path.join(attempt_dir, layout.HOST_LOG))
        os.chdir("/")
        os.execve(python, command, environment)
    except BaseException as error:
        os.write(2, f"cannot start {' '.join(command)}: {error}\n".encode("utf-8", "replace"))
    os._exit(127)


def _redirect(log: str) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    try:
        out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError:
        out = null  # a full disk: what it would say is lost, what it does is not
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.stdout = sys.stderr = None  # type: ignore[assignment]  # buffers of the parent: never flushed from here
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                continue  # the listing's own
