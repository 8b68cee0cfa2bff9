"""Logins by the operator's ssh config: aliases, jump hosts, proxy commands, the ssh agent. Asked of the real ssh command."""

import getpass
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from console.config import Host
from console.remote import errors, ssh, state
from console.remote.link import Link
from tests.fakes.sshd import Sshd, free_port, make_key
from tests.remote.remote_jobs import until
from tests.remote.remote_logins import failure, stopped, tool

Make = Callable[..., Sshd]


def config_of(server: Sshd, alias: str, *lines: str) -> str:
    usual = [f"UserKnownHostsFile {server.known_hosts}", f"IdentityFile {server.client_key}", f"Port {server.port}", "HostName 127.0.0.1"]
    return f"Host {alias}\n" + "".join(f"  {line}\n" for line in (*lines, *usual))


async def test_an_alias_of_the_ssh_config(sshd: Make, ssh_config: Callable[[str], None], tmp_path: Path) -> None:
    server = sshd()
    ssh_config(config_of(server, "gpu1"))
    async with Link(Host(alias="gpu1", data_dir=str(tmp_path / "data"))) as link:
        await until(lambda: link.status().word == state.LIVE, why=link.status)


async def test_a_host_key_alias(sshd: Make, ssh_config: Callable[[str], None], tmp_path: Path) -> None:
    server = sshd()
    ssh_config(config_of(server, "gpu1", "HostKeyAlias farm"))
    server.known_hosts.write_text("farm " + server.host_key.with_suffix(".pub").read_text())
    connection = await ssh.connect(Host(alias="gpu1"))
    await connection.close()
    server.known_hosts.write_text("farm " + make_key(tmp_path / "old").with_suffix(".pub").read_text())
    error = await failure(Host(alias="gpu1"))
    assert error.kind == errors.HOST_KEY_CHANGED and "-R 'farm'" in error.hint


async def test_through_a_jump_host(sshd: Make, ssh_config: Callable[[str], None], tmp_path: Path) -> None:
    jump, server = sshd(), sshd()
    ssh_config(config_of(server, "gpu1", "ProxyJump gate") + config_of(jump, "gate"))
    async with Link(Host(alias="gpu1", data_dir=str(tmp_path / "data"))) as link:
        await until(lambda: link.status().word == state.LIVE, why=link.status)
        assert jump.sessions()
        jump.drop()
        await until(lambda: link.status().word != state.LIVE, why=link.status)
        await until(lambda: link.status().word == state.LIVE, why=link.status)
    await until(lambda: not jump.sessions(), why=jump.sessions)


async def test_trouble_with_a_jump_host_names_it(sshd: Make, ssh_config: Callable[[str], None], tmp_path: Path) -> None:
    jump, server = sshd(), sshd()
    ssh_config(config_of(server, "gpu1", "ProxyJump gate") + config_of(jump, "gate", f"UserKnownHostsFile {tmp_path / 'none'}"))
    error = await stopped(Host(alias="gpu1"), state.HOST_KEY)
    assert "gpu1: jump host gate: the host key is not known" in str(error) and "`ssh gate`" in str(error)
    ssh_config(config_of(server, "gpu1", "ProxyJump gate", f"Port {free_port()}") + config_of(jump, "gate"))
    error = await failure(Host(alias="gpu1"))
    assert error.kind == errors.UNREACHABLE and "jump host cannot reach 127.0.0.1" in str(error)
    ssh_config("Host gpu1\n ProxyJump gate\nHost gate\n ProxyJump gpu1\n")
    error = await failure(Host(alias="gpu1"))
    assert error.kind == errors.CONFIG and "jump hosts" in str(error)


async def test_a_proxy_command(sshd: Make, ssh_config: Callable[[str], None]) -> None:
    server = sshd()
    relay = (
        "import os,socket,sys,threading as t;"
        "s=socket.create_connection((sys.argv[1],int(sys.argv[2])));"
        "f=lambda a,b:[b(d) for d in iter(a,bytes())];"
        "t.Thread(target=f,args=(lambda:os.read(0,65536),s.sendall),daemon=1).start();"
        "f(lambda:s.recv(65536),lambda d:os.write(1,d))"
    )
    ssh_config(config_of(server, "gpu1", f"ProxyCommand python3 -c '{relay}' %h %p"))
    connection = await ssh.connect(Host(alias="gpu1"))
    await connection.close()


async def test_a_config_that_keeps_no_known_hosts(sshd: Make, ssh_config: Callable[[str], None]) -> None:
    server = sshd()
    ssh_config(config_of(server, "gpu1", "UserKnownHostsFile /dev/null", "StrictHostKeyChecking no"))
    error = await failure(Host(alias="gpu1"))
    assert error.kind == errors.HOST_KEY_UNKNOWN and "/dev/null" in str(error) and "hosts.toml" in str(error)


async def test_a_config_that_ssh_refuses(ssh_config: Callable[[str], None]) -> None:
    ssh_config("Host gpu1\n  Prot 22\n")
    error = await failure(Host(alias="gpu1"))
    assert error.kind == errors.CONFIG and "Bad configuration option" in str(error)


async def test_without_an_ssh_command_the_user_s_own_config_counts(sshd: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = sshd()
    home = tmp_path / "operator"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "config").write_text(config_of(server, "gpu1", f"User {getpass.getuser()}"))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    connection = await ssh.connect(Host(alias="gpu1", known_hosts=str(server.known_hosts)))
    await connection.close()
    (home / ".ssh" / "config").write_text("Match nonsense\n")
    assert (await failure(Host(alias="gpu1"))).kind == errors.CONFIG


@pytest.fixture
def ssh_agent(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "agent.sock"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    yield path
    process.kill()
    process.wait(10)


async def test_the_agent_unlocks_what_it_holds(
    sshd: Make, tmp_path: Path, ssh_agent: Path, monkeypatch: pytest.MonkeyPatch, ssh_config: "Callable[[str], None]"
) -> None:
    server = sshd()
    key = make_key(tmp_path / "locked")
    (server.root / "authorized_keys").write_bytes((tmp_path / "locked.pub").read_bytes())
    await until(ssh_agent.exists)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(ssh_agent))
    tool("ssh-add", "-q", str(key))
    tool("ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(key))
    common = f"Host gpu1\n HostName 127.0.0.1\n Port {server.port}\n UserKnownHostsFile {server.known_hosts}\n IdentityFile {key}\n"
    for text in (common, common + " IdentitiesOnly yes\n"):
        ssh_config(text)
        connection = await ssh.connect(Host(alias="gpu1"))
        await connection.close()
    ssh_config(common + " IdentityAgent none\n")
    assert (await failure(Host(alias="gpu1"))).kind == errors.ENCRYPTED_KEY
