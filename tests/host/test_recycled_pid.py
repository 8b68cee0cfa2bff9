"""A pid that the kernel has given to another process since the confirmation: that one is never signalled."""

import signal
import subprocess
import sys
from typing import Any

import pytest
from host_launches import ROOT, wait_for

from pipeline.host import free_signals, holder_rows, procs

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
now = dict(row, image=holder_rows.image(second.pid), **procs.identity(second.pid))
print(free_signals.send(now, 9), second.wait(10))
"""


def test_a_recycled_pid_is_never_hit() -> None:
    """In a pid namespace of its own, where the next pid can be chosen."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c", RECYCLED, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.split("\n") == ["gone None", "sent -9", ""], done.stderr


@pytest.mark.parametrize("changed", [{"exe": "/usr/bin/another-program"}, {"uid": 65534}], ids=["program", "user"])
def test_a_process_that_is_not_what_was_confirmed_is_left_alone(changed: dict[str, Any]) -> None:
    """The same pid and start, but since the confirmation it has become another program, or another user's."""
    process = subprocess.Popen(["sleep", "600"])
    try:
        wait_for(lambda: "sleep" in str(holder_rows.program(process.pid)), "the program")
        look = {"uid": holder_rows.user_id, "exe": holder_rows.program, "image": holder_rows.image}
        row = dict(procs.identity(process.pid), **{name: of(process.pid) for name, of in look.items()})
        for number in (signal.SIGTERM, signal.SIGKILL):
            assert free_signals.send({**row, **changed}, number) == free_signals.CHANGED and process.poll() is None
        assert free_signals.send({**row, "start_ticks": row["start_ticks"] - 1}, signal.SIGKILL) == free_signals.GONE
        assert free_signals.send({**row, "boot_id": "another"}, signal.SIGKILL) == free_signals.GONE and process.poll() is None
        assert free_signals.send(row, signal.SIGKILL) == free_signals.SENT and process.wait(20) == -9
    finally:
        process.kill()
        process.wait()
