"""Ending the confirmed processes: what keeps them running first, then one SIGTERM each, a grace, a new look, SIGKILL."""

import signal
import time
from typing import TYPE_CHECKING, Any, Dict, List, Sequence, Set

from pipeline.contract import free
from pipeline.host import free_plan, free_signals, procs, services
from pipeline.host.free_report import shown

if TYPE_CHECKING:
    from pipeline.host.free_gpus import Freeing


class Steps:
    """These steps of one run of the action, whose facts are in ``of``. Each raises CancelledError, and OSError where it cannot be told."""

    def __init__(self, of: "Freeing"):
        self._of = of

    def run(self, rows: List[Dict[str, Any]]) -> None:
        kept = self._stop_services(rows)
        if self._of.stopped:
            self._of.look("RESCAN")
        targets = [row for row in rows if str(free.key(row)) not in kept]
        self._term([row for row in targets if procs.alive(row)])
        self._note_ended()
        self._of.look("RECHECK")
        asked = [signal.SIGTERM.name, free_signals.SENT]  # who was another program then was never asked to go
        survivors = [row for row in targets if asked in row.get("got", []) and procs.alive(row)]
        if survivors:
            self._kill(survivors)
            self._note_ended()
            self._of.look("RESCAN")

    def _stop_services(self, rows: List[Dict[str, Any]]) -> Set[str]:
        """Stop what keeps the rows running; returns the rows that must not be signalled because their manager goes on."""
        kept: Set[str] = set()
        for manager in free_plan.services_of(rows):
            name = "%s %s" % (manager["how"], manager["name"])
            how = (
                services.command(manager, self._of.times.service_s) if manager["how"] != services.ATTEMPT else ["stop", manager["attempt"]]
            )
            self._of.report.begin("STOP_SERVICE", must=True, service=name, command=" ".join(how), pids=manager["pids"])
            self._of.report.progress(self._of.times.service_s, "stopping %s" % name, force=True)
            done = services.stop_manager(manager, self._of.times.service_s, self._of.data_dir, self._of.by, self._of.cancelled)
            self._of.report.end("stopped" if done.ok else "not stopped", said=done.said[:500])
            self._of.stopped.append({"service": name, "how": done.how, "ok": done.ok, "said": done.said[:500], "seconds": done.seconds})
            if not done.ok:
                kept |= {str(free.key(row)) for row in rows if row["pid"] in manager["pids"]}
            self._note_ended()
            self._of.check()
        return kept

    def _term(self, rows: List[Dict[str, Any]]) -> None:
        """One SIGTERM each: first to those whose parent is not among them, then to what they have not ended themselves."""
        first = free_signals.leaders(rows)
        self._signal("TERM", first, signal.SIGTERM)
        rest = [row for row in rows if row not in first]
        if rest:
            self._wait_for(rows, min(self._of.times.leaders_s, self._of.times.grace_s), "GRACE", until=first)
            self._wait_for(rest, self._of.times.settle_s, "GRACE")  # what a leader ended with its last breath is still ending
            self._signal("TERM", [row for row in rest if procs.alive(row)], signal.SIGTERM)
        self._wait_for(rows, self._of.times.grace_s, "GRACE")

    def _kill(self, rows: List[Dict[str, Any]]) -> None:
        self._signal("KILL", rows, signal.SIGKILL)
        self._of.killed += [free.key(row) for row in rows if row["got"][-1] == [signal.SIGKILL.name, free_signals.SENT]]
        self._wait_for(rows, self._of.times.kill_s, "KILL_WAIT")

    def _signal(self, step: str, rows: List[Dict[str, Any]], number: int) -> None:
        if not rows:
            return
        self._of.check()
        self._of.report.begin(step, must=True, processes=shown(rows))
        results = free_signals.send_all(rows, number)
        for row, (_, word) in zip(rows, results):
            row.setdefault("got", []).append([signal.Signals(number).name, word])
        self._of.report.end(", ".join("%s %s" % (pid, word) for pid, word in results)[:1000])

    def _wait_for(self, rows: List[Dict[str, Any]], seconds: float, step: str, until: Sequence[Dict[str, Any]] = ()) -> None:
        """Until all of them (or all of ``until``) have ended, or the time is over."""
        awaited = list(until) or rows
        living = [row for row in awaited if procs.alive(row)]
        if not living:
            return
        self._of.report.begin(step, seconds=seconds, pids=[row["pid"] for row in living])
        deadline = time.monotonic() + seconds
        while living and time.monotonic() < deadline:
            self._of.check()
            left = deadline - time.monotonic()
            self._of.report.progress(left, "%d of %d processes live" % (len(living), len(awaited)), live=len(living))
            time.sleep(max(0.0, min(self._of.times.poll_s, left)))
            living = [row for row in living if procs.alive(row)]
        self._of.report.end("%d left" % len(living), pids=[row["pid"] for row in living])

    def _note_ended(self) -> None:
        """Keep who ended, after what."""
        for row in self._of.selected:
            if "ended" not in row and not procs.alive(row):
                got = [name for name, word in row.get("got", []) if word == free_signals.SENT]
                row["ended"] = got[-1] if got else "with its service" if row["manager"] else "by itself"
