"""The fault that the server inflicts: the link drops. The others are the stage's own (``pipeline.rehearsal.faults``)."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pipeline.contract import layout, rehearsal
from pipeline.contract.files import read_json

LOOK_S = 0.5
log = logging.getLogger("rehearsal")


class DropLink:
    """Calls ``drop(seconds)`` once the newest attempt of the armed fault's stage has done the armed share of its work."""

    def __init__(self, home: str, drop: Callable[[float], None]):
        self._home = home
        self._drop = drop

    async def watch(self) -> None:
        """Look for the armed fault until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            with suppress(OSError):
                self.look()

    def look(self) -> None:
        fault = rehearsal.pending_fault(self._home)
        if fault is None or fault.name != "drop-link" or newest_share(self._home, fault.stage) < fault.at_share:
            return
        if rehearsal.fire_fault(self._home, fault.name):
            log.info("fault drop-link: no connections for %.1f s", fault.seconds)
            self._drop(fault.seconds)


def newest_share(home: str, stage: str) -> float:
    """Share of the work that a stage's newest attempt in any run has done; 0 when none is under way."""
    files = list(Path(rehearsal.data_dir(home)).glob(f"runs/*/stages/{stage}/*/progress/0.json"))
    times = {}
    for file in files:
        with suppress(OSError):
            if not (file.parents[1] / layout.EXIT).exists():
                times[file] = file.stat().st_mtime_ns
    if not times:
        return 0.0
    return rehearsal.work_done(stage, read_json(str(max(times, key=lambda file: times[file]))))
