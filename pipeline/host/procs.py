"""Processes of this host, read from /proc, and signals that only reach the process that was meant.

A process is known by boot id, pid, start ticks and pid namespace together; a pid alone is never believed. Zombies count as dead:
where pid 1 does not reap, they stay for good. Source of the fields: proc(5).
"""

import errno
import os
import signal
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Set

from pipeline.contract import clock

COOKIE = "EAGLEWATCH_ATTEMPT"
"""Environment variable that every process of an attempt inherits: its attempt id."""

DEAD = "ZXx"
"""States of a process that has ended."""
_PIDFD_OPEN, _PIDFD_SEND_SIGNAL = 434, 424
"""Syscall numbers, the same on every architecture that CPython 3.8 is used on here (x86-64, arm64, ppc64le)."""
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_own: Dict[str, Any] = {}


class Stat(NamedTuple):
    """What /proc/PID/stat says."""

    pid: int
    state: str
    ppid: int
    session: int
    start_ticks: int
    cpu_s: float
    """User and system time, that of children it has waited for included, so that the sum over a tree never goes back."""
    rss_bytes: int


def read_stat(pid: int) -> Optional[Stat]:
    """None when there is no such process, or it cannot be read."""
    try:
        data = _read(f"/proc/{pid}/stat")
        fields = data[data.rindex(b")") + 2 :].split()  # the name before it may hold blanks and brackets
        cpu = sum(int(fields[at]) for at in (11, 12, 13, 14))
        # A zombie with threads is a process whose first thread has left; it lives on in the others.
        state = "S" if fields[0] == b"Z" and int(fields[17]) > 1 else fields[0].decode()
        return Stat(pid, state, int(fields[1]), int(fields[3]), int(fields[19]), cpu / _TICKS, int(fields[21]) * _PAGE_BYTES)
    except (OSError, ValueError, IndexError):
        return None


def identity(pid: Optional[int] = None) -> Dict[str, Any]:
    """{boot_id, pid, start_ticks, pid_ns} of a process, by default this one. ``start_ticks`` is None when it is gone."""
    stat = read_stat(os.getpid() if pid is None else pid)
    return {
        "boot_id": this_boot(),
        "pid": os.getpid() if pid is None else pid,
        "start_ticks": stat.start_ticks if stat else None,
        "pid_ns": this_pid_ns(),
    }


def this_boot() -> str:
    if "boot_id" not in _own:
        _own["boot_id"] = clock.boot_id()
    return _own["boot_id"]


def this_pid_ns() -> int:
    """Inode of this process's pid namespace; 0 where the kernel does not tell."""
    if "pid_ns" not in _own:
        try:
            _own["pid_ns"] = os.stat("/proc/self/ns/pid").st_ino
        except OSError:
            _own["pid_ns"] = 0
    return _own["pid_ns"]


def alive(who: Any) -> bool:
    """Whether the process of an identity lives here and now. False for anything that is not a whole identity."""
    if not isinstance(who, dict):
        return False
    pid, ticks = who.get("pid"), who.get("start_ticks")
    if not isinstance(pid, int) or not isinstance(ticks, int) or pid <= 0:
        return False
    if who.get("boot_id") != this_boot() or who.get("pid_ns", this_pid_ns()) != this_pid_ns():
        return False
    stat = read_stat(pid)
    return stat is not None and stat.start_ticks == ticks and stat.state not in DEAD


def scan() -> Dict[int, Stat]:
    """Every process that is not a zombie."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = read_stat(int(name))
            if stat is not None and stat.state not in DEAD:
                found[stat.pid] = stat
    return found


def descendants(roots: Iterable[int], everything: Optional[Dict[int, Stat]] = None) -> Set[int]:
    """Children of ``roots``, their children and so on, without the roots. ``everything`` (a scan) is used instead of the kernel's lists."""
    if everything is None and not os.path.exists("/proc/thread-self/children"):  # kernel without CONFIG_PROC_CHILDREN
        everything = scan()
    by_parent: Dict[int, List[int]] = {}
    for stat in (everything or {}).values():
        by_parent.setdefault(stat.ppid, []).append(stat.pid)
    roots = set(roots)
    found: Set[int] = set()
    todo = list(roots)
    while todo:
        parent = todo.pop()
        for child in _children(parent) if everything is None else by_parent.get(parent, ()):
            if child not in found and child not in roots:
                found.add(child)
                todo.append(child)
    return found


def _children(pid: int) -> List[int]:
    found: List[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found  # it ended meanwhile; what it left is found by the next look
    for thread in threads:
        try:
            found.extend(int(one) for one in _read(f"/proc/{pid}/task/{thread}/children").split())
        except (OSError, ValueError):
            continue  # this thread ended meanwhile; the children of the others count all the same
    return found


def by_cookie(attempt: str, pids: Iterable[int]) -> Set[int]:
    """Those of ``pids`` whose environment at exec held the attempt's cookie."""
    wanted = b"\0" + (f"{COOKIE}={attempt}").encode() + b"\0"
    found = set()
    for pid in pids:
        try:
            if wanted in b"\0" + _read(f"/proc/{pid}/environ") + b"\0":
                found.add(pid)
        except OSError:
            continue  # gone, or another user's
    return found


def is_of_user(pid: int, uid: int) -> bool:
    """Whether its real and its effective user are this one: what somebody else runs under this user's name (set-user-ID) is not."""
    try:
        line = next(one for one in _read(f"/proc/{pid}/status").splitlines() if one.startswith(b"Uid:"))
        return [int(word) for word in line.split()[1:3]] == [uid, uid]
    except (OSError, ValueError, StopIteration):
        return False


def open_pidfd(pid: int) -> Optional[int]:
    """A descriptor that is readable once the process has ended; None when this kernel gives none. Raises ProcessLookupError."""
    try:
        if hasattr(os, "pidfd_open"):
            return os.pidfd_open(pid)  # type: ignore[attr-defined]
        fd = _syscall(_PIDFD_OPEN, pid, 0)
        os.set_inheritable(fd, False)
        return fd
    except ProcessLookupError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.EMFILE, errno.ENODEV):
            return None
        raise


def signal_process(who: Dict[str, Any], number: int, check: Callable[[], bool] = lambda: True) -> bool:
    """Send a signal to exactly this process; False when it is gone, is another one by now, or may not be signalled.

    The descriptor pins the process first; its start ticks are compared after, and ``check`` asked, so a reused pid is never hit.
    """
    pid = who.get("pid")
    if not isinstance(pid, int) or pid <= 1 or pid == os.getpid():
        return False
    try:
        fd = open_pidfd(pid)
    except ProcessLookupError:
        return False
    try:
        if not alive(who) or not check():
            return False
        if fd is None:
            os.kill(pid, number)
        elif hasattr(signal, "pidfd_send_signal"):
            signal.pidfd_send_signal(fd, number)  # type: ignore[attr-defined]
        else:
            _syscall(_PIDFD_SEND_SIGNAL, fd, number, None, 0)
        return True
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if fd is not None:
            os.close(fd)


def become_subreaper(become: bool = True) -> bool:
    """Make this process the one that orphans below it fall to (PR_SET_CHILD_SUBREAPER), or not any more; False when the system has no
    such thing.
    """
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True).prctl(36, int(become), 0, 0, 0) == 0
    except (ImportError, OSError, AttributeError):
        return False


def _syscall(number: int, *arguments: Any) -> int:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(number, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        parts = []
        while True:
            part = os.read(fd, 1 << 16)
            if not part:
                return b"".join(parts)
            parts.append(part)
    finally:
        os.close(fd)
