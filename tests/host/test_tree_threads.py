"""A process whose first thread sleeps while another hangs in the kernel is told as state D, once nothing is read or written any more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.host import procs
from pipeline.host.tree_stats import tree_stats
from tests.host.host_launches import wait_for

HANGS = """
import os, sys, threading
def hang():
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)])
threading.Thread(target=hang, daemon=True).start()
threading.Event().wait()
"""
"""The thread waits in state D for its child to begin, which waits for a writer of the FIFO."""


def walk(pid: int, before: "dict | None" = None) -> "dict":
    stat = procs.read_stat(pid)
    assert stat is not None
    return tree_stats([stat], before)


def states(pid: int, before: "dict | None") -> "dict[str, int]":
    return walk(pid, before)["states"]


@pytest.fixture
def hanging(tmp_path: Path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = subprocess.Popen([sys.executable, "-c", HANGS, str(fifo)])
    yield process
    process.kill()
    os.close(os.open(fifo, os.O_RDWR | os.O_NONBLOCK))
    process.wait()


def test_a_thread_in_state_d_shows(hanging: "subprocess.Popen[bytes]") -> None:
    wait_for(lambda: states(hanging.pid, walk(hanging.pid)) == {"D": 1})
    quiet = walk(hanging.pid)
    assert quiet["states"] == {"S": 1}, "the first look of all is a cheap one"
    assert states(hanging.pid, {**quiet, "write_bytes": quiet["write_bytes"] - (1 << 20)}) == {"S": 1}, "it writes: not looked at"
    assert states(hanging.pid, {**quiet, "read_bytes": None}) == {"S": 1}, "not known whether it reads"


def test_threads_that_sleep_are_no_matter() -> None:
    code = "import threading as t; t.Thread(target=t.Event().wait, daemon=True).start(); input()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    try:
        wait_for(lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 2)
        wait_for(lambda: states(process.pid, walk(process.pid)) == {"S": 1})
    finally:
        process.kill()
        process.wait()
