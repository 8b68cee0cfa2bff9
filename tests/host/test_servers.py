"""Servers found among the real processes of this machine: small programs whose command lines look so."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from host_jobs import exits_on_request
from host_launches import Host, wait_for

from pipeline.host import procs, servers, sockets
from pipeline.host.servers import Servers

LISTEN = """
import socket, sys, time
number = int(sys.argv[sys.argv.index("--port") + 1]) if "--port" in sys.argv else 0
server = socket.create_server(("127.0.0.1", number))
open(sys.argv[0] + ".port", "w").write(str(server.getsockname()[1]))
time.sleep(600)
"""
SLEEP = "import time; time.sleep(600)"
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Runs ``python TMP/bin/vllm serve ...``, a program of that name with the given body."""
    made: list[subprocess.Popen[bytes]] = []
    (tmp_path / "bin").mkdir()

    def begin(*words: str, body: str = SLEEP, name: str = "vllm", **environment: str) -> "subprocess.Popen[bytes]":
        program = tmp_path / "bin" / name
        program.write_text(body)
        made.append(subprocess.Popen([sys.executable, str(program), *words], env={**os.environ, **environment}))
        return made[-1]

    yield begin
    for one in made:
        one.kill()
        one.wait()


@pytest.fixture
def looking(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Servers:
    monkeypatch.setattr(servers, "LOOK_S", 0.0)
    monkeypatch.setattr(servers, "_COST", 0)
    monkeypatch.setattr(servers, "_AGAIN_S", (0.0,))  # a look between fork and exec sees the parent's command line
    return Servers(str(data_dir))


def found(looking: Servers, pid: int) -> "dict[str, Any] | None":
    rows, looked_s, _ = looking.view()
    assert rows is not None and looked_s is not None
    return next((row for row in rows if row["pid"] == pid), None)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def test_a_server_is_described_and_gone_when_it_is(looking: Servers, start: Start) -> None:
    process = start("serve", "/models/k25", "--api-key", "hush", "--port", "8765")
    row = wait_for(lambda: found(looking, process.pid))
    stat = procs.read_stat(process.pid)
    assert stat is not None and row["start_ticks"] == stat.start_ticks
    assert (row["engine"], row["model"], row["port"], row["port_from"]) == ("vllm", "/models/k25", 8765, "argument")
    assert row["argv"][2:6] == ["serve", "/models/k25", "--api-key", "***"] and "hush" not in str(row)
    assert (row["ours"], row["container"], row["own_net"]) == (None, None, False)
    assert row["how_to_stop"] == f"kill -TERM {process.pid}" and 0 <= row["up_s"] < 600
    process.kill()
    wait_for(lambda: found(looking, process.pid) is None)  # a zombie is none
    process.wait()
    assert found(looking, process.pid) is None


def test_the_port_is_the_one_it_listens_on(looking: Servers, start: Start, tmp_path: Path) -> None:
    port = free_port()
    asked = start("serve", "/m", "--port", str(port), body=LISTEN)
    row = wait_for(lambda: (row := found(looking, asked.pid)) and row["port_from"] == "listening" and row)
    assert row["port"] == port == int((tmp_path / "bin" / "vllm.port").read_text() or 0)
    assert sockets.listening_ports(asked.pid) == {port}
    unasked = start("serve", "--config", "k25.yaml", body=LISTEN)
    row = wait_for(lambda: (row := found(looking, unasked.pid)) and row["port_from"] == "listening" and row)
    assert row["port"] == int((tmp_path / "bin" / "vllm.port").read_text()) and row["model"] is None
    silent = start("serve", "/m")
    row = wait_for(lambda: found(looking, silent.pid))
    assert (row["port"], row["port_from"]) == (8000, "assumed")
    unix = start("serve", "/m", "--uds", "/run/x")
    assert wait_for(lambda: found(looking, unix.pid))["port"] is None


def test_workers_and_whatever_only_mentions_a_server_are_none(looking: Servers, start: Start) -> None:
    body = "import os, time\nos.fork()\nos.fork()\ntime.sleep(600)"  # as a worker that has not renamed itself yet
    process = start("serve", "/m", body=body)
    wait_for(lambda: len(procs.descendants([process.pid])) == 3)
    family = {process.pid, *procs.descendants([process.pid])}
    wrapper = subprocess.Popen(["bash", "-c", "vllm() { sleep 600; }; vllm serve /m; true"])
    renamed = subprocess.Popen(["bash", "-c", "exec -a VLLM::Worker_TP0 sleep 600"])
    try:
        wait_for(lambda: Path(f"/proc/{renamed.pid}/cmdline").read_bytes().startswith(b"VLLM"))
        rows = looking.view()[0] or []
        assert {row["pid"] for row in rows} & family == {process.pid}
        assert not {row["pid"] for row in rows} & {wrapper.pid, renamed.pid}
    finally:
        for pid in [*family - {process.pid}, *procs.descendants([wrapper.pid]), wrapper.pid, renamed.pid]:
            os.kill(pid, signal.SIGKILL)
        wrapper.wait()
        renamed.wait()


def test_a_program_that_becomes_a_server_is_seen(looking: Servers, tmp_path: Path) -> None:
    (tmp_path / "vllm").write_text(SLEEP)
    becomes = f"import os, sys; sys.stdin.readline(); os.execv({sys.executable!r}, ['python3', {str(tmp_path / 'vllm')!r}, 'serve', '/m'])"
    process = subprocess.Popen([sys.executable, "-c", becomes], stdin=subprocess.PIPE)
    try:
        assert process.stdin is not None
        wait_for(lambda: becomes.encode() in Path(f"/proc/{process.pid}/cmdline").read_bytes())
        assert found(looking, process.pid) is None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        row = wait_for(lambda: found(looking, process.pid))
        assert row["model"] == "/m" and row["start_ticks"] == procs.identity(process.pid)["start_ticks"]
    finally:
        process.kill()
        process.communicate()


def test_ours_by_its_cookie_and_how_it_is_stopped(looking: Servers, start: Start, host: Host) -> None:
    directory, _ = host.launch(exits_on_request(host), stage="serve")
    attempt = os.path.basename(directory)
    ours = start("serve", "/m", EAGLEWATCH_ATTEMPT=attempt)
    row = wait_for(lambda: found(looking, ours.pid))
    assert row["ours"] == {"run": "demo", "stage": "serve", "attempt": attempt}
    assert row["how_to_stop"] == "eaglewatch stop HOST --run demo --stage serve"
    (host.scratch / "go").touch()
    host.wait_state(directory, "FAILED")
    assert (wait_for(lambda: found(looking, ours.pid)) or {})["how_to_stop"] == f"kill -TERM {ours.pid}"  # nobody else ends it now
    elsewhere = start("serve", "/m", EAGLEWATCH_ATTEMPT="../../etc")
    assert wait_for(lambda: found(looking, elsewhere.pid))["ours"] == {"run": None, "stage": None, "attempt": "../../etc"}


def as_nobody(looking: Servers) -> Any:
    """What ``looking.view`` tells a user who may read little."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            os.write(write, json.dumps(looking.view()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as file:
        answer = file.read()
    os.waitpid(pid, 0)
    return json.loads(answer)


def test_what_another_user_may_not_read_is_told_and_not_taken_for_no(looking: Servers, start: Start) -> None:
    if os.getuid() != 0:
        pytest.skip("needs the right to become another user")
    process = start("serve", "/m", "--port", "8765", EAGLEWATCH_ATTEMPT="a1")
    wait_for(lambda: found(looking, process.pid))
    rows, _, unseen = as_nobody(Servers(looking._data_dir))
    (row,) = [row for row in rows if row["pid"] == process.pid]
    assert (row["ours"], row["own_net"], row["port_from"], row["user"]) == ("no-permission", None, "argument", "root")
    assert row["how_to_stop"] == f"sudo kill -TERM {process.pid}" and unseen is None


def test_command_lines_that_are_refused_are_counted(looking: Servers, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """As hidepid=1 does it; this kernel may have no such mount."""
    process = start("serve", "/m")
    wait_for(lambda: found(looking, process.pid))
    real = servers._head

    def refused(path: str, size: int) -> bytes:
        if path == f"/proc/{process.pid}/cmdline":
            raise PermissionError(13, "Permission denied", path)
        return real(path, size)

    monkeypatch.setattr(servers, "_head", refused)
    rows, _, unseen = looking.view()
    assert rows is not None and process.pid not in {row["pid"] for row in rows}
    assert unseen == "no-permission: 1 processes do not show their command lines"


def test_before_all_processes_were_seen_nothing_is_told(looking: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_READS", max(1, len([name for name in os.listdir("/proc") if name.isdigit()]) // 2))
    assert looking.view() == (None, None, None)
    assert wait_for(lambda: looking.view()[0] is not None)


def test_it_looks_only_now_and_then(data_dir: Path, start: Start) -> None:
    looking = Servers(str(data_dir))
    first = looking.view()
    start("serve", "/m")
    assert looking.view() == first
