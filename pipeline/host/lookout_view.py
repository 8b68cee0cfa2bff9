"""What views of an attempt tell of its ranks and of its lookout. Shapes: ``telemetry.ATTEMPT`` and ``telemetry.LOOKOUT``."""

import os
from typing import Any, Dict, List, Optional

from pipeline.contract import layout, telemetry
from pipeline.contract.clock import wall_to_boot_s
from pipeline.host import filecache

RESOLVED = "settings.json"
MAX_RANKS = 64
_MULTIPLIERS = {
    "--pipeline-parallel-size": "pipeline",
    "-pp": "pipeline",
    "--data-parallel-size": "data",
    "-dp": "data",
}
"""vLLM's options that multiply the number of workers, beside ``serve.tensor_parallel``."""
_OWN = ("boot_id", "version", "told")
"""Of lookout.json: for the lookout itself."""


def lookout(directory: str, shift: float) -> Optional[Dict[str, Any]]:
    """What the lookout wrote last, its times moved by ``shift`` onto this boot's clock; None when there is none."""
    value = filecache.read_json(os.path.join(directory, layout.LOOKOUT))
    if value is None:
        return None
    return {name: _moved(one, name, shift) for name, one in value.items() if name not in _OWN}


def rank_progress(directory: str, shift: float) -> List[Dict[str, Any]]:
    """Of each ``progress/RANK.json`` that can be read, by rank, ``MAX_RANKS`` at most."""
    found = []
    for rank in ranks(directory)[:MAX_RANKS]:
        value = filecache.read_json(layout.progress_file(directory, rank)) or {}
        times = {name: _moved(telemetry.number(value.get(name)), name, shift) for name in ("last_boot_s", "beat_boot_s")}
        phase = value.get("phase")
        told = {"rank": rank, "phase": phase[:40] if isinstance(phase, str) else None, "done": telemetry.number(value.get("done"))}
        found.append(dict(told, **times))
    return found


def ranks(directory: str) -> List[int]:
    """Ranks that have reported, in order."""
    try:
        names = os.listdir(os.path.join(directory, layout.PROGRESS))
    except OSError:
        return []
    stems = [name[:-5] for name in names if name.endswith(".json")]
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit() and len(stem) <= 6)


def log(directory: str) -> Dict[str, Any]:
    """{bytes, last_boot_s} of an attempt's log; None where there is none."""
    try:
        status = os.stat(os.path.join(directory, layout.LOG))
    except OSError:
        return {"bytes": None, "last_boot_s": None}
    return {"bytes": status.st_size, "last_boot_s": round(wall_to_boot_s(status.st_mtime), 3)}


def resolved(directory: str) -> Dict[str, Any]:
    """The settings of the run that an attempt is of; {} without any."""
    run = os.path.dirname(os.path.dirname(os.path.dirname(directory)))
    return filecache.read_json(os.path.join(run, RESOLVED)) or {}


def ranks_expected(settings: Dict[str, Any], stage: str) -> Optional[int]:
    """How many ranks a stage's settings ask for; None where they do not say."""
    section = settings.get(stage)
    if stage != "serve" or not isinstance(section, dict) or section.get("program"):
        return None  # another program than vLLM's may have as many as it likes
    count = section.get("tensor_parallel", 1)
    words = section.get("extra_args")
    sizes = {"tensor": count, **_multipliers(words if isinstance(words, list) else [])}
    product = 1
    for size in sizes.values():
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 4096:
            return None
        product *= size
    return product


def scale(settings: Dict[str, Any]) -> float:
    """``watch.stall_scale`` of a run's settings; 1 where they do not say."""
    watch = settings.get("watch")
    value = telemetry.number(watch.get("stall_scale")) if isinstance(watch, dict) else None
    return value if value is not None and 0.001 <= value <= 100 else 1.0


def _multipliers(words: List[Any]) -> Dict[str, Optional[int]]:
    found: Dict[str, Optional[int]] = {}
    for at, word in enumerate(words):
        name, equals, value = str(word).partition("=")
        name = name.replace("_", "-")
        if name in _MULTIPLIERS:
            text = value if equals else str(words[at + 1]) if at + 1 < len(words) else ""
            found[_MULTIPLIERS[name]] = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None
    return found


def _moved(value: Any, name: str, shift: float) -> Any:
    if not shift:
        return value
    if isinstance(value, dict):
        return {key: _moved(one, key, shift) for key, one in value.items()}
    if isinstance(value, list):
        return [_moved(one, "", shift) for one in value]
    if name.endswith("boot_s"):
        number = telemetry.number(value)
        return None if number is None else telemetry.number(round(number + shift, 3))
    return value
