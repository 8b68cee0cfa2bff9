"""Events of an attempt: one JSON object a line, appended with a single write, never rewritten.

Every event has ``boot_s`` (for durations), ``wall_s`` (for people), ``by`` (``stage``, ``shim``, ``supervisor``, ``lookout``,
``agent``) and ``kind``. A reader orders by position in the file and drops a torn last line.
"""

import json
import os
import time
from typing import Any, Dict, List, Tuple

from pipeline.contract.clock import boot_id, boot_s
from pipeline.contract.files import append_line, loads

MAX_LINE_BYTES = 1 << 17
"""A longer line is no event: frames carry the last ones whole."""

LAUNCHED = "launched"
"""The job has exec'd. Fields: pid."""
ALIVE = "alive"
"""The job was alive two seconds after exec."""
SECOND_LOOK = "second_look"
"""State 30 s after exec. Fields: alive, procs."""
FIRST_UNIT = "first_unit"
"""The first unit of work is finished. Fields: unit, seconds."""
PHASE = "phase"
"""The stage entered a phase. Fields: phase, seconds (in the phase before)."""
REFUSED = "refused"
"""Not started: somebody holds the stage or the output. Fields: holder."""
STOP_ASKED = "stop_asked"
TERM_SENT = "term_sent"
KILL_SENT = "kill_sent"
"""Fields: pids."""
SURVIVORS = "survivors"
"""Processes of the attempt that outlived its main process and were ended. Fields: pids."""
LEFT_ALONE = "left_alone"
"""Processes of another user that carry the attempt's cookie and do not hang from it: not signalled. Fields: pids."""
INTERRUPTED = "interrupted"
"""The stage itself got a signal and stopped cleanly. Fields: signal."""
ERROR = "error"
"""The stage's own error. Fields: message, exit_code."""
ADOPTED = "adopted"
ENDED = "ended"
"""Fields: code, signal."""
VERIFIED = "verified"
"""A check of output ended. Fields: files, bad."""
SERVER_STARTED = "server_started"
"""Of a service: its child process. Fields: pid."""
SERVICE_UP = "up"
"""It answers: the first time, or again. Fields: url, model, load_s (null: again)."""
SERVICE_DOWN = "down"
"""It was asked and does not answer. Fields: message."""
SERVER_ENDED = "server_ended"
"""By itself, nobody stopped it. Fields: how, last_lines, left (pids of its processes that live on)."""
STEP = "step"
"""Of an action: a step begins, written before it acts (``begins`` true), or has ended (false, with its ``result``). Fields: step."""
VERDICT = "verdict"
"""Of an action that frees GPUs. Fields: verdict, exit_code, line, gpus ([index, verdict, detail])."""
OVERRIDE = "override"
"""Input that is outdated, incomplete or of another verifier is used all the same. Fields: reason, what (a line each)."""

STALL = "stall"
"""The lookout's judgement changed its level. Fields: level, severity, line, before (the level before)."""
ALARM = "alarm"
"""The log told trouble: the first of a kind, and again as their number doubles. Fields: alarm (the kind), line, worker, count."""
ALERT = "alert"
"""The operator was told, or was not. Fields: what, how (``command NAME``, ``webhook scheme://host/...``), ok, detail."""
RETRY = "retry"
"""Of a crashed attempt: it was started again. Fields: attempt (the new one), line; or why_not."""
DUMP = "dump"
"""Stacks of its processes were written down. Fields: how, path."""


def append_event(attempt_directory: str, by: str, kind: str, **fields: Any) -> Dict[str, Any]:
    """Append one event and return it. Raises OSError when the disk refuses it."""
    event = dict(fields, by=by, kind=kind, boot_s=round(boot_s(), 3), wall_s=round(time.time(), 3), boot_id=boot_id())
    line = json.dumps(event, separators=(",", ":"), sort_keys=True).encode()
    append_line(os.path.join(attempt_directory, "events.jsonl"), line)
    return event


def read_events(path: str, offset: int = 0, max_bytes: int = 4 << 20) -> Tuple[List[Dict[str, Any]], int]:
    """Events from a byte offset, and the offset after the last whole line. Lines that are no JSON object, or too long, are left out."""
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read(max_bytes)
    except OSError:
        return [], offset
    end = data.rfind(b"\n") + 1
    events = []
    for line in data[:end].splitlines():
        try:
            event = loads(line.decode("utf-8", "replace")) if len(line) <= MAX_LINE_BYTES else None
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            events.append(event)
    return events, offset + end
