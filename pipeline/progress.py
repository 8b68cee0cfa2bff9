"""How a stage tells what it does: ``progress/RANK.json``, replaced at most four times a second, and a heartbeat inside it.

Fields of the file:

- ``phase`` (loading, steady, verifying, finishing) and ``phase_boot_s``, when it began;
- ``unit``, ``done``, ``total``, ``tokens``, ``total_tokens``, ``bytes``, ``total_bytes``, ``verified``, ``bad``, ``note``;
- ``load_done`` of ``load_total`` weights (serve: shards) loaded; ``verify_total``: files that are to be re-read;
- ``pause``: what it does instead of units for a while (a checkpoint, an evaluation, an upload); empty or absent: nothing;
- ``held_out_total``: how many of ``total`` are held out for the evaluation;
- ``resumed_done``, ``resumed_tokens``, ``resumed_bytes``: finished by earlier attempts, and counted in done, tokens and bytes;
- ``first_boot_s``, ``first_done``, ``first_tokens``: at the first unit of this attempt, where its rates start;
- ``facts``: [[label, text, level], ...], at most ``MAX_FACTS``: what else the stage has counted, in its own words, for a person to read;
  level is ``ok``, ``warn`` or ``bad``;
- ``up``, ``up_boot_s``: of a service: whether it answered when it was asked last, and when it answered last;
- ``last_boot_s``: the newest unit; ``beat_boot_s``: the process could still run Python; ``boot_s``: when this was written.
"""

import os
import threading
from typing import Any, Dict, Optional

from pipeline.contract import layout
from pipeline.contract.clock import boot_s
from pipeline.contract.events import PHASE, append_event
from pipeline.contract.files import write_json

MIN_INTERVAL_S = 0.25
BEAT_S = 2.0
MAX_FACTS = 8
OK, WARN, BAD = "ok", "warn", "bad"
"""Levels of a fact."""


class Progress:
    """Writer of one rank's progress. Thread-safe; a full disk never stops the stage here."""

    def __init__(self, attempt_directory: str, rank: int = 0, unit: Optional[str] = None):
        self._attempt_directory = attempt_directory
        self._path = layout.progress_file(attempt_directory, rank)
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        self._lock = threading.Lock()
        self._written_s = float("-inf")
        self._state: Dict[str, Any] = {"unit": unit, "done": 0, "total": None, "phase": None}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="progress-beat", daemon=True)
        self._thread.start()

    def phase(self, name: str, **fields: Any) -> None:
        """Enter a phase; an event tells how long the one before took."""
        now = boot_s()
        with self._lock:
            before, since = self._state.get("phase"), self._state.get("phase_boot_s", now)
            self._state.update(fields, phase=name, phase_boot_s=round(now, 3))
            self._write(now)
        try:
            append_event(self._attempt_directory, "stage", PHASE, phase=name, before=before, seconds=round(now - since, 3))
        except OSError:
            pass  # a full disk is told by whoever cannot work without it

    def update(self, **fields: Any) -> None:
        """Set absolute values; ``done`` going up marks a unit finished now."""
        now = boot_s()
        with self._lock:
            done = fields.get("done")
            if done is not None and done > self._state.get("done", 0):
                if "first_boot_s" not in self._state:
                    self._state["first_boot_s"] = round(now, 3)
                    self._state["first_done"] = done
                    self._state["first_tokens"] = fields.get("tokens", self._state.get("tokens", 0))
                self._state["last_boot_s"] = round(now, 3)
            self._state.update(fields)
            if now - self._written_s >= MIN_INTERVAL_S:
                self._write(now)

    def start_from(self, done: int, **fields: Any) -> None:
        """Set what earlier attempts finished: it counts as done, but not for this attempt's rates."""
        with self._lock:
            self._state.update(fields, done=done, resumed_done=done)
            self._state.update(resumed_tokens=fields.get("tokens", 0), resumed_bytes=fields.get("bytes", 0))
            self._write(boot_s())

    def close(self) -> None:
        """Write the last state and end the heartbeat."""
        self._closed.set()
        self._thread.join(BEAT_S * 2)
        with self._lock:
            self._write(boot_s())

    def _beat(self) -> None:
        while not self._closed.wait(BEAT_S):
            with self._lock:
                self._write(boot_s())

    def _write(self, now: float) -> None:
        self._state["boot_s"] = self._state["beat_boot_s"] = round(now, 3)
        try:
            write_json(self._path, self._state, durable=False)
            self._written_s = now
        except OSError:
            pass
