"""Which commit the code is of. The bundle that a host gets holds no history, so the console that ships it tells the stage."""

import json
import os
import subprocess
from typing import Any, Dict, Optional

from pipeline.contract.files import loads

ENV_GIT = "EAGLEWATCH_GIT"
"""In the environment of a launched stage: ``here`` of the console's checkout, as JSON."""
_GIT_S = 5.0


def here() -> Optional[Dict[str, Any]]:
    """{commit, dirty} of the checkout that this code runs from; None for a bundle or an installed package, or without git.

    ``dirty``: whether the pipeline differs from the commit; None when that could not be asked.
    """
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if not os.path.exists(os.path.join(root, ".git")):
        return None
    commit = _ask(root, "rev-parse", "HEAD")
    changed = _ask(root, "status", "--porcelain", "--untracked-files=normal", "--", "pipeline")
    return None if commit is None else {"commit": commit.strip(), "dirty": None if changed is None else bool(changed.strip())}


def to_environment() -> Dict[str, str]:
    """What a launch adds to the stage's environment; empty when the console runs from no checkout."""
    found = here()
    return {} if found is None else {ENV_GIT: json.dumps(found)}


def told() -> Optional[Dict[str, Any]]:
    """What the console that launched this process said of its checkout; None when it said nothing."""
    try:
        value = loads(os.environ.get(ENV_GIT) or "null")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _ask(root: str, *words: str) -> Optional[str]:
    # No lock is taken, and no program of the checkout's own configuration is run: this only looks.
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", root, *words]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_GIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
