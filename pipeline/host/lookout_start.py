"""Starting the lookout of an attempt so that it is nobody's child: what hangs from a supervisor is taken for a part of the attempt."""

import os
import sys
from typing import Any, Dict

from pipeline.contract import layout, transition
from pipeline.contract.stages import ACTIONS
from pipeline.host import host_log, locks, procs, spawn

AGAIN_S = 60.0
"""One that died is started again, at most that often."""


def start(directory: str, spec: Dict[str, Any], subreaper: bool = False) -> None:
    """Start it unless it is there, or the attempt is of a kind that has none. ``subreaper``: this process is one, and must not be for the
    moment in which the lookout is orphaned.
    """
    if spec.get("stage") in ACTIONS and spec.get("stage") != transition.ACTION:
        return
    if locks.is_held(os.path.join(directory, layout.LOOKOUT_LOCK)) or (subreaper and not procs.become_subreaper(False)):
        return
    try:  # a host without room for another process goes on without a lookout
        spawn.start(sys.executable, spawn.code_root(), ["lookout", directory], directory, orphan=True)
    except OSError as error:
        host_log.say("no lookout: %s" % error.strerror)
    finally:
        if subreaper:
            procs.become_subreaper()
