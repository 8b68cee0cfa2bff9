"""Watch only: a directory that grows, with a process and a log beside it if they are named, told as an attempt's view.

Nothing is launched for it on the host but a child that looks (``observe_child``), nothing is signalled, and nothing is written.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Optional

from pipeline.contract import telemetry
from pipeline.contract.clock import boot_s
from pipeline.host import child_pipes, observe_view, probe, procs, spawn
from pipeline.host.errors import FAILED, MISSING, USAGE, RequestError
from pipeline.host.tree_stats import tree_stats

ANSWER_S = 20.0
"""A directory that has not answered by then is on a storage that hangs."""
AGAIN_S = 5.0
"""A child that ended is replaced, not more often than that."""
_MAX_TOTAL = 1 << 53
_MAX_LINE_BYTES = 1 << 18


class Observer:
    """What this agent observes, if anything: one directory at a time."""

    def __init__(self, code_dir: str):
        self._code_dir = code_dir
        self._watched: Optional[Observation] = None

    def ask(self, request: Dict[str, Any]) -> Callable[[], Optional[Dict[str, Any]]]:
        """The op ``observe``: a poll for its reply. ``dir`` null ends it. Raises RequestError."""
        if request.get("dir") is None:
            self.close()
            return dict
        new = Observation(request, self._code_dir)
        self.close()
        self._watched = new

        def answered() -> Optional[Dict[str, Any]]:
            if self._watched is not new:
                raise RequestError(FAILED, "another directory was named meanwhile")
            try:
                return new.answer()
            except RequestError:
                self.close()
                raise

        return answered

    def tick(self) -> None:
        if self._watched is not None:
            self._watched.tick()

    def view(self) -> Optional[Dict[str, Any]]:
        """The frame's ``observed``; None: nothing is, or not yet looked at."""
        return None if self._watched is None else self._watched.view()

    def close(self) -> None:
        if self._watched is not None:
            self._watched.close()
            self._watched = None


class Observation:
    """One directory. Raises RequestError for a request that makes no sense."""

    def __init__(self, request: Dict[str, Any], code_dir: str):
        self.directory, self.log = _path(request.get("dir"), "dir"), None
        if request.get("log") is not None:
            self.log = _path(request["log"], "log")
        self.total = _whole(request.get("total"), "total", 1, _MAX_TOTAL)
        self.began_boot_s = round(boot_s(), 3)
        self.notes: List[str] = []
        self.who: Optional[Dict[str, Any]] = None
        """Identity of the process; None: none was named."""
        self.process_boot_s: Optional[float] = None
        if isinstance(request.get("process"), dict):  # of an earlier agent's reply: it may have gone since
            self.who = request["process"]
            self.process_boot_s = telemetry.number(request.get("process_boot_s"))
        elif request.get("pid") is not None:
            self._find(_whole(request["pid"], "pid", 1, 1 << 22))
        self.before = _before(request.get("began"))
        """{boot_s, files} of an earlier agent's look, which this one goes on from."""
        since = None if self.process_boot_s is None else time.time() - (boot_s() - self.process_boot_s)
        what = json.dumps({"dir": self.directory, "log": self.log, "since_wall_s": since})
        self._command = [sys.executable, "-u", "-s", "-S", code_dir, "observe-dir", what]
        self._ready = False
        self._child = self._start()
        self.seen: Optional[Dict[str, Any]] = None
        """The child's newest line."""
        self._tree: Optional[Dict[str, Any]] = None

    def _start(self) -> "subprocess.Popen[bytes]":
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        child = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=null, bufsize=0, env=spawn.clean_environment())
        assert child.stdout is not None
        os.set_blocking(child.stdout.fileno(), False)
        self._rest, self._started_s = b"", boot_s()
        return child

    def _find(self, pid: int) -> None:
        stat = procs.read_stat(pid)
        if stat is None or stat.state in procs.DEAD:
            raise RequestError(
                MISSING, "no process %d on this host that this user can see" % pid, "leave --pid out to watch the files alone"
            )
        self.who = procs.identity(pid)
        self.process_boot_s = round(stat.start_ticks / os.sysconf("SC_CLK_TCK"), 3)  # both of CLOCK_BOOTTIME
        uid = os.stat("/proc/%d" % pid).st_uid
        if uid != os.getuid():
            self.notes.append(
                "process %d is %s's: its states and CPU time are read, what it reads and writes cannot be" % (pid, probe.user_name(uid))
            )

    def answer(self) -> Optional[Dict[str, Any]]:
        """The reply of ``observe``, or None: ask again. Raises RequestError."""
        self.tick()
        if self.seen is not None and "error" in self.seen:
            raise RequestError(self.seen["error"]["kind"], self.seen["error"]["message"], "name a directory that is there and readable")
        if self._ready:
            process = {"process": self.who, "process_boot_s": self.process_boot_s}
            return dict(process, dir=self.directory, notes=self.notes, user=probe.user_name(os.getuid()))
        if self._child.poll() is not None:
            raise RequestError(FAILED, "the look at %s ended with exit code %s" % (self.directory, self._child.returncode))
        if boot_s() - self.began_boot_s > ANSWER_S:
            raise RequestError(FAILED, "%s does not answer for %.0f s: its storage hangs" % (self.directory, ANSWER_S))
        return None

    def tick(self) -> None:
        """Take what the child has told."""
        assert self._child.stdout is not None
        *lines, self._rest = (self._rest + child_pipes.drain(self._child.stdout)).split(b"\n")
        self._rest = self._rest[:_MAX_LINE_BYTES]
        for line in lines:
            try:
                told = json.loads(line.decode("utf-8", "replace"))
            except ValueError:  # cut by a full pipe: the next line tells the same
                continue
            if "ready" in told:
                self._ready = True
            else:
                self.seen = told
                if self.before is None and told.get("count") is not None:
                    self.before = {"boot_s": told["boot_s"], "files": told["count"]["files"]}

    def view(self) -> Optional[Dict[str, Any]]:
        """As ``telemetry.ATTEMPT``; None before the child has told anything."""
        self.tick()
        if self._ready and self._child.poll() is not None and boot_s() - self._started_s > AGAIN_S:
            self.close()  # somebody ended it: what it told last has its age, and another one looks
            self._child = self._start()
        if self.seen is None or "error" in self.seen:
            return None
        state, why = telemetry.RUNNING, "the directory is looked at; no process was named"
        tree = None
        if self.who is not None:
            tree = self._look_at_tree()
            state, why = telemetry.RUNNING, "process %s lives" % self.who.get("pid")
            if tree is None:
                state, why = telemetry.ENDED_UNKNOWN, "process %s has gone; how it ended is not known here" % self.who.get("pid")
        return observe_view.view(self, self.seen, state, why, tree)

    def _look_at_tree(self) -> Optional[Dict[str, Any]]:
        assert self.who is not None
        now = boot_s()
        if self._tree is not None and now - self._tree["boot_s"] < 0.9:
            return self._tree
        before, self._tree = self._tree, None
        if procs.alive(self.who):
            pid = self.who["pid"]
            stats = [stat for one in sorted({pid} | procs.descendants([pid])) for stat in [procs.read_stat(one)] if stat is not None]
            self._tree = dict(tree_stats(stats, before), boot_s=round(now, 3))
        return self._tree

    def close(self) -> None:
        """The child ends with its stdin; one that hangs in the kernel stays until it can."""
        for file in (self._child.stdin, self._child.stdout):
            if file is not None:
                file.close()
        child_pipes.kill(self._child)


def _path(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise RequestError(USAGE, "%s must be a path" % name)
    path = os.path.expanduser(value)
    if not os.path.isabs(path):
        raise RequestError(USAGE, "%s %r: give an absolute path, or one that begins with ~/" % (name, value))
    return os.path.normpath(path)


def _whole(value: Any, name: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise RequestError(USAGE, "%s %r: give a whole number from %d to %d" % (name, value, least, most))
    return value


def _before(value: Any) -> Optional[Dict[str, Any]]:
    """What an earlier agent of the same watch saw first; None for another boot's, or none."""
    if not isinstance(value, dict) or value.get("boot_id") != procs.this_boot():
        return None
    files, when = value.get("files"), telemetry.number(value.get("boot_s"))
    return {"boot_s": when, "files": files} if type(files) is int and files >= 0 and when is not None and when <= boot_s() else None
