"""Inference servers that run on this host, whoever started them, found by their command lines in /proc.

Only main processes: a worker renames itself, or is a copy of its parent before it does. What may not be read is told, never taken for
absent. Nothing here signals anybody.
"""

import os
from typing import Any, Dict, List, Optional, Set, Tuple

from pipeline.contract.clock import boot_s
from pipeline.contract.files import loads
from pipeline.contract.telemetry import NO_PERMISSION, missing
from pipeline.host import managers, ours, probe, procs, server_lines, sockets

LOOK_S = 5.0
_COST = 250
"""A look takes at most 1 part in so many of the time."""
_AGAIN_S = (5.0, 10.0, 20.0, 40.0, 60.0)
"""When a process's command line is read again: exec keeps pid and start, and a shell that becomes a server does so early."""
_READS = 4000
"""Command lines in one look. The first looks at a host with more processes than that are not complete, and so tell nothing."""
MAX_SERVERS = 16
_LINE_BYTES, _SMALL_FILE_BYTES = 1 << 14, 1 << 18
_TICKS = os.sysconf("SC_CLK_TCK")
_DOCKER = "/var/lib/docker/containers"


class Servers:
    """Looks again at most every ``LOOK_S``. ``data_dir`` is where the attempts are that a cookie may name."""

    def __init__(self, data_dir: str):
        self._data_dir = data_dir
        self._due: Dict[int, Tuple[float, int]] = {}
        """pid: (when its command line is read again, how often it was)."""
        self._lines: Dict[int, bytes] = {}
        """Command lines of servers, as they were read last."""
        self._facts: Dict[int, Dict[str, Any]] = {}
        """What does not change while a server lives."""
        self._hidden: Set[int] = set()
        self._own_place = managers.parse(_text("/proc/self/cgroup") or "")
        self._next_s = float("-inf")
        self._found: Optional[List[Dict[str, Any]]] = None
        self._looked_s: Optional[float] = None

    def view(self) -> Tuple[Optional[List[Dict[str, Any]]], Optional[float], Optional[str]]:
        """The servers, when they were looked for, and why there may be more (null: nothing was hidden). All None before the first look."""
        now = boot_s()
        if now >= self._next_s:
            if self._look(now):
                self._found = self._describe(now)
                self._looked_s = round(now, 3)
            self._next_s = now + max(LOOK_S, _COST * (boot_s() - now))
        return self._found, self._looked_s, self._unseen() if self._found is not None else None

    def _look(self, now: float) -> bool:
        """Read command lines that are new or due; False when that was not all of them."""
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        for gone in set(self._due) - pids:
            self._forget(gone)
        left = _READS
        for pid in sorted(pids - set(self._due)) + [pid for pid, (due_s, _) in self._due.items() if due_s <= now or pid in self._lines]:
            if not left:
                break
            left -= 1
            times = self._due.get(pid, (0.0, 0))[1]
            self._due[pid] = (now + _AGAIN_S[min(times, len(_AGAIN_S) - 1)], times + 1)
            self._read(pid)
        return pids <= set(self._due)

    def _read(self, pid: int) -> None:
        self._hidden.discard(pid)
        try:
            data = _head("/proc/%d/cmdline" % pid, _LINE_BYTES)
        except PermissionError:
            self._hidden.add(pid)
            data = b""
        except OSError:
            data = b""
        if data and server_lines.recognise(_words(data)) is not None:
            if self._lines.get(pid) != data:
                self._facts.pop(pid, None)
            self._lines[pid] = data
        else:
            self._lines.pop(pid, None)
            self._facts.pop(pid, None)

    def _forget(self, pid: int) -> None:
        del self._due[pid]
        self._lines.pop(pid, None)
        self._facts.pop(pid, None)
        self._hidden.discard(pid)

    def _describe(self, now: float) -> List[Dict[str, Any]]:
        stats = {pid: procs.read_stat(pid) for pid in self._lines}
        found = []
        for pid, stat in sorted(stats.items()):
            if stat is None or stat.state in procs.DEAD or self._lines.get(stat.ppid) == self._lines[pid]:
                continue  # ended, or a fork that has not renamed itself
            known = self._facts.get(pid)
            if known is None or known["start_ticks"] != stat.start_ticks:
                known = self._facts[pid] = self._first_look(pid, stat)
            found.append(self._now(known, now))
        return found[:MAX_SERVERS]

    def _first_look(self, pid: int, stat: procs.Stat) -> Dict[str, Any]:
        words = _words(self._lines[pid])
        line = server_lines.recognise(words)
        assert line is not None  # only such lines are kept
        uid = _uid(pid)
        cgroup = _text("/proc/%d/cgroup" % pid)
        place = managers.seen_from(managers.parse(cgroup or ""), self._own_place)
        inner = place.containers[-1] if place.containers else None
        container = None if inner is None else "%s %s" % (inner.runtime, _container_name(inner) or inner.id[:12])
        owner = probe.user_name(uid if place.unit_uid is None else place.unit_uid)
        return {
            "pid": pid,
            "start_ticks": stat.start_ticks,
            "engine": line.engine,
            "argv": server_lines.shown(words),
            "model": server_lines.model(line),
            "user": probe.user_name(uid),
            "unit": place.unit if cgroup is not None else missing(NO_PERMISSION),
            "container": container if cgroup is not None else missing(NO_PERMISSION),
            "own_net": sockets.own_network(pid),
            "ours": self._ours(pid),
            "how_to_stop": managers.how_to_stop(place, pid, str(owner), os.geteuid(), uid == os.geteuid()),
        }

    def _now(self, known: Dict[str, Any], now: float) -> Dict[str, Any]:
        """The facts, and what may have changed: its port (a server listens once it has loaded), its age, whether our attempt lives."""
        pid, attempt = known["pid"], known["ours"]
        line = server_lines.recognise(_words(self._lines[pid]))
        assert line is not None
        port, port_from = _port(line, pid)
        up_s = round(max(0.0, now - known["start_ticks"] / _TICKS), 1)
        row = dict(known, port=port, port_from=port_from, up_s=up_s)
        if isinstance(attempt, dict) and ours.lives(self._data_dir, attempt):
            row["how_to_stop"] = "eaglewatch stop HOST --run %s --stage %s" % (attempt["run"], attempt["stage"])
        return row

    def _ours(self, pid: int) -> Any:
        """As ``ours.attempt_of``; a missing word where the environment may not be read."""
        try:
            return ours.attempt_of(pid, self._data_dir)
        except OSError as error:
            return probe.word_for(error)

    def _unseen(self) -> Optional[str]:
        if not os.path.exists("/proc/1"):
            return missing(NO_PERMISSION, "this system hides other users' processes (hidepid)")
        if self._hidden:
            return missing(NO_PERMISSION, "%d processes do not show their command lines" % len(self._hidden))
        servers = len(self._found or ())
        return "more than %d servers" % MAX_SERVERS if servers == MAX_SERVERS and len(self._lines) > servers else None


def _port(line: server_lines.Line, pid: int) -> Tuple[Optional[int], str]:
    """The port and where it is known from: ``listening`` (the process has that socket), ``argument``, or ``assumed`` (the default)."""
    if not server_lines.has_port(line):
        return None, "argument"
    asked = server_lines.port(line)
    expected = server_lines.DEFAULT_PORTS[line.engine] if asked is None else asked
    there = sockets.listening_ports(pid) or set()
    if expected in there:
        return expected, "listening"
    if asked is None and len(there) == 1:  # named by a configuration file
        return there.pop(), "listening"
    return expected, "assumed" if asked is None else "argument"


def _container_name(container: managers.Container) -> Optional[str]:
    """Docker's name of it, from the file that only root may read; asking its socket could keep the agent waiting."""
    if container.runtime != "docker":
        return None
    try:
        value = loads(_head(os.path.join(_DOCKER, container.id, "config.v2.json"), _SMALL_FILE_BYTES).decode("utf-8", "replace"))
        return str(value["Name"]).lstrip("/")[:80]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _uid(pid: int) -> Optional[int]:
    try:
        return os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return None


def _words(data: bytes) -> List[str]:
    return [word.decode("utf-8", "replace") for word in data.rstrip(b"\0").split(b"\0")]


def _text(path: str) -> Optional[str]:
    try:
        return _head(path, 1 << 16).decode("utf-8", "replace")
    except OSError:
        return None


def _head(path: str, size: int) -> bytes:
    """At most ``size`` bytes of a file. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, size)
    finally:
        os.close(fd)
