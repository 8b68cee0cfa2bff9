"""Watches one attempt: starts its shim, keeps a heartbeat, carries out a stop, and ends what a job leaves behind.

It may die at any moment without harm to the job; another one (``--adopt``) then goes on from the files. It is a subreaper, so daemons
of the job stay below it, and it learns the exit code itself when the shim was killed. Between looks it sleeps in poll().
"""

import contextlib
import os
import select
import signal
import sys
import time
from typing import Any, Dict, List, Optional, Set

from pipeline.contract import events, layout
from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json, write_json
from pipeline.contract.stages import ACTIONS, JOBS
from pipeline.contract.telemetry import number
from pipeline.host import locks, lookout_start, lookout_view, procs, shim, spawn
from pipeline.host.members import Members, tops
from pipeline.host.tree_stats import tree_stats

HEARTBEAT_S = 2.0
ALIVE_S, SECOND_LOOK_S = 2.0, 30.0
_LATE_S = 10.0
"""A look that late (an adopting supervisor) would not say what its event means."""
_WALK_S, _WALK_COST = 4.0, 500
"""The tree is walked that often, and at most 1 part in so many of the time is spent on it."""
_KILL_AGAIN_S = 30.0
"""Processes in state D outlive SIGKILL; they are tried again that often."""
_NO_PIDFD_S, _SHIM_TRIES, _IDENT_S = 0.5, 3, 60.0
_EXIT_FILE_S = 90.0
"""A shim that lives gets that long to write exit.json (a full disk)."""
_SETTLE_S, _TERM_S, _SERVER_TERM_S = 1.0, 5.0, 30.0
"""What the job leaves gets the first to go by itself, then SIGTERM, then the second (a server: the third) before SIGKILL."""


def main(arguments: List[str]) -> int:
    """``supervise ATTEMPT_DIR [--adopt]``. Exit code 0 also when another supervisor has the attempt."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGUSR1, lambda *_: None)  # before the lock: whoever reads our pid there may send it at once
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    directory = arguments[0]
    spec = read_json(os.path.join(directory, layout.SPEC))
    if spec is None:
        print(f"{directory}: no readable {layout.SPEC}", file=sys.stderr)
        return 1
    lock = locks.take(os.path.join(directory, layout.SUPERVISOR_LOCK), locks.holder_line(str(spec["attempt"]), str(spec["by"])))
    if lock is None:
        return 0
    lookout_start.start(directory, spec)  # before this becomes a subreaper
    if spec.get("stage") not in ACTIONS:  # what an action starts, or adopts, is another attempt's and outlives it
        procs.become_subreaper()
    Supervisor(directory, spec, wake_read).run()
    return 0


class Supervisor:
    """The supervisor of one attempt, in the process that holds its supervisor.lock."""

    def __init__(self, directory: str, spec: Dict[str, Any], wake: int):
        self._directory = directory
        self._spec = spec
        self._wake = wake
        self._told: Dict[str, Dict[str, Any]] = {}
        for event in events.read_events(os.path.join(directory, layout.EVENTS))[0]:
            if event.get("boot_id") == procs.this_boot():
                self._told.setdefault(str(event.get("kind")), event)
        self._shims: Set[int] = set()
        self._reaped: Dict[int, int] = {}
        """Wait status of children: the job, too, when its shim was killed."""
        self._tree: Optional[Dict[str, Any]] = None
        self._walk_next_s, self._lookout_s = float("-inf"), boot_s() + lookout_start.AGAIN_S
        self._walk_s = max(0.25, _WALK_S * min(1.0, lookout_view.scale(lookout_view.resolved(directory))))

    def run(self) -> None:
        ident = self._await_ident()
        if ident is not None and ident.get("pid_ns") != procs.this_pid_ns():
            # From here its main process looks dead and its children, found by their cookie, like leftovers. Hands off.
            print(f"{self._directory}: runs in another pid namespace; only a supervisor there can watch it", file=sys.stderr)
        elif ident is not None:
            members = Members(ident, self._shims, remembers=self._spec["stage"] not in ACTIONS)
            self._watch(ident, members)
            self._after(members)
        self._heartbeat(ended=True)

    def _await_ident(self) -> Optional[Dict[str, Any]]:
        """Start a shim unless one is at it; ident.json once it is there, None when the attempt ended or failed before."""
        deadline, tries, next_s = time.monotonic() + _IDENT_S, 0, 0.0
        adopted = os.path.exists(self._path(layout.IDENT))
        while not os.path.exists(self._path(layout.EXIT)):
            ident = read_json(self._path(layout.IDENT))
            if ident is not None:
                if adopted:
                    self._tell(events.ADOPTED, pid=ident.get("pid"))
                return ident
            now = time.monotonic()
            if now > deadline:
                return None
            self._reap()
            if now >= next_s and tries < _SHIM_TRIES and not self._shims and not locks.is_held(self._path(layout.LOCK)):
                tries, next_s = tries + 1, now + 0.5
                self._shims.add(spawn.start(sys.executable, spawn.code_root(), ["shim", self._directory], self._directory, orphan=False))
                self._heartbeat()
            time.sleep(0.02)
        return read_json(self._path(layout.IDENT))

    def _watch(self, ident: Dict[str, Any], members: Members) -> None:
        """Until the main process has ended."""
        pidfd = None  # readable at the end of the main process; None where the kernel has none, or it has ended
        with contextlib.suppress(ProcessLookupError):
            pidfd = procs.open_pidfd(ident["pid"])
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        if pidfd is not None:
            poller.register(pidfd, select.POLLIN)
        beat_s = kill_s = float("-inf")
        while members.main_lives():
            now = boot_s()
            if now >= beat_s:
                beat_s = now + min(HEARTBEAT_S, self._walk_s)
                self._walk(members, now)
                self._heartbeat()
            look_s = self._look(ident, now)
            asked_s = self._stop(ident)
            if asked_s is not None and now >= max(asked_s, kill_s):
                kill_s = now + _KILL_AGAIN_S
                members.kill_all(lambda pids: self._tell(events.KILL_SENT, pids=pids), self._reap)
                continue
            next_s = min(beat_s, look_s, max(asked_s, kill_s) if asked_s is not None else beat_s)
            if pidfd is None:
                next_s = min(next_s, now + _NO_PIDFD_S)
            for fd, _ in poller.poll(max(0.0, next_s - now) * 1000 + 1):
                if fd == self._wake:
                    os.read(self._wake, 512)
            self._reap()

    def _walk(self, members: Members, now: float) -> None:
        if now < self._walk_next_s:
            return
        self._tree = dict(tree_stats(members.look(), self._tree), boot_s=round(now, 3))
        self._walk_next_s = now + max(self._walk_s, _WALK_COST * (boot_s() - now))
        if now >= self._lookout_s:
            self._lookout_s = now + lookout_start.AGAIN_S
            lookout_start.start(self._directory, self._spec, subreaper=self._spec["stage"] not in ACTIONS)

    def _look(self, ident: Dict[str, Any], now: float) -> float:
        """Events of a young job: each is told once, and only near its time. Returns when the next is due."""
        age = now - float(ident["boot_s"])
        if events.FIRST_UNIT not in self._told:
            self._look_at_progress(ident)
        if ALIVE_S <= age < ALIVE_S + _LATE_S and events.ALIVE not in self._told:
            self._tell(events.ALIVE, pid=ident["pid"])
        if SECOND_LOOK_S <= age < SECOND_LOOK_S + _LATE_S and events.SECOND_LOOK not in self._told:
            self._tell(events.SECOND_LOOK, alive=True, procs=(self._tree or {}).get("procs"))
        return now + min([due - age for due in (ALIVE_S, SECOND_LOOK_S) if due > age], default=HEARTBEAT_S)

    def _look_at_progress(self, ident: Dict[str, Any]) -> None:
        progress = read_json(layout.progress_file(self._directory, 0)) or {}
        first = number(progress.get("first_boot_s"))
        if first is not None and (number(progress.get("done")) or 0) > (number(progress.get("resumed_done")) or 0):
            self._tell(events.FIRST_UNIT, unit=progress.get("unit"), seconds=round(first - float(ident["boot_s"]), 3))

    def _stop(self, ident: Dict[str, Any]) -> Optional[float]:
        """Carry out a stop as far as it goes; returns when SIGKILL is due, None without a stop."""
        stop = read_json(self._path(layout.STOP))
        if stop is None:
            return None
        if events.TERM_SENT not in self._told:
            procs.signal_process(ident, signal.SIGTERM)
            self._tell(events.TERM_SENT, pid=ident["pid"])
        stat = procs.read_stat(ident["pid"])
        if stat is not None and stat.state in "Tt":
            procs.signal_process(ident, signal.SIGCONT)  # frozen, or freezing when the SIGTERM came: it could not act on it
        grace = number(stop.get("grace_s"))
        if grace is None:
            grace = JOBS[self._spec["stage"]].grace_s
        return float(self._told[events.TERM_SENT]["boot_s"]) + grace

    def _after(self, members: Members) -> None:
        """The main process has ended: see to its exit code, and end what it left."""
        left = members.others()  # at once, while its session is surely its own
        self._await_exit(members)
        left = self._until_gone(members, left, _SETTLE_S)
        if members.strangers:
            self._tell(events.LEFT_ALONE, pids=members.strangers)
        if not left:
            return
        self._tell(events.SURVIVORS, pids=[stat.pid for stat in left])
        service = JOBS[self._spec["stage"]].service
        members.send(tops(left) if service else left, signal.SIGTERM)  # a server ends its own workers, in its own order
        if self._until_gone(members, left, _SERVER_TERM_S if service else _TERM_S):
            members.kill_all(lambda pids: self._tell(events.KILL_SENT, pids=pids), self._reap)

    def _until_gone(self, members: Members, left: List[procs.Stat], seconds: float) -> List[procs.Stat]:
        deadline, pause = time.monotonic() + seconds, 0.1
        while left and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(1.0, pause * 1.2)  # each look is at every process of the host
            self._reap()
            left = members.others()
        return left

    def _await_exit(self, members: Members) -> None:
        deadline = time.monotonic() + _EXIT_FILE_S
        while not os.path.exists(self._path(layout.EXIT)) and time.monotonic() < deadline:
            self._reap()
            status = self._reaped.get(members.pid)
            if status is not None:
                shim.write_exit(self._directory, "supervisor", shim.exit_of(status))
            elif not locks.is_held(self._path(layout.LOCK)) and not os.path.exists(self._path(layout.EXIT)):
                self._tell(events.ENDED, code=None, signal=None)
                return
            else:
                time.sleep(0.02)

    def _reap(self) -> None:
        """Collect children: shims, daemons of the job that fell to us, and the job itself once its shim is gone."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._shims.discard(pid)
            self._reaped[pid] = status

    def _tell(self, kind: str, **fields: Any) -> None:
        try:
            event = events.append_event(self._directory, "supervisor", kind, **fields)
        except OSError:
            event = {"kind": kind, "boot_s": boot_s()}  # a full disk: what is done counts, also without its record
        self._told.setdefault(kind, event)

    def _heartbeat(self, ended: bool = False) -> None:
        value = {"boot_id": procs.this_boot(), "boot_s": round(boot_s(), 3), "supervisor": procs.identity(), "ended": ended}
        value.update(code=os.path.basename(spawn.code_root()), tree=None if ended else self._tree)
        with contextlib.suppress(OSError):
            write_json(self._path(layout.STATUS), value, durable=False)

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)
