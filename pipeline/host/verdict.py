"""The verdict on an attempt, from its files and /proc.

Exit code 0 without proof is not done, SIGKILL alone is not "out of memory", and gone without an exit code is not failed.
"""

import os
import signal
from typing import Any, Dict, Optional, Tuple

from pipeline.contract import events, layout, telemetry
from pipeline.contract.files import read_json
from pipeline.contract.stages import STAGES
from pipeline.host import filecache, locks, procs

ALIVE_AFTER_S = 2.0
"""A job counts as launched when it has lived that long."""
NO_PROCESS_AFTER_S = 60.0
"""A launch without a process by then has failed, unless somebody retries it."""


class Files:
    """The files of an attempt, each {} or None when it is missing or torn."""

    def __init__(self, directory: str):
        self.directory = directory
        stage = STAGES.get(os.path.basename(os.path.dirname(directory)))
        self.service = stage is not None and stage.service
        self.exit = self._read(layout.EXIT)
        self.spec = self._read(layout.SPEC) or {}
        self.ident = self._read(layout.IDENT) or {}
        self.stop = self._read(layout.STOP)
        self.status = self._read(layout.STATUS) or {}
        self.receipt = self._read(layout.RECEIPT)
        self.progress = filecache.read_json(layout.progress_file(directory, 0))
        self.events = filecache.read_events(os.path.join(directory, layout.EVENTS))

    def _read(self, name: str) -> Optional[Dict[str, Any]]:
        return filecache.read_json(os.path.join(self.directory, name))

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def holder(self) -> Optional[Dict[str, Any]]:
        refused = self.events.newest.get(events.REFUSED) or {}
        named = [one for one in ((self.exit or {}).get("holder"), refused.get("holder")) if isinstance(one, dict) and one]
        return named[0] if named else None


def judge(read: Files, now: float) -> Tuple[str, str]:
    """State and the reason for it, one line. ``now`` is the host's ``boot_s``."""
    if read.exit is None:
        judged = _judge_unended(read, now)
        if judged is not None:
            return judged
        # Nobody is left. The exit code is written before the lock is free, so one more look is final.
        read.exit = read_json(read.path(layout.EXIT))
        if read.exit is None:
            if read.stop is not None:
                return telemetry.STOPPED, f"stopped by {read.stop.get('by')}; exit code unknown"
            return telemetry.ENDED_UNKNOWN, "ended, code unknown: nothing was left to see its exit code"
    return _judge_ended(read, read.exit)


def _judge_unended(read: Files, now: float) -> Optional[Tuple[str, str]]:
    """State without an exit.json; None when the process is gone and so is everybody who could write one."""
    began = read.ident or read.spec
    if not began:
        return telemetry.LAUNCH_FAILED, f"{layout.SPEC} is missing or unreadable"
    if began.get("boot_id") != procs.this_boot():
        return telemetry.LOST_REBOOT, "the host was restarted while it ran"
    stopping = f"stop asked by {read.stop.get('by')}" if read.stop is not None else None
    if read.ident:
        alive = procs.alive(read.ident)
        if not alive and not locks.is_held(read.path(layout.LOCK)):
            return None
        why = "" if alive else "its process has ended; its exit code is not written yet"
        if read.ident.get("pid_ns") != procs.this_pid_ns():
            why = "it runs in another pid namespace; seen here by its lock only"
        if stopping:
            return telemetry.STOPPING, stopping + (f"; {why}" if why else "")
        launched = read.events.newest.get(events.LAUNCHED) or read.ident
        young = now - number_or_0(launched.get("boot_s")) < ALIVE_AFTER_S
        return (telemetry.LAUNCHING if young else telemetry.RUNNING), why
    if now - number_or_0(read.spec.get("boot_s")) < NO_PROCESS_AFTER_S or locks.is_held(read.path(layout.LOCK)):
        return (telemetry.STOPPING, stopping) if stopping else (telemetry.LAUNCHING, "no process yet" + _host_log(read))
    return telemetry.LAUNCH_FAILED, f"no process {NO_PROCESS_AFTER_S:.0f} s after the launch{_host_log(read)}"


def _judge_ended(read: Files, ended: Dict[str, Any]) -> Tuple[str, str]:
    code, number = _whole(ended.get("code")), _whole(ended.get("signal"))
    if ended.get("refused"):
        return telemetry.REFUSED, f"the stage is held by {locks.describe_holder(read.holder() or {})}"
    verified = code == 0 and _verified(read)
    if verified and not read.service:
        return telemetry.DONE, ""
    how = f"exit code {code}" if code is not None else _signal_name(number) if number is not None else "not started"
    last = read.events.last_word
    if read.stop is not None and _before(read.stop, ended):
        error = f"; {last.get('message')}" if last is not None and last["kind"] == events.ERROR else ""
        return telemetry.STOPPED, f"stopped by {read.stop.get('by')}; {how}{error}"
    if verified:  # a service has no end of its own: it is never done, and whoever needs it finds it gone
        return telemetry.STOPPED, f"it ended cleanly ({how}), and nobody asked for it here"
    if ended.get("exec_error") or ended.get("not_started"):
        return telemetry.LAUNCH_FAILED, str(ended.get("exec_error") or ended.get("not_started"))
    if last is not None and last["kind"] == events.INTERRUPTED and (code or number == signal.SIGINT):
        by = last.get("signal")
        return telemetry.STOPPED, f"by {by} from outside; nobody asked for it here" if by else str(last.get("message"))
    if number is not None:
        return telemetry.CRASHED, how + _cause(number, ended)
    if code == 0:
        return telemetry.UNVERIFIED, "exit code 0, but " + ("no receipt" if read.receipt is None else "its receipt does not say verified")
    if last is not None:
        return telemetry.REFUSED if last["kind"] == events.REFUSED else telemetry.FAILED, str(last.get("message"))
    return telemetry.FAILED, f"{how}; it gave no reason, see its log"


def _verified(read: Files) -> bool:
    receipt = read.receipt or {}
    return receipt.get("verified") is True and receipt.get("attempt") == os.path.basename(read.directory)


def _before(stop: Dict[str, Any], ended: Dict[str, Any]) -> bool:
    return stop.get("boot_id") != ended.get("boot_id") or number_or_0(stop.get("boot_s")) <= number_or_0(ended.get("boot_s"))


def _cause(number: int, ended: Dict[str, Any]) -> str:
    """Out of memory is only said when the cgroup's own counter moved; SIGKILL alone is no proof."""
    if number != signal.SIGKILL:
        return ""
    kills = ended.get("oom_kills")
    return f"; out of memory: cgroup oom_kill +{kills}" if isinstance(kills, int) and kills > 0 else ", cause unknown"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _host_log(read: Files) -> str:
    try:
        with open(read.path(layout.HOST_LOG), "rb") as file:
            lines = file.read(1 << 16).decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return f": {lines[-1]}" if lines else ""


def _whole(value: Any) -> Optional[int]:
    """An exit code or signal; None for anything else. False is not 0."""
    return value if type(value) is int else None


def number_or_0(value: Any) -> float:
    number = telemetry.number(value)
    return 0.0 if number is None else number
