"""Stack dumps: of a real stage by faulthandler, by a py-spy that hangs or answers, and never a signal to a process that would end by it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from agent_client import AgentClient
from host_launches import RUN, Host, running, stage_program, wait_for

from pipeline.contract import layout
from pipeline.host import dump, dump_stacks, procs

ROOT = Path(__file__).parents[2]

HANGS = """def here_it_hangs():
    while not os.path.exists('go'):
        time.sleep(0.02)
here_it_hangs()
attempt.receipt({'verified': True})"""


@pytest.fixture(autouse=True)
def no_py_spy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH without py-spy; the directory where a test may put one."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path / "bin"


def hanging_stage(host: Host) -> str:
    directory, _ = host.launch(stage_program(host, body=HANGS))
    wait_for(lambda: host.lines("../" + os.path.relpath(os.path.join(directory, layout.LOG), host.scratch.parent)), "the stage")
    return directory


def test_a_stage_tells_its_stacks_and_goes_on(host: Host) -> None:
    directory = hanging_stage(host)
    taken = dump.take(directory)
    pid = host.read(directory, layout.IDENT)["pid"]
    assert taken["how"] == "faulthandler" and taken["pids"] == [pid] and not taken["trouble"]
    assert "here_it_hangs" in taken["text"] and "State:" in taken["text"] and f"thread {pid} " in taken["text"]
    assert dump.take(directory)["text"].count("here_it_hangs") in (1, 2), "only what is new: of the main thread, and where it can, of all"
    (host.scratch / "go").touch()
    assert host.wait_state(directory, "DONE", "FAILED", "CRASHED")["state"] == "DONE"
    assert not os.path.exists(os.path.join(directory, layout.stacks_file(pid)))


def test_no_signal_to_a_process_that_would_end_by_it(host: Host) -> None:
    directory, _ = host.launch(host.program("import time\ntime.sleep(600)"))
    pid = host.read(directory, layout.IDENT)["pid"]
    stat = procs.read_stat(pid)
    assert stat is not None
    # Neither a file of an earlier process with that number, nor one that only claims it, is believed.
    for head in (layout.stacks_head(stat.start_ticks - 1), layout.stacks_head(stat.start_ticks)):
        Path(directory, layout.stacks_file(pid)).write_text(head + "\n")
        taken = dump.take(directory)
        assert taken["how"] == "proc" and "wchan" in taken["text"] and running(pid)


def py_spy(folder: Path, body: str) -> None:
    path = folder / "py-spy"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_py_spy_first_without_stopping_anything(host: Host, no_py_spy: Path) -> None:
    py_spy(no_py_spy, 'echo "Process $3: job --api-key secret"; echo "Thread 1 (idle): $*"; printf "\\033[31m\\0"')
    directory, _ = host.launch(host.program("import time\ntime.sleep(600)"))
    taken = dump.take(directory)
    pid = taken["pids"][0]
    assert "?[31m?" in taken["text"]
    assert "secret" not in taken["text"] and f"Process {pid}\n" in taken["text"], "no command line, which may hold keys"
    assert taken["how"] == "py-spy" and f"Thread 1 (idle): dump --pid {pid} --nonblocking" in taken["text"]


def test_a_py_spy_that_fails_or_hangs_leaves_the_process_as_it_was(host: Host, no_py_spy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_stacks, "PY_SPY_S", 0.3)
    py_spy(no_py_spy, 'kill -STOP $3; [ "$4" ] || exec sleep 600; echo "Permission denied" >&2; exit 1')
    directory, _ = host.launch(host.program("import time\ntime.sleep(600)"))
    taken = dump.take(directory)
    pid = taken["pids"][0]
    assert taken["how"] == "proc" and "no answer within" in taken["trouble"]
    wait_for(lambda: (stat := procs.read_stat(pid)) is not None and stat.state in "SR", "the process going on")
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: (stat := procs.read_stat(pid)) is not None and stat.state == "T")
    assert "Permission denied" in dump.take(directory)["trouble"], "one that is stopped is only looked at from outside"
    stat = procs.read_stat(pid)
    assert stat is not None and stat.state == "T"


def test_over_the_wire_it_is_kept_and_on_record(agent: AgentClient, host: Host) -> None:
    assert agent.refused("dump", run=RUN, stage="extract", attempt=None, by="me")["kind"] == "missing"
    directory = hanging_stage(host)
    reply = agent.ask("dump", run=RUN, stage="extract", attempt=None, by="me")
    assert "here_it_hangs" in reply["text"] and len(reply["text"]) <= dump.MAX_BYTES
    event = host.wait_event(directory, "dump")
    assert (event["how"], event["who"]) == ("faulthandler", "me")
    assert Path(directory, event["path"]).read_text() == reply["text"]
    assert agent.ask("audit")["lines"][-1]["what"] == "dump"
    (host.scratch / "go").touch()
    host.wait_state(directory, "DONE")
    assert agent.refused("dump", run=RUN, stage="extract", attempt=os.path.basename(directory), by="me")["kind"] == "missing"


BUSY = """
import sys, threading
from pathlib import Path
from pipeline import stacks

def works():
    while True:
        for one in Path("/usr/lib").glob("*"):
            Path(one, "x")

with stacks.registered(sys.argv[1]):
    threading.Thread(target=works, daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()
"""


def test_threads_that_run_are_told_and_outlive_being_asked(tmp_path: Path) -> None:
    """Walked by the signal's own handler while they run, they end the process by SIGSEGV, as a rule within 100 signals."""
    process = subprocess.Popen([sys.executable, "-c", BUSY, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT)
    try:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        for _ in range(150):
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.005)
        assert process.poll() is None
        text = (tmp_path / layout.stacks_file(process.pid)).read_text()
        assert "in works" in text and "in <module>" in text
    finally:
        process.kill()
        process.communicate()


FULL = """
import resource, sys
from pipeline import stacks

resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
with stacks.registered(sys.argv[1]):
    pass
"""


def test_a_full_disk_is_no_reason_for_a_stage_to_fail(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], cwd=ROOT, check=True)
    assert not list(tmp_path.glob("stacks-*"))
