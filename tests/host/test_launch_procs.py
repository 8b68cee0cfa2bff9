"""Processes: identity, trees, and signals that only reach who was meant."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_launches import ROOT, find_pythons, wait_for

from pipeline.host import procs
from pipeline.host.tree_stats import tree_stats


@pytest.fixture
def odd() -> Iterator[subprocess.Popen[bytes]]:
    """A process whose name holds blanks and brackets."""
    name = "a) S 1 (b"
    code = f"open('/proc/self/comm', 'w').write({name!r})\nimport time; time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    wait_for(lambda: Path(f"/proc/{process.pid}/comm").read_text() == name + "\n")
    yield process
    process.kill()
    process.wait()


def test_stat_of_a_process_with_an_odd_name(odd: "subprocess.Popen[bytes]") -> None:
    stat = procs.read_stat(odd.pid)
    assert stat is not None
    assert (stat.ppid, stat.session) == (os.getpid(), odd.pid)
    assert stat.state in "SRD" and stat.rss_bytes > 1 << 20
    assert procs.scan()[odd.pid].start_ticks == stat.start_ticks


def test_alive_needs_the_whole_identity(odd: "subprocess.Popen[bytes]") -> None:
    who = procs.identity(odd.pid)
    assert procs.alive(who)
    for other in (
        {"start_ticks": who["start_ticks"] + 1},
        {"boot_id": "x"},
        {"pid_ns": 1},
        {"pid": True},
        {"pid": "1"},
        {"start_ticks": None},
    ):
        assert not procs.alive({**who, **other})
        assert not procs.signal_process({**who, **other}, signal.SIGKILL)
    for nobody in (None, {}, [], "x"):
        assert not procs.alive(nobody)
    assert not procs.signal_process(procs.identity(1), 0) and not procs.signal_process(procs.identity(), 0)
    assert procs.signal_process(who, signal.SIGKILL)
    wait_for(lambda: not procs.alive(who))
    stat = procs.read_stat(odd.pid)
    assert stat is not None and stat.state == "Z", "a zombie is dead, though it is still there"
    assert not procs.alive(who)


FIRST_THREAD_LEAVES = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
print("ready", flush=True)
ctypes.CDLL(None).syscall(60 if __import__("os").uname().machine == "x86_64" else 93, 0)
"""


def test_a_process_whose_first_thread_has_left_is_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", FIRST_THREAD_LEAVES], stdout=subprocess.PIPE, text=True)
    try:
        who = procs.identity(process.pid)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        wait_for(lambda: Path(f"/proc/{process.pid}/stat").read_text().split()[2] == "Z")
        assert procs.alive(who)
        process.kill()
        wait_for(lambda: not procs.alive(who))
    finally:
        process.kill()
        process.communicate()


def test_descendants_with_and_without_the_kernels_lists() -> None:
    process = subprocess.Popen(["sh", "-c", "sleep 600 & (sleep 600 & wait) & wait"], start_new_session=True)
    try:
        found = wait_for(lambda: len(procs.descendants([process.pid])) == 3 and procs.descendants([process.pid]))
        assert process.pid not in found
        assert procs.descendants([process.pid], procs.scan()) == found
        stats = [stat for stat in (procs.read_stat(pid) for pid in found) if stat is not None]
        assert tree_stats(stats)["procs"] == 3
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


SIGNAL_38 = """
import os, select, sys
sys.path.insert(0, sys.argv[1])
from pipeline.host import procs
from pipeline.host.tree_stats import tree_stats
pid = int(sys.argv[2])
fd = procs.open_pidfd(pid)
assert fd is not None and not select.select([fd], [], [], 0)[0]
who = procs.identity(pid)
assert not procs.signal_process(dict(who, start_ticks=who["start_ticks"] + 1), 9)
assert procs.signal_process(who, 9)
assert select.select([fd], [], [], 30)[0], "the end is told to somebody who is not the parent"
assert procs.become_subreaper()
"""


def test_children_count_also_when_a_thread_ends_meanwhile(odd: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch) -> None:
    listed = os.listdir
    monkeypatch.setattr(procs.os, "listdir", lambda path: ["4194305", *listed(path)])  # a thread that is gone by the time it is read
    assert odd.pid in procs.descendants({os.getpid()})


@pytest.mark.parametrize("python", find_pythons())
def test_pidfd_on_a_process_that_is_no_child(python: str) -> None:
    """Under 3.8 this goes through the bare system calls."""
    victim = subprocess.Popen(["sleep", "600"])
    try:
        subprocess.run([python, "-s", "-S", "-c", SIGNAL_38, str(ROOT), str(victim.pid)], check=True, timeout=60)
        assert victim.wait(30) == -signal.SIGKILL
    finally:
        victim.kill()
        victim.wait()


def test_open_pidfd_of_nobody() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(ProcessLookupError):
        procs.open_pidfd(process.pid)
