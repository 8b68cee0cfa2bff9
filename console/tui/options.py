"""What the command line asked for, and where times come from."""

import time
from collections.abc import Callable
from typing import NamedTuple

from pipeline.contract.clock import boot_s

REHEARSAL = "rehearsal"
"""``config.REHEARSAL``, without waiting for what config needs; also the name of its run."""
EXTRACT_ONLY = "extract-only"
"""The rehearsal's run with prepared data: ``headless.rehearse_extract.RUN``."""
CHAIN = "all"


class Options(NamedTuple):
    """``rehearse`` and ``console``, read."""

    host: str
    run: str | None = None
    read_only: bool = False
    fresh: bool = False
    fault: str | None = None
    start: str | None = None
    """What to start at once, unless it runs or is done: a stage, or ``CHAIN``. What ``rehearse`` means."""
    limit: int | None = None
    """Of prompts; of samples where only the extraction is started."""
    usual_run: str = ""
    """Where none is named: the one that is opened unless another has news."""


def local_offset_s(wall_s: float) -> float:
    return float(time.localtime(wall_s).tm_gmtoff)


class Clocks(NamedTuple):
    """Of this machine."""

    boot_s: Callable[[], float] = boot_s
    """Counts suspend."""
    steady_s: Callable[[], float] = time.monotonic
    """Does not."""
    wall_s: Callable[[], float] = time.time
    offset_s: Callable[[float], float] = local_offset_s
