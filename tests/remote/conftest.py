"""A real sshd, a job that runs as a real process, and nothing left running afterwards."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.sshd import Sshd
from tests.remote.remote_jobs import Job, end_all


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    """``sshd(*directives)`` starts a server; all are killed at the end, with whatever was started in this test's directory."""
    servers: list[Sshd] = []

    def make(*directives: str) -> Sshd:
        server = Sshd(tmp_path / f"sshd{len(servers)}", *directives)
        servers.append(server)
        return server.start()

    yield make
    for server in servers:
        server.thaw()
        server.kill()
    end_all(tmp_path)


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., Job]:
    """``job(shell_body)``: an interpreter that only prints, by default a numbered line every 20 ms."""

    def make(body: str = 'i=0; while true; do echo "line $i"; i=$((i+1)); sleep 0.02; done') -> Job:
        return Job(tmp_path, body)

    return make


@pytest.fixture
def ssh_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """The real ssh command, made to read this test's config instead of the user's and the system's."""
    real = shutil.which("ssh")
    assert real, "no ssh: install openssh-client"
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ssh").write_text(f'#!/bin/sh\nexec {real} -F {tmp_path / "config"} "$@"\n')
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)

    def write(text: str) -> None:
        (tmp_path / "config").write_text(text)

    return write
