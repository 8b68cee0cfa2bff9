"""How many lines each part of the dashboard gets: a pure function of the terminal's size, from 20x5 up."""

from typing import NamedTuple

TALL = 30
"""From here on there is room for what is good to know but not needed."""
_LOG_AT_LEAST = 4
_GPU_ROWS_AT_LEAST = 3
"""With fewer rows one line about all GPUs tells more."""


class Plan(NamedTuple):
    """Heights in lines; 0 hides the part. The header always has its line, and the log gets what is left."""

    banner: int
    strip: int
    gpus: int
    progress: int
    evidence: int
    verified: int
    log_title: int
    log: int
    footer: int


def plan(height: int, banner: int, gpus: int) -> Plan:
    """``banner``: lines that say why the numbers are old. ``gpus``: how many GPUs there are to show."""
    left = max(height - 1, 0)
    given: dict[str, int] = {}

    def give(name: str, wanted: int) -> None:
        nonlocal left
        lines = min(wanted, left)
        given[name] = given.get(name, 0) + lines
        left -= lines

    # In the order of need: on a small terminal the later ones get nothing.
    give("progress", 1)
    give("banner", min(banner, max(height // 4, 1)))
    give("footer", 1)
    give("strip", 1)
    give("gpus", 1)
    give("evidence", 1)
    give("progress", 2)
    give("verified", 1)
    for_log = 0 if left < 3 else min(1 + _LOG_AT_LEAST, left)
    left -= for_log
    if left >= min(gpus, _GPU_ROWS_AT_LEAST):
        give("gpus", gpus)
    if height >= TALL:
        give("progress", 2)
    left += for_log
    give("log_title", 1 if left > 1 else 0)
    return Plan(log=left, **{name: given.get(name, 0) for name in _NAMES})


_NAMES = ("banner", "strip", "gpus", "progress", "evidence", "verified", "log_title", "footer")
