"""The operation ``dump``: the stacks of a job's processes, without stopping or ending any of them.

In a process of its own with a deadline. py-spy where the host has it; else faulthandler, by SIGUSR1, and only to a process that has told in
its attempt's directory that it is registered; and always what /proc tells.
"""

import os
import re
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from pipeline.contract import events, layout
from pipeline.contract.files import read_json, write_bytes
from pipeline.contract.telemetry import LIVE_STATES
from pipeline.host import asked, asked_child, audit, dump_stacks, operations, procs, state
from pipeline.host.errors import MISSING, RequestError
from pipeline.host.members import Members

MAX_BYTES = 1 << 20
MOST_PROCESSES = 64
_NO_TEXT = re.compile(r"[^\n\t -~]")
"""A control character is six bytes on the wire."""
_LONGEST_S, _DEADLINE_S = 50.0, 80.0
"""Begin no process after the first; one may take PY_SPY_S twice, and whoever is ended by the second leaves its py-spy at the job."""


def ask(data_dir: str, request: Dict[str, Any], code_dir: str) -> Callable[[], Optional[Dict[str, Any]]]:
    """A poll for {"how", "text", "pids", "trouble"} of a live attempt. Raises RequestError."""
    directory = operations.attempt_dir(data_dir, request, live=True)
    if state.view(directory)["state"] not in LIVE_STATES:
        raise RequestError(MISSING, "attempt %s has ended: there are no stacks to take" % os.path.basename(directory))
    who = asked.by(request)
    audit.asked(os.path.abspath(data_dir), "dump", dict(request, attempt=os.path.basename(directory)))
    child = asked_child.AskedChild("the stack dump", code_dir, ["dump", directory, who], _DEADLINE_S)
    return child.poll


def take(directory: str) -> Dict[str, Any]:
    """Look at every process of the attempt: {how, text, pids, trouble}. Raises RequestError when there is none to be found."""
    ident, spec = read_json(os.path.join(directory, layout.IDENT)), read_json(os.path.join(directory, layout.SPEC)) or {}
    if ident is None or ident.get("pid_ns") != procs.this_pid_ns():
        raise RequestError(MISSING, "its processes cannot be seen from here: no readable %s of this pid namespace" % layout.IDENT)
    stats = sorted(Members(ident, procs.descendants({os.getpid()})).everything(), key=lambda one: (one.pid != ident.get("pid"), one.pid))
    if not stats:
        raise RequestError(MISSING, "none of its processes lives any more")
    end_s = time.monotonic() + _LONGEST_S
    program = dump_stacks.py_spy(str(spec.get("interpreter") or ""))
    used: List[str] = []
    trouble: List[str] = []
    parts = ["%s: %d processes, %s\n" % (os.path.basename(directory), len(stats), time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()))]
    for stat in stats[:MOST_PROCESSES]:
        parts.append("\n== pid %d ==\n%s" % (stat.pid, dump_stacks.of_proc(stat.pid)))
        if time.monotonic() > end_s:
            trouble.append("pid %d and those after it: no time left" % stat.pid)
            break
        how, text, why = _stacks(directory, ident, stat, program)
        used += [how] if how and how not in used else []
        trouble += ["pid %d: %s" % (stat.pid, why)] if why else []
        parts.append(text)
    if len(stats) > MOST_PROCESSES:
        trouble.append("%d more processes were not looked at" % (len(stats) - MOST_PROCESSES))
    text = _NO_TEXT.sub("?", "".join(parts))[:MAX_BYTES]
    return {"how": " and ".join(used) or "proc", "text": text, "pids": [one.pid for one in stats], "trouble": "; ".join(trouble)[:2000]}


def _stacks(directory: str, ident: Dict[str, Any], stat: procs.Stat, program: Optional[str]) -> Tuple[str, str, str]:
    """(how, text, trouble) of one process."""
    if program is not None and dump_stacks.is_python(stat.pid):
        text, why = dump_stacks.by_py_spy(program, stat)
        if text:
            return "py-spy", text, ""
        other = dump_stacks.by_signal(directory, ident, stat)
        return ("faulthandler", other, "") if other else ("", "", why)
    text = dump_stacks.by_signal(directory, ident, stat)
    return ("faulthandler", text, "") if text else ("", "", "")


def keep(directory: str, taken: Dict[str, Any], who: str) -> str:
    """Write it into the attempt and tell it; returns why that did not work, or ""."""
    folder = os.path.join(directory, layout.DUMPS)
    name = time.strftime("%Y%m%d-%H%M%S", time.gmtime()) + ".txt"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        write_bytes(os.path.join(folder, name), taken["text"].encode())
        path = os.path.join(layout.DUMPS, name)
        events.append_event(directory, "agent", events.DUMP, how=taken["how"], path=path, who=who)
    except OSError as error:
        return "it is not kept on the host: %s" % error.strerror
    return ""


def main(arguments: List[str]) -> int:
    """``dump ATTEMPT_DIR BY``."""
    if len(arguments) != 2:
        print("use: dump ATTEMPT_DIR BY", file=sys.stderr)
        return 2
    try:
        taken = take(arguments[0])
    except RequestError as error:
        print(error, file=sys.stderr)
        return 1
    not_kept = keep(arguments[0], taken, arguments[1])
    taken["trouble"] = "; ".join(filter(None, (taken["trouble"], not_kept)))
    asked_child.answer(taken)
    return 0
