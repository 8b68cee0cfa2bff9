"""The lookout of one attempt: watches its log, judges whether it stalls, and tells the operator, with nobody connected.

It only reads what others write, and never signals the job. It outlives consoles and supervisors, has its own session and no cookie (it is
no part of the attempt), and ends by itself once the attempt has ended and what is to be told is told.
"""

import os
import signal
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Set

from pipeline.contract import events, layout, signals
from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json, write_json
from pipeline.contract.signals import GapStats, Verdict
from pipeline.contract.stages import ACTIONS
from pipeline.contract.stall import Judge
from pipeline.contract.telemetry import LIVE_STATES, number
from pipeline.host import alerts, host_log, locks, lookout_view, procs, spawn, state
from pipeline.host.log_watch import Alarm, LogWatch
from pipeline.host.lookout_curve import FIRST_S, Curve
from pipeline.host.lookout_end import End
from pipeline.host.lookout_gpus import Gpus
from pipeline.host.lookout_levels import Levels
from pipeline.host.lookout_risks import DiskWatch, Growth, MemoryWatch
from pipeline.host.lookout_signals import Looks
from pipeline.host.lookout_stalled import Stalled

TURN_S, BEHIND_S = 0.35, 0.1
LOOK_S = 5.0
_LAST_LOG_S = 1.0
_LONG_GAP_S = 20.0
"""A gap that is open for longer, and for twice the usual, may soon be one to judge: by GPUs as they are then."""
_EXIT_S = 10.0
"""A supervisor that lives has that long to write the exit code of a job whose shim was killed."""
_NICE = 5
_MOST_COMPLAINTS = 50
_VERSION = 1


def main(arguments: List[str]) -> int:
    """``lookout ATTEMPT_DIR``. Exit code 0 also when another lookout has the attempt."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    directory = arguments[0]
    spec = read_json(os.path.join(directory, layout.SPEC))
    if spec is None:
        print("%s: no readable %s" % (directory, layout.SPEC), file=sys.stderr)
        return 1
    lock = locks.take(os.path.join(directory, layout.LOOKOUT_LOCK), locks.holder_line(str(spec.get("attempt")), str(spec.get("by"))), 0.0)
    if lock is None:
        return 0
    Lookout(directory, spec).run()
    return 0


class Lookout:
    """In the process that holds lookout.lock."""

    def __init__(self, directory: str, spec: Dict[str, Any]):
        self._directory, self._spec = directory, spec
        self._stage = os.path.basename(os.path.dirname(directory))
        run_directory = os.path.dirname(os.path.dirname(os.path.dirname(directory)))
        self._run, data_dir = os.path.basename(run_directory), os.path.dirname(os.path.dirname(run_directory))
        self._settings = lookout_view.resolved(directory)
        self._scale = lookout_view.scale(self._settings)
        known = read_json(os.path.join(directory, layout.LOOKOUT)) or {}
        known = known if known.get("boot_id") == procs.this_boot() else {}
        log = known.get("log")
        self._log = LogWatch(os.path.join(directory, layout.LOG), dict(known, **(log if isinstance(log, dict) else {})))
        self._told_alarms = dict(self._log.counts)
        self._gpus = Gpus(data_dir, self._stage, spec, self._settings, self._scale)
        self._looks = Looks(directory, self._stage, self._settings, self._log, self._gpus)
        self._judge = None if self._stage in ACTIONS else judge_of(self._scale, known)
        self._alerts = alerts.Alerts(directory, self._run, self._stage, spawn.code_root())
        self._curve = Curve(directory, FIRST_S * min(self._scale, 1.0))
        self._disk = DiskWatch(self._settings, self._stage, self._scale)
        self._memory, self._growth = MemoryWatch(), Growth()
        self._verdict: Optional[Verdict] = None
        self._levels = Levels(known.get("told"), self._alerts, self._event)
        self._stalled = Stalled(known.get("stalled"))
        self._look_s = self._alive_s = float("-inf")
        self._gone_s: Optional[float] = None
        self._complaints: Set[str] = set()

    def run(self) -> None:
        """Until the attempt has ended and all is told. One bad file, or a fault of its own, does not end it."""
        if self._settings.get("retry") != 1:  # what it starts again would be as nice as it is
            os.nice(_NICE)
        while self._lives():
            began = boot_s()
            self._guarded(lambda began=began: self.turn(began))
            pause_s = BEHIND_S if self._log.behind and not self._log.flooded else TURN_S
            time.sleep(min(pause_s, max(0.05, LOOK_S * self._scale)))
        self._guarded(self._last_log)
        self._gpus.close()
        self._guarded(lambda: End(self._directory, self._run, self._spec, self._settings, self._alerts, self.seen()).finish())
        self._verdict, self._levels.told = None, ""
        self._guarded(lambda: self.write(boot_s()))

    def turn(self, now: float) -> None:
        """Some three times a second; a look at the job is every five seconds."""
        alarms = self._log.poll(now)
        self._tell_alarms(alarms)
        fine = self._verdict is not None and self._verdict.severity == signals.OK
        self._gpus.turn(
            now,
            self._verdict is not None and (not fine or _open_for_long(self._verdict, self._scale)),
            fine and self._looks.progress.get("phase") == "steady",
        )
        self._alerts.turn()
        if now >= self._look_s or self._look_s - now > LOOK_S:
            self._look_s = now + max(0.25, LOOK_S * min(self._scale, 1.0))
            self.look(now)
        elif alarms or self._alerts.changed:
            self.write(now)

    def look(self, now: float) -> None:
        """Judge, and tell what changed."""
        seen = self._looks.look(now)
        if self._judge is not None:
            self._verdict = self._judge.look(seen)
            self._levels.look(self._verdict, now)
            self._stalled.look(now, self._levels.red, self._looks.progress)
        output = self._looks.output.latest
        risk = self._disk.look(now, output, seen.bytes, number(self._looks.progress.get("total_bytes")))
        if risk is not None:
            self._alerts.tell(alerts.DISK, risk.level, "%s: %s" % (self._looks.output_directory, risk.line), now)
        self._memory.look(now)
        self._growth.look(self._directory, output)
        if self._judge is not None and self._curve.add(now, seen.done, seen.tokens, seen.bytes, self._gpus.mean_mib(now)):
            self._curve.write()
        self.write(now)

    def seen(self) -> Dict[str, Any]:
        """What the end of the attempt is judged by."""
        output = self._looks.output.latest
        progress = read_json(layout.progress_file(self._directory, 0)) or {}
        return {
            "alarms": dict(self._log.counts),
            "gaps": self._gaps().get("steady"),
            "grew": self._growth.seen,
            "free_bytes": None if output is None else output.free_bytes,
            "memory_share": self._memory.least_share,
            **self._stalled.end(boot_s(), progress),
        }

    def write(self, now: float) -> None:
        """Publish ``lookout.json``; a full disk keeps the old one."""
        verdict = self._verdict
        value = {
            "version": _VERSION,
            "boot_id": procs.this_boot(),
            "boot_s": round(now, 3),
            "level": verdict.level if verdict else "",
            "severity": verdict.severity if verdict else signals.OK,
            "line": verdict.line if verdict else "",
            "since_boot_s": round(verdict.since_boot_s, 3) if verdict and verdict.since_boot_s is not None else None,
            "phase": verdict.phase if verdict else "",
            "scale": self._scale,
            "gaps": self._gaps(),
            "power_w": {str(index): round(watts, 1) for index, watts in self._power().items()},
            "ranks_seen": self._looks.ranks_seen(len(lookout_view.ranks(self._directory))),
            "workers": self._log.workers,
            "alarms": self._log.told(),
            "alerts": self._alerts.entries,
            "log": self._log.state,
            "told": self._levels.told,
            "stalled": self._stalled.state,
        }
        self._alerts.changed = False
        try:
            write_json(os.path.join(self._directory, layout.LOOKOUT), value, durable=False)
        except OSError as error:
            self._complain("%s: %s" % (layout.LOOKOUT, error.strerror))

    def _lives(self) -> bool:
        """Whether the attempt is still under way. Its end is in its files; where nobody wrote one, /proc tells, looked at seldom."""
        if os.path.exists(os.path.join(self._directory, layout.EXIT)):
            return False
        now = boot_s()
        if now < self._alive_s <= now + LOOK_S:
            return True
        if state.view(self._directory)["state"] in LIVE_STATES:
            self._alive_s, self._gone_s = now + LOOK_S, None
            return True
        self._gone_s = now if self._gone_s is None else self._gone_s
        if os.path.exists(os.path.join(self._directory, layout.EXIT)) or now - self._gone_s >= _EXIT_S:
            return False
        return locks.is_held(os.path.join(self._directory, layout.SUPERVISOR_LOCK))

    def _last_log(self) -> None:
        """The job's last words, all of them."""
        end_s = time.monotonic() + _LAST_LOG_S
        while time.monotonic() < end_s:
            self._tell_alarms(self._log.poll(boot_s()))
            time.sleep(0.02 if self._log.behind else 0.2)
        self._growth.look(self._directory, self._looks.output.latest)

    def _tell_alarms(self, found: List[Alarm]) -> None:
        """The first of a kind, and again as their number doubles: a flood of them is no flood of events."""
        for kind in {alarm.kind: None for alarm in found}:
            count, newest = self._log.counts[kind], self._log.newest[kind]
            if count >= 2 * self._told_alarms.get(kind, 0):
                self._told_alarms[kind] = count
                self._event(events.ALARM, alarm=kind, line=newest.line, worker=newest.worker, count=count)

    def _gaps(self) -> Dict[str, Any]:
        return {phase: one._asdict() for phase, one in self._judge.gaps.items()} if self._judge is not None else {}

    def _power(self) -> Dict[int, float]:
        return self._judge.power_w if self._judge is not None else {}

    def _event(self, kind: str, **fields: Any) -> None:
        try:
            events.append_event(self._directory, "lookout", kind, **fields)
        except OSError as error:  # a full disk: lookout.json may still take it
            self._complain("%s: %s" % (layout.EVENTS, error.strerror))

    def _guarded(self, part: Callable[[], None]) -> None:
        try:
            part()
        except Exception as error:
            self._complain("%s: %s" % (type(error).__name__, error))

    def _complain(self, what: str) -> None:
        """Into host.log, each trouble once."""
        if what not in self._complaints and len(self._complaints) < _MOST_COMPLAINTS:
            self._complaints.add(what)
            host_log.say("lookout: %s" % what[:500])


def _open_for_long(verdict: Verdict, scale: float) -> bool:
    """Whether the open gap is one in which the judge will soon want to know what the GPUs do."""
    return verdict.gap_s is not None and verdict.gap_s > max(_LONG_GAP_S * scale, 2 * (verdict.gaps.median_s or 0.0))


def judge_of(scale: float, known: Dict[str, Any]) -> Judge:
    """A judge that knows what an earlier lookout of this attempt had learned."""
    gaps, power = known.get("gaps"), known.get("power_w")
    try:
        learned = {str(phase): GapStats(**one) for phase, one in gaps.items()} if isinstance(gaps, dict) else {}
        watts = {int(index): float(value) for index, value in power.items()} if isinstance(power, dict) else {}
    except (TypeError, ValueError, AttributeError):  # damage: it is learned anew
        learned, watts = {}, {}
    return Judge(scale, learned, watts)
