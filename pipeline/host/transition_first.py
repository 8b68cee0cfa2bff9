"""The first unit of a stage that has just been launched: whether it is there, and whole."""

import json
import os
import re
from typing import Any, Dict, List, Optional, Tuple

from pipeline.contract import events, layout, lineage, transition
from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json
from pipeline.contract.stages import STAGES
from pipeline.contract.telemetry import DONE, LIVE_STATES, number
from pipeline.host import procs, settings_store, state

_MAX_HEADER_BYTES = 1 << 24
_TAIL_BYTES = 1 << 16
_LEDGER = re.compile(r"ledger-[0-9]+\.jsonl\Z")


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
    problem, name = _first_file(run_directory, attempt_directory)
    if name is None:
        return transition.OPEN, "%s told, no file seen yet" % line
    return (transition.NOT_PROVEN, problem) if problem else (transition.PROVEN, "%s; %s is whole" % (line, name))


def _first_file(run_directory: str, attempt_directory: str) -> Tuple[str, Optional[str]]:
    """(what is wrong with it, or "", name) of the file that this attempt published last, by its ledger; the name is None without any.

    Files that an earlier attempt made are no word of this one, whatever time they bear.
    """
    resolved = read_json(os.path.join(run_directory, settings_store.RESOLVED)) or {}
    output = lineage.output_directory(run_directory, "extract", resolved) or ""
    ident = read_json(os.path.join(attempt_directory, layout.IDENT)) or {}
    began_s = number(ident.get("boot_s")) if ident.get("boot_id") == procs.this_boot() else None
    name = None
    try:
        ours = [] if began_s is None else [one for one in _published(output) if began_s <= one[0] <= boot_s()]
        if not ours:
            return "", None
        _, index, size = max(ours)
        name = "hs_%d.safetensors" % index
        path = os.path.join(output, name)
        there = os.path.getsize(path)
        told = "" if there == size else "%s has %d bytes, its ledger says %d" % (path, there, size)
        return _damage(path) or told, name
    except OSError as error:
        return "%s cannot be read: %s" % (error.filename, error.strerror), name or ""


def _published(output: str) -> List[Tuple[float, int, int]]:
    """(boot_s, index, bytes) of the last whole line of each ledger in the output directory (``pipeline.ledger``). Raises OSError."""
    found = []
    for file_name in os.listdir(output) if os.path.isdir(output) else []:
        if not _LEDGER.match(file_name):
            continue
        with open(os.path.join(output, file_name), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read(_TAIL_BYTES).split(b"\n")[:-1]
        for line in reversed(lines):
            try:
                value = json.loads(line.decode())
                when, index, length = number(value["boot_s"]), value["i"], value["bytes"]
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
            if when is not None and type(index) is int and type(length) is int:
                found.append((float(when), index, length))
                break
    return found


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
