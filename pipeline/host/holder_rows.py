"""One row a process that holds a GPU, or has one open: who it is, what shows it, and whether it may be ended from here.

All of this reads other processes' files, which can hang: it runs in a forked child (``forked``).
"""

import hashlib
import os
from typing import Any, Dict, List, Optional

from pipeline.contract import free
from pipeline.contract.stages import JOBS
from pipeline.contract.telemetry import LIVE_STATES, UNREADABLE
from pipeline.host import managers, ours, probe, procs, server_lines, services, untouchable
from pipeline.host.devices import minors

_TICKS = os.sysconf("SC_CLK_TCK")
_LINE_BYTES = 1 << 14
_PLACED = (23, 24, 25, 42, 43, 44)
"""In /proc/PID/stat after the name: start and end of code, start of stack, start and end of data, start of the heap."""
UNRESOLVED = "unresolved"

THIS_RUN, OTHER_RUN, SAME_USER, OTHER_USER = "ours, this run", "ours, another run", "same user", "other user"


class Describer:
    """Describes processes as seen by this one. ``run`` is the run that "ours, this run" means."""

    def __init__(self, data_dir: str, run: Optional[str]):
        self._data_dir = data_dir
        self._run = run
        self._family = untouchable.family()
        self._place = managers.parse(_text("/proc/self/cgroup"))

    def unresolved(self, pid: int, gpus: List[Dict[str, Any]], evidence: List[str], reason: str) -> Dict[str, Any]:
        """A pid that only the driver names. Nothing is said of a process that has the same number here: it may be another one."""
        row: Dict[str, Any] = {}
        row.update(
            dict.fromkeys(("start_ticks", "uid", "user", "exe", "image", "title", "cwd", "ppid", "pgid", "sid", "state", "since_boot_s"))
        )
        row.update(pid=pid, boot_id=procs.this_boot(), pid_ns=procs.this_pid_ns(), own_pid_ns=None, unit=None, container=None, manager=None)
        row.update(
            gpus=gpus, ending=False, any_gpu=False, evidence=evidence, ours="unknown", relation=UNRESOLVED, uses_memory=True, daemon=False
        )
        row.update(killable=False, chosen=False, why_not="reported by the driver, not resolvable here: " + reason)
        return row

    def row(self, pid: int, evidence: List[str], uses_memory: bool, gpus: List[Dict[str, Any]], any_gpu: bool) -> Optional[Dict[str, Any]]:
        """None when the process is gone."""
        stat = procs.read_stat(pid)
        if stat is None or stat.state in procs.DEAD:
            return None
        exe, argv, uid = program(pid), _argv(pid), user_id(pid)
        cgroup = _text("/proc/%d/cgroup" % pid)
        place = managers.seen_from(managers.parse(cgroup), self._place)
        inner = place.containers[-1] if place.containers else None
        attempt = self._ours(pid)
        row: Dict[str, Any] = dict(procs.identity(pid), uid=uid, user=probe.user_name(uid), exe=exe, cwd=_link("/proc/%d/cwd" % pid))
        row.update(
            image=image(pid),
            own_pid_ns=_inode("/proc/%d/ns/pid" % pid) not in (None, procs.this_pid_ns()),
            title=" ".join(server_lines.shown(argv)) or "[%s]" % _text("/proc/%d/comm" % pid).strip(),
            ppid=stat.ppid,
            pgid=_group(pid),
            sid=stat.session,
            state=stat.state,
            since_boot_s=round(stat.start_ticks / _TICKS, 2),
            unit=place.unit,
            container=None if inner is None else {"runtime": inner.runtime, "id": inner.id[:12]},
            gpus=gpus,
            any_gpu=any_gpu,
            evidence=evidence,
            ours=attempt,
            uses_memory=uses_memory,
        )
        state = ours.state_of(self._data_dir, attempt) if self._is_ours(row) else None
        live = state in LIVE_STATES
        row["ending"] = state is not None and not live and ours.supervised(self._data_dir, attempt)
        row["manager"] = services.of_attempt(attempt) if live or row["ending"] else services.of_place(place, uid)
        row["relation"] = self._relation(row)
        comm = _text("/proc/%d/comm" % pid).strip()
        never = untouchable.why(pid, exe, comm, argv, self._data_dir, self._family)
        row["daemon"] = bool(never and never["daemon"]) and not any((one["mib"] or 0) * free.MIB > free.IDLE_CAP_BYTES for one in gpus)
        if never is not None:
            row.update(relation=never["relation"], manager=None)
        unread = "its attempt cannot be read: whether that is alive is not known" if state == UNREADABLE else ""
        row["why_not"] = never["why"] if never else unread or self._why_not(row, place)
        row["killable"] = not row["why_not"]
        left = row["relation"] in (THIS_RUN, OTHER_RUN) and not live
        server = row["relation"] == THIS_RUN and live and JOBS[attempt["stage"]].service
        row["chosen"] = row["killable"] and (left or server)
        return row

    def _ours(self, pid: int) -> Any:
        try:
            return ours.attempt_of(pid, self._data_dir)
        except OSError:
            return "unknown"

    def _is_ours(self, row: Dict[str, Any]) -> bool:
        """The cookie says so, and the user: what an attempt started hands its environment down to whoever comes after it."""
        attempt = row["ours"]
        return isinstance(attempt, dict) and attempt["run"] is not None and procs.is_of_user(row["pid"], os.geteuid())

    def _relation(self, row: Dict[str, Any]) -> str:
        if self._is_ours(row):
            return THIS_RUN if row["ours"]["run"] == self._run else OTHER_RUN
        return SAME_USER if row["uid"] == os.geteuid() else OTHER_USER

    def _why_not(self, row: Dict[str, Any], place: managers.Place) -> str:
        if row["start_ticks"] is None or row["exe"] is None or row["uid"] is None:
            return "its program cannot be read, so that it could not be told from another one later"
        if os.geteuid() not in (0, row["uid"]):
            return "it is %s's: only %s or root may end it" % (row["user"], row["user"])
        kept = row["manager"] is None and (place.unit or place.containers or place.pod)
        if kept:
            how = managers.how_to_stop(place, row["pid"], str(row["user"]), os.geteuid(), row["uid"] == os.geteuid())
            return "something keeps it running that is not stopped from here: " + how
        return ""


def gpus_of(names: List[str], by_minor: Dict[int, Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The GPUs whose device files are open or mapped; memory unknown."""
    return [
        {"uuid": by_minor[one]["uuid"], "index": by_minor[one]["index"], "mib": None} for one in sorted(minors(names)) if one in by_minor
    ]


def mib_of(value: Any) -> Optional[int]:
    return free.mib(value) if isinstance(value, int) else None


def program(pid: int) -> Optional[str]:
    """Path of the program that a process runs, told by a thread where the first one has ended; None when it cannot be read."""
    found = _link("/proc/%d/exe" % pid)
    if found is None:
        found = next(filter(None, (_link("/proc/%d/task/%s/exe" % (pid, thread)) for thread in _threads(pid))), None)
    return found


def image(pid: int) -> Optional[str]:
    """What tells a process from itself after another exec, even of the same program; None when it may not be read.

    Of the addresses that the kernel chose at exec: a process that renames itself, as servers do, rewrites its command line, not these.
    """
    for path in ["/proc/%d/stat" % pid, *("/proc/%d/task/%s/stat" % (pid, thread) for thread in _threads(pid))]:
        words = _text(path).rpartition(")")[2].split()
        placed = [words[at] for at in _PLACED if at < len(words)]
        if any(word not in ("0", "1") for word in placed):  # those stand for "may not be read", and for a first thread that has ended
            return hashlib.sha256(" ".join([procs.this_boot(), *placed]).encode()).hexdigest()[:16]
    return None


def user_id(pid: int) -> Optional[int]:
    """Effective user id; None when the process is gone."""
    for line in _text("/proc/%d/status" % pid).splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[2])
    return None


def _threads(pid: int) -> List[str]:
    try:
        return os.listdir("/proc/%d/task" % pid)
    except OSError:
        return []


def _argv(pid: int) -> List[str]:
    data = _text("/proc/%d/cmdline" % pid)
    return data.rstrip("\0").split("\0") if data else []


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_LINE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _link(path: str) -> Optional[str]:
    try:
        return os.readlink(path)
    except OSError:
        return None


def _inode(path: str) -> Optional[int]:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def _group(pid: int) -> Optional[int]:
    try:
        return os.getpgid(pid)
    except OSError:
        return None
