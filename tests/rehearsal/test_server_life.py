"""The server as a process: it is found again, starts once, ends when idle; jobs do not depend on it."""

# A test may block its own loop for a moment.
# ruff: noqa: ASYNC240

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from console.rehearsal import home as homes
from console.rehearsal import start
from console.rehearsal.start import ensure_running, stop_all
from pipeline.errors import StageError, UserError

DETACH = "setsid sh -c 'while :; do sleep 0.1; done' >/dev/null 2>&1 </dev/null & echo $!"


def alive(pid: int) -> bool:
    return homes.start_ticks(pid) is not None


def server_pid(home: str) -> int:
    server = homes.running_server(home)
    assert server is not None
    return server["pid"]


async def test_a_lost_connection_ends_what_reads_its_input_and_leaves_a_detached_job(host, connect, until) -> None:
    connection = await connect()
    job = int(str((await connection.run(DETACH)).stdout))
    reader = await connection.create_process("echo $$; exec cat")
    reader_pid = int(await reader.stdout.readline())
    assert alive(job) and alive(reader_pid)
    connection.abort()
    await until(lambda: not alive(reader_pid))
    assert alive(job)
    assert not Path(f"/proc/{reader_pid}").exists(), "the server did not reap it"


async def test_a_killed_server_leaves_the_job_and_comes_back_on_the_same_port_with_the_same_key(host, connect, until) -> None:
    connection = await connect()
    job = int(str((await connection.run(DETACH)).stdout))
    reader = await connection.create_process("echo $$; exec cat")
    reader_pid = int(await reader.stdout.readline())
    known_hosts = Path(host.known_hosts).read_text()
    old = server_pid(host.home)
    os.kill(old, signal.SIGKILL)
    await until(lambda: not alive(old) and not alive(reader_pid))
    assert alive(job)
    assert homes.running_server(host.home) is None
    again = await asyncio.to_thread(ensure_running, host.home)
    assert again.port == host.port and server_pid(host.home) != old
    assert Path(host.known_hosts).read_text() == known_hosts
    assert (await (await connect()).run(f"kill -0 {job} && echo lives")).stdout == "lives\n"


async def test_a_taken_port_moves_the_server_and_its_known_hosts(host, connect) -> None:
    stop_all(host.home)
    taken = await asyncio.start_server(lambda reader, writer: writer.close(), host.address, host.port)
    async with taken:
        again = await asyncio.to_thread(ensure_running, host.home)
        assert again.port != host.port
        connection = await connect(port=again.port, known_hosts=again.known_hosts)
        assert (await connection.run("echo moved")).stdout == "moved\n"


def test_consoles_that_start_at_once_get_one_server(rehearsal_home) -> None:
    barrier = threading.Barrier(4)

    def begin(_: int):
        barrier.wait()
        return ensure_running(rehearsal_home)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(begin, range(4)))
    assert len({one.port for one in found}) == 1
    log = Path(rehearsal_home, "server.log").read_text()
    assert log.count("listening") == 1


def test_a_second_server_of_the_same_home_goes_away(host) -> None:
    command = [sys.executable, "-m", "console.rehearsal.server", "--home", host.home]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert second.returncode == 0 and "another server" in second.stderr
    assert homes.running_server(host.home) is not None


async def test_it_ends_when_idle_but_neither_with_a_connection_nor_with_a_live_job(rehearsal_home, until) -> None:
    import asyncssh

    host = await asyncio.to_thread(ensure_running, rehearsal_home, idle_s=1.0)
    server = server_pid(host.home)
    options = {"port": host.port, "username": host.user, "client_keys": [host.client_key], "known_hosts": host.known_hosts}
    async with asyncssh.connect(host.address, config=None, agent_path=None, **options) as connection:
        job = int(str((await connection.run(DETACH)).stdout))
        await asyncio.sleep(3.0)
        assert alive(server)
    await asyncio.sleep(3.0)
    assert alive(server), "a job of its sessions lives"
    os.kill(job, signal.SIGKILL)
    await until(lambda: not alive(server))
    assert "idle for" in Path(host.home, "server.log").read_text()
    again = await asyncio.to_thread(ensure_running, rehearsal_home, idle_s=60.0)
    assert again.port == host.port


def test_a_port_file_of_another_process_or_boot_is_no_server(host) -> None:
    path = Path(host.home, "port.json")
    told = json.loads(path.read_text())
    assert homes.running_server(host.home) is not None
    for changed in ({"pid": os.getpid()}, {"boot_id": "another"}, {"start_ticks": told["start_ticks"] + 1}):
        path.write_text(json.dumps({**told, **changed}))
        assert homes.running_server(host.home) is None
    path.write_text(json.dumps(told))  # so that the server is found, and ended, again


def test_files_are_for_the_owner_only(host) -> None:
    assert os.stat(host.home).st_mode & 0o777 == 0o700
    for key in ("keys/client_ed25519", "keys/host_ed25519", "port.json"):
        assert os.stat(os.path.join(host.home, key)).st_mode & 0o077 == 0


def test_the_default_home_is_below_xdg_state_home(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert homes.default_home() == f"{tmp_path}/eaglewatch/rehearsal"


def test_what_is_missing_or_mistyped_is_one_clear_line(monkeypatch, tmp_path) -> None:
    with pytest.raises(UserError, match="no fault 'frezee'"):
        ensure_running(str(tmp_path / "home"), fault="frezee")
    with monkeypatch.context() as patched:
        patched.setattr(start.sys, "platform", "darwin")
        with pytest.raises(UserError, match="Linux only"):
            ensure_running(str(tmp_path / "home"))
    monkeypatch.setattr(start, "NEEDED", ("torch", "no_such_library_here"))
    with pytest.raises(UserError, match=r"needs no_such_library_here: pip install 'eaglewatch\[rehearsal\]'"):
        ensure_running(str(tmp_path / "home"))
    assert not (tmp_path / "home").exists()


def test_a_server_that_cannot_start_tells_why(rehearsal_home) -> None:
    Path(rehearsal_home, "keys").mkdir()
    Path(rehearsal_home, "keys", "host_ed25519").write_text("not a key\n")
    with pytest.raises(
        StageError, match=r"did not start; .*server\.log ends: .*cannot serve: .*keys/host_ed25519: Invalid private key; remove the file"
    ):
        ensure_running(rehearsal_home)
