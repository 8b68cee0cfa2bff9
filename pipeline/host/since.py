"""The operation ``since``: what happened on this host while nobody looked, out of the records that the host kept anyway."""

import os
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from pipeline.contract import events, layout
from pipeline.contract.clock import wall_to_boot_s
from pipeline.contract.stages import JOBS
from pipeline.contract.telemetry import LIVE_STATES, REFUSED, number
from pipeline.host import asked, audit, procs, since_words, state
from pipeline.host.errors import USAGE, RequestError

MOST_LINES = 200
_MOST_ATTEMPTS = 300
_AUDIT_LINES = 200


def ask(data_dir: str, request: Dict[str, Any]) -> Dict[str, Any]:
    """{"lines": [{wall_s, boot_s, what, word, detail, stage, attempt, severity}, oldest first], "now_wall_s", "older"} of a run and of the
    host's own actions since ``wall_s`` of the host's clock. ``boot_s`` is null of another boot. Raises RequestError.
    """
    run, wall_s = request.get("run"), number(request.get("wall_s"))
    if wall_s is None:
        raise RequestError(USAGE, "wall_s %r: give the host's wall clock, in seconds" % (request.get("wall_s"),))
    if run is not None:
        asked.run_dir(data_dir, run)
    found: List[Dict[str, Any]] = []
    directories = _attempts(data_dir, [one for one in (run, layout.HOST_RUN) if one is not None], wall_s)
    for directory, stage in directories[:_MOST_ATTEMPTS]:
        found += _of_attempt(directory, stage, wall_s)
    found += _of_audit(data_dir, run, wall_s)
    found.sort(key=lambda line: line["wall_s"])
    older = len(found) > MOST_LINES or len(directories) > _MOST_ATTEMPTS
    return {"lines": found[-MOST_LINES:], "now_wall_s": round(time.time(), 3), "older": older}


def _attempts(data_dir: str, runs: List[str], wall_s: float) -> List[Tuple[str, str]]:
    """(directory, stage) of the attempts that wrote an event since then, newest first."""
    found = []
    for run in runs:
        directory = layout.run_dir(data_dir, run)
        for stage in JOBS:
            for name in layout.attempts(directory, stage):
                path = layout.attempt_dir(directory, stage, name)
                try:
                    written = os.stat(os.path.join(path, layout.EVENTS)).st_mtime
                except OSError:
                    continue
                if written >= wall_s:
                    found.append((written, path, stage))
    return [(path, stage) for _, path, stage in sorted(found, reverse=True)]


def _of_attempt(directory: str, stage: str, wall_s: float) -> Iterator[Dict[str, Any]]:
    view = state.view(directory)
    ended = False
    newest = wall_s
    for event in events.read_events(os.path.join(directory, layout.EVENTS))[0]:
        when = number(event.get("wall_s"))
        kind = event.get("kind")
        last = kind == events.ENDED or (kind == events.REFUSED and view["state"] == REFUSED)
        ended = ended or last
        if when is None or when < wall_s:
            continue
        newest = max(newest, when)
        told = None if last else since_words.event(event, stage, view)
        if last and kind == events.ENDED and view["state"] not in LIVE_STATES:
            told = since_words.end(stage, view)
        if told is not None:
            yield _line(told, when, event, stage, view["attempt"])
    if not ended and view["state"] not in LIVE_STATES:  # nobody saw its end: it is told at the time of its last word
        yield _line(since_words.end(stage, view), newest, {}, stage, view["attempt"])


def _of_audit(data_dir: str, run: Optional[str], wall_s: float) -> Iterator[Dict[str, Any]]:
    try:
        lines = audit.newest(data_dir, _AUDIT_LINES)["lines"]
    except OSError:
        return
    for line in lines:
        when = number(line.get("wall_s"))
        told = since_words.audit(line)
        if told is not None and when is not None and when >= wall_s and line.get("run") in (run, None, layout.HOST_RUN):
            yield _line(told, when, line, str(line.get("stage") or ""), str(line.get("attempt") or ""))


def _line(told: since_words.Told, when: float, source: Dict[str, Any], stage: str, attempt: str) -> Dict[str, Any]:
    here = source.get("boot_id") == procs.this_boot()
    boot_s = number(source.get("boot_s")) if here else None if source else round(wall_to_boot_s(when), 3)
    return dict(told._asdict(), wall_s=when, boot_s=boot_s, stage=stage, attempt=attempt)
