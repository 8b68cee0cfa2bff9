"""Jobs that tests launch, and what they ask of the processes around them."""

import os
import signal
from typing import Any

from host_launches import Host, running, wait_for

from pipeline.contract import layout
from pipeline.host import locks, procs, stop

FAMILY = """
import os, signal, subprocess, sys, time
out, ignore = sys.argv[-2], sys.argv[-1] == "ignore"
if ignore:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

def note(kind):
    with open(out, "a") as file:
        file.write(f"{kind} {os.getpid()}\\n")

def rest():
    time.sleep(600)

def child(kind, session=False, daemon=False, empty=False):
    if os.fork():
        return
    if session or daemon:
        os.setsid()
    if daemon and os.fork():
        os._exit(0)
    note(kind)
    if empty:
        code = "import time, signal; %stime.sleep(600)" % ("signal.signal(15, 1); " if ignore else "")
        os.execve(sys.executable, [sys.executable, "-c", code], {})
    rest()

child("plain")
child("session", session=True)
child("daemon", daemon=True)
child("empty", empty=True)
child("empty-daemon", daemon=True, empty=True)
note("main")
"""
FAMILY_SIZE = 6


def family(host: Host, then: str = "rest()") -> str:
    return host.program(FAMILY + then, "family")


def family_pids(host: Host) -> dict[str, int]:
    wait_for(lambda: len(host.lines("family.txt")) == FAMILY_SIZE, "the whole family")
    return {kind: int(pid) for kind, pid in (line.split() for line in host.lines("family.txt"))}


def launch_family(host: Host, mode: str = "obey", then: str = "rest()") -> tuple[str, dict[str, int]]:
    begun = host.begin(family(host, then), args=[str(host.scratch / "family.txt"), mode])
    begun.poll()
    pids = family_pids(host)
    wait_for(begun.poll)
    return begun.directory, pids


def exits_on_request(host: Host, code: int = 7) -> str:
    """A job that ends with ``code`` once the file ``go`` is there."""
    return host.program(f"while [ ! -e {host.scratch}/go ]; do sleep 0.05; done; exit {code}", "waiter", shebang="/bin/sh")


def let_go(host: Host) -> None:
    (host.scratch / "go").touch()


def supervisor_pid(host: Host, directory: str) -> int:
    """The live supervisor's pid."""
    path = os.path.join(directory, layout.SUPERVISOR_LOCK)
    return wait_for(lambda: procs.alive(locks.read_holder(path)) and locks.read_holder(path)["pid"], "a supervisor")


def last_supervisor(host: Host, directory: str) -> int:
    """The pid of the one that wrote the last heartbeat."""
    return host.read(directory, layout.STATUS)["supervisor"]["pid"]


def shim_pid(host: Host, directory: str) -> int:
    return host.holder(directory, layout.LOCK)["pid"]


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        wait_for(lambda pid=pid: not running(pid))


def ask_stop(host: Host, directory: str, grace_s: float | None = None, by: str = "tester") -> dict[str, Any]:
    return stop.request_stop(directory, by, grace_s, str(host.code_dir), host.python)


def kinds(host: Host, directory: str) -> list[str]:
    return [one["kind"] for one in host.events(directory)]


SLEEPER = "echo $$ >> {pids}\nexec sleep 600"


def sleeper(host: Host, pids: str = "pids") -> str:
    """A job that notes its pid and sleeps."""
    return host.program(SLEEPER.format(pids=host.scratch / pids), "sleeper-" + pids, shebang="/bin/sh")
