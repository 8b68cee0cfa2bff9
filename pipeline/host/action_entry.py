"""How an action of the host begins, as the shim starts it: the attempt from the environment, its order checked, a stop heeded."""

import os
import signal
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from pipeline.contract import events, layout
from pipeline.contract.files import read_json
from pipeline.errors import EXIT_USAGE
from pipeline.host import spawn, stop
from pipeline.host.errors import RequestError


class Entry(NamedTuple):
    """One start of an action."""

    directory: str
    """Of its attempt."""
    data_dir: str
    spec: Dict[str, Any]
    by: str
    order: Dict[str, Any]
    """Checked."""
    cancelled: Callable[[], bool]
    """Whether a stop was asked for: by a signal, or on record while its supervisor cannot send one."""


def enter(action: str, check_order: Callable[[Any], Dict[str, Any]]) -> Optional[Entry]:
    """None, with the reason told, where it cannot begin by the user's mistake (exit code 2). ``check_order`` raises RequestError."""
    directory = os.environ.pop(spawn.ENV_DIRECTORY, None)
    if directory is None:
        print("%s is launched as an attempt: see docs/wire.md" % action, file=sys.stderr)
        return None
    stopped: List[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    spec = read_json(os.path.join(directory, layout.SPEC)) or {}
    data_dir = os.path.dirname(os.path.dirname(str(spec["run_dir"])))
    try:
        order = check_order(read_json(os.path.join(directory, layout.ORDER)))
    except RequestError as error:
        events.append_event(directory, "stage", events.ERROR, message=str(error), exit_code=EXIT_USAGE)
        return None
    return Entry(directory, data_dir, spec, str(spec.get("by")), order, lambda: bool(stopped) or stop.is_asked(directory))
