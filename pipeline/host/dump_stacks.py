"""The stacks of one process, by what the host has. Whatever happens, the process goes on as it was."""

import os
import re
import signal
import subprocess
import time
from typing import Any, Dict, List, Optional, Tuple

from pipeline.contract import layout
from pipeline.host import child_pipes, procs

PY_SPY_S = 10.0
_SIGNAL_S = 3.0
_COMMAND_LINE = re.compile(r"^(Process \d+):.*", re.MULTILINE)
"""py-spy tells it first; keys may be in it."""
_PIECE_BYTES = 1 << 18
_THREADS = 64
_FIELDS = ("Name", "State", "PPid", "Threads", "VmRSS", "SigCgt", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")


def py_spy(interpreter: str) -> Optional[str]:
    """Where py-spy is: beside the stage's interpreter, else on the PATH; None when nowhere."""
    folders = [os.path.dirname(interpreter)] if interpreter else []
    for folder in folders + os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, "py-spy")
        if folder and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def is_python(pid: int) -> bool:
    """Whether a process runs Python: its program, or a library that it has mapped."""
    try:
        if "python" in os.path.basename(os.readlink("/proc/%d/exe" % pid)):
            return True
        with open("/proc/%d/maps" % pid, "rb") as file:
            return b"libpython" in file.read(1 << 20)
    except OSError:
        return False


def by_py_spy(program: str, stat: procs.Stat) -> Tuple[str, str]:
    """(text, why there is none). First without stopping the process for the moment of reading; only one that runs or sleeps is stopped
    for that, when nothing else will do.
    """
    why = ""
    for options in (["--nonblocking"], []):
        now = procs.read_stat(stat.pid)
        if now is None or now.start_ticks != stat.start_ticks:
            return "", "it has ended"
        if not options and now.state not in "RS":
            break
        code, out, said = _run([program, "dump", "--pid", str(stat.pid), *options])
        _go_on(stat, now.state)
        if code == 0 and out.strip():
            return _COMMAND_LINE.sub(r"\1", out), ""
        why = "py-spy: %s" % (
            "no answer within %.0f s" % PY_SPY_S if code is None else (said.strip().splitlines() or ["exit code %d" % code])[-1]
        )
    return "", why[:200]


def by_signal(directory: str, ident: Dict[str, Any], stat: procs.Stat) -> str:
    """What faulthandler writes on SIGUSR1; "" without. Sent only to a process that has said so in a file of the attempt, is the one that
    said so, and catches the signal: to any other it would be the end.
    """
    path = os.path.join(directory, layout.stacks_file(stat.pid))
    who = {"boot_id": procs.this_boot(), "pid": stat.pid, "start_ticks": stat.start_ticks}
    try:
        with open(path, "rb") as file:
            said = file.readline(200).decode("ascii", "replace").split()
            before = file.seek(0, os.SEEK_END)
    except OSError:
        return ""
    if said != layout.stacks_head(stat.start_ticks).split() or stat.state in "Tt" or not catches(stat.pid, signal.SIGUSR1):
        return ""
    if not procs.signal_process(who, signal.SIGUSR1, lambda: catches(stat.pid, signal.SIGUSR1)):
        return ""
    return _grown(path, before)


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler of its own for a signal (SigCgt of /proc/PID/status)."""
    try:
        with open("/proc/%d/status" % pid, "rb") as file:
            line = next(one for one in file.read(1 << 16).splitlines() if one.startswith(b"SigCgt:"))
        return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except (OSError, ValueError, StopIteration, IndexError):
        return False


def of_proc(pid: int) -> str:
    """What the kernel tells of it: some of its status, what it waits in, and its kernel stack where that may be read; of each thread."""
    lines = [one for one in _text("/proc/%d/status" % pid).splitlines() if one.partition(":")[0] in _FIELDS]
    lines.append("wchan: %s" % (_text("/proc/%d/wchan" % pid).strip() or "-"))
    lines += ["kernel: " + one for one in _text("/proc/%d/stack" % pid).splitlines()[:40]]
    try:
        threads = sorted(int(one) for one in os.listdir("/proc/%d/task" % pid))
    except OSError:
        threads = []
    for thread in threads[:_THREADS]:
        at = "/proc/%d/task/%d/" % (pid, thread)
        stat = _text(at + "stat")
        where = stat.rpartition(")")[2].split()[:1]
        lines.append("thread %d %s %s in %s" % (thread, _text(at + "comm").strip(), "".join(where), _text(at + "wchan").strip() or "-"))
    return "\n".join(lines) + "\n"


def _run(command: List[str]) -> Tuple[Optional[int], str, str]:
    """(exit code, output, errors); None: it had to be ended."""
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True)
    except OSError as error:
        return 127, "", "cannot start: %s" % error.strerror
    try:
        out, said = process.communicate(timeout=PY_SPY_S)
    except subprocess.TimeoutExpired:
        child_pipes.kill(process)
        for file in (process.stdout, process.stderr):
            if file is not None:
                file.close()
        return None, "", ""
    return process.returncode, out[:_PIECE_BYTES].decode("utf-8", "replace"), said[:4096].decode("utf-8", "replace")


def _go_on(stat: procs.Stat, before: str) -> None:
    """A tracer that was ended in the wrong moment leaves its process stopped: it is not left so."""
    time.sleep(0.02)
    now = procs.read_stat(stat.pid)
    if now is not None and now.state in "Tt" and before not in "Tt":
        procs.signal_process({"boot_id": procs.this_boot(), "pid": stat.pid, "start_ticks": stat.start_ticks}, signal.SIGCONT)


def _grown(path: str, before: int) -> str:
    """What was written to it, once that stands still."""
    end_s, size = time.monotonic() + _SIGNAL_S, before
    while time.monotonic() < end_s:
        time.sleep(0.1)
        now = os.stat(path).st_size
        if now > before and now == size:
            break
        size = now
    with open(path, "rb") as file:
        file.seek(before)
        return file.read(_PIECE_BYTES).decode("utf-8", "replace")


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 16).decode("utf-8", "replace")
    except OSError:
        return ""
