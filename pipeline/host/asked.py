"""What requests name, checked: a run, and who asks."""

import os
from typing import Any, Dict

from pipeline.contract import layout
from pipeline.host.errors import MISSING, USAGE, RequestError

_MAX_CHARS = 200


def run_dir(data_dir: str, run: Any) -> str:
    """The directory of a run, whether it is there or not. Raises RequestError (``usage``) for what no run can be called."""
    try:
        return layout.run_dir(data_dir, run)
    except ValueError as error:
        raise RequestError(USAGE, str(error)) from None


def existing_run(data_dir: str, run: Any, hint: str = "") -> str:
    """The same of one that is there. Raises RequestError, ``missing`` with the ``hint`` for one that is not."""
    directory = run_dir(data_dir, run)
    if not os.path.isdir(directory):
        raise RequestError(MISSING, f"no run {run!r} in {data_dir}", hint)
    return directory


def by(request: Dict[str, Any]) -> str:
    """Who asks, as it is recorded."""
    value = request.get("by")
    return value[:_MAX_CHARS] if isinstance(value, str) and value else "unknown"
