"""The first unit of a stage that has just been launched: whether it is there, and whole."""

import json
import os
from typing import Any, Dict, Optional, Tuple

from pipeline.contract import events, lineage, transition
from pipeline.contract.files import read_json
from pipeline.contract.stages import STAGES
from pipeline.contract.telemetry import DONE, LIVE_STATES, number
from pipeline.host import settings_store, state

_MAX_HEADER_BYTES = 1 << 24


def look(run_directory: str, stage: str, attempt_directory: str) -> Tuple[str, str]:
    """(``proven``, ``not proven`` or ``open``, line) of the first unit of an attempt."""
    view = state.view(attempt_directory)
    progress = view["progress"] or {}
    if view["state"] == DONE:
        return transition.PROVEN, "%s is done and verified" % stage
    if view["state"] not in LIVE_STATES:
        return transition.NOT_PROVEN, "%s is %s: %s" % (stage, view["state"], view["why"])
    if STAGES[stage].service:
        up = progress.get("up") is True
        return (transition.PROVEN, "%s answers" % stage) if up else (transition.OPEN, str(progress.get("note") or "it does not answer yet"))
    done, before = number(progress.get("done")) or 0, number(progress.get("resumed_done")) or 0
    first = any(event.get("kind") == events.FIRST_UNIT for event in view["events"])
    if not first and done <= before:
        return transition.OPEN, str(progress.get("note") or progress.get("phase") or "it has not reported yet")
    line = "%d new %s%s" % (done - before, STAGES[stage].unit, "" if done - before == 1 else "s")
    if stage != "extract":
        return transition.PROVEN, line
    problem, name = _newest_file(run_directory)
    if name is None:
        return transition.OPEN, "%s told, no file seen yet" % line
    return (transition.NOT_PROVEN, problem) if problem else (transition.PROVEN, "%s; %s is whole" % (line, name))


def _newest_file(run_directory: str) -> Tuple[str, Optional[str]]:
    """(what is wrong with it, or "", name) of the newest file of hidden states; the name is None without any."""
    resolved = read_json(os.path.join(run_directory, settings_store.RESOLVED)) or {}
    output = lineage.output_directory(run_directory, "extract", resolved)
    newest, when = None, -1.0
    try:
        with os.scandir(output or "") as entries:
            for entry in entries:
                if entry.name.startswith("hs_") and entry.name.endswith(".safetensors") and entry.stat().st_mtime > when:
                    newest, when = entry.name, entry.stat().st_mtime
        return (_damage(os.path.join(output or "", newest)), newest) if newest else ("", None)
    except OSError as error:
        return "%s cannot be read: %s" % (error.filename, error.strerror), newest or ""


def _damage(path: str) -> str:
    """Why a safetensors file is not whole, by its header and size; "" when it is. Format: the safetensors README."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(length) if length <= _MAX_HEADER_BYTES else b""
    try:
        table: Dict[str, Any] = json.loads(header.decode())
        ends = [one["data_offsets"][1] for name, one in table.items() if name != "__metadata__"]
        missing = [name for name in ("hidden_states", "token_ids") if name not in table]
        whole = 8 + length + max(ends)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return "%s has no header that can be read" % path
    if missing:
        return "%s lacks %s" % (path, ", ".join(missing))
    return "" if whole == size else "%s has %d bytes, its header says %d" % (path, size, whole)
