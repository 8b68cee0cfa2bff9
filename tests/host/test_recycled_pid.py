"""A pid that the kernel has given to another process since the confirmation: that one is never signalled."""

import subprocess
import sys

from host_launches import ROOT

RECYCLED = """
import os, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from pipeline.host import free_signals, holder_rows, procs
command = ["sleep", "600"]
first = subprocess.Popen(command)
row = dict(procs.identity(first.pid), uid=holder_rows.user_id(first.pid), exe=holder_rows.program(first.pid))
while row["exe"] is None or "sleep" not in row["exe"]:
    row["exe"] = holder_rows.program(first.pid)
first.kill()
first.wait()
time.sleep(0.05)
with open("/proc/sys/kernel/ns_last_pid", "w") as file:
    file.write(str(first.pid - 1))
second = subprocess.Popen(command)
assert second.pid == first.pid, (second.pid, first.pid)
while holder_rows.program(second.pid) != row["exe"]:
    time.sleep(0.01)
print(free_signals.send(row, 9), second.poll())
now = dict(row, **procs.identity(second.pid))
print(free_signals.send(now, 9), second.wait(10))
"""


def test_a_recycled_pid_is_never_hit() -> None:
    """In a pid namespace of its own, where the next pid can be chosen."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c", RECYCLED, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.split("\n") == ["gone None", "sent -9", ""], done.stderr
