"""What a launch names: an interpreter, arguments and environment, checked without looking further."""

import os
import re
from typing import Any

from pipeline.host import procs, spawn
from pipeline.host.errors import USAGE, RequestError

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_OURS = ("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONFAULTHANDLER", spawn.ENV_DIRECTORY, spawn.ENV_STAGE_LOCK, procs.COOKIE)


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


def check_arguments(args: Any, env: Any) -> None:
    if not isinstance(args, list) or not all(isinstance(one, str) and "\0" not in one for one in args):
        raise RequestError(USAGE, "args must be a list of strings without NUL")
    if not isinstance(env, dict):
        raise RequestError(USAGE, "env must be an object of names and strings")
    for name, value in env.items():
        if not _ENV_NAME.match(name) or not isinstance(value, str) or "\0" in value:
            raise RequestError(USAGE, f"env {name!r}: a name of letters, digits and '_', and a string without NUL")
        if name in _OURS:
            raise RequestError(USAGE, f"env {name}: set by the launch itself")
