"""What the serve stage tells: the server's output as it is, its own lines between, and what it knows as facts."""

import os
import sys
import threading
import time

from pipeline.attempt import Attempt
from pipeline.contract.clock import boot_s
from pipeline.progress import BAD, MAX_FACTS, OK, WARN
from pipeline.serving.log_lines import understand
from pipeline.serving.metrics import Reading, rate
from pipeline.visible import visible

Fact = list[str]


class Teller:
    """Thread-safe: the server's output comes from a thread of its own."""

    def __init__(self, attempt: Attempt):
        self._progress = attempt.progress
        self._lock = threading.Lock()
        self._at_line_start = True
        self._known: dict[str, Fact] = {}
        """From the server's own log: what stays true while it lives."""
        self._before: tuple[float, Reading] | None = None
        self._answered_s: float | None = None

    def passed_on(self, data: bytes) -> None:
        """The server's output, on ours at once. A disk that is full, or a reader that is gone, never stops the server."""
        with self._lock:
            self._write(data)
            self._at_line_start = data.endswith(b"\n")

    def say(self, text: str) -> None:
        """One line of the stage's own."""
        line = f"{time.strftime('%H:%M:%S')} {visible(text)}\n"
        with self._lock:
            self._write(("" if self._at_line_start else "\n").encode() + line.encode("utf-8", "replace"))
            self._at_line_start = True

    def line(self, text: str) -> None:
        """A line of the server's output, in case it tells progress."""
        told = understand(text)
        if told is None:
            return
        if told.loaded is not None:
            self._progress.update(load_done=told.loaded[0], load_total=told.loaded[1])
        if told.note is not None:
            self._progress.update(note=visible(told.note))
        if told.fact is not None:
            self.know(*told.fact)

    def know(self, label: str, text: str, level: str = OK) -> None:
        """A fact that stays."""
        self._known[label] = [label, visible(text), level]
        self._publish([])

    def answered(self, milliseconds: float, reading: Reading | None, why_not: str | None = None) -> None:
        """It is up; ``reading`` is None where it has no metrics, or did not give them (``why_not``)."""
        now = boot_s()
        self._answered_s = now
        facts = [["answers", f"in {milliseconds:.0f} ms", OK]]
        if reading is None:
            self._before = None
            unknown = ["metrics", "not given by this server", OK] if why_not is None else ["metrics", visible(f"unknown: {why_not}"), WARN]
            facts.append(unknown)
        else:
            facts += self._metrics(now, reading)
            self._before = (now, reading)
        self._publish(facts, up=True, up_boot_s=round(now, 3))

    def silent(self, why: str) -> None:
        """It did not answer. Nothing that was measured before is shown as if it were so now."""
        since = "since its start" if self._answered_s is None else f"for {boot_s() - self._answered_s:.0f} s"
        self._before = None
        self._publish([["answers", visible(f"not {since}: {why}"), BAD]], up=False)

    def _metrics(self, now: float, reading: Reading) -> list[Fact]:
        facts = []
        if reading.running is not None:
            waiting = f", {reading.waiting:,.0f} waiting" if reading.waiting is not None else ""
            facts.append(["requests", f"{reading.running:,.0f} running{waiting}", OK])
        if reading.cache_use is not None:
            facts.append(["cache in use", f"{reading.cache_use:.0%}", OK])
        if self._before is not None:
            seconds, before = now - self._before[0], self._before[1]
            rates = [(rate(reading.generated, before.generated, seconds), "generated"), (rate(reading.read, before.read, seconds), "read")]
            texts = [f"{value:,.0f} tokens/s {word}" for value, word in rates if value is not None]
            if texts:
                facts.append(["speed", ", ".join(texts), OK])
        if reading.preempted:
            facts.append(["preempted", f"{reading.preempted:,.0f} requests computed again: the cache is too small for so many", WARN])
        return facts

    def _publish(self, facts: list[Fact], **fields: "bool | float") -> None:
        self._progress.update(facts=[*facts, *self._known.values()][:MAX_FACTS], **fields)

    @staticmethod
    def _write(data: bytes) -> None:
        while data:
            try:
                data = data[os.write(sys.stdout.fileno(), data) :]
            except (OSError, ValueError):
                return
