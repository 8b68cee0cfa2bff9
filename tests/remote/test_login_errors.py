"""Every way a login can fail, with real servers: one clear line, the right kind, and no second try where a person is needed."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from console.remote import errors, ssh, state
from console.remote.link import Link
from tests.fakes.sshd import Sshd, make_key
from tests.remote.remote_jobs import until
from tests.remote.remote_logins import failure, stopped, tool

Make = Callable[..., Sshd]


async def test_a_key_that_is_not_accepted_is_tried_once_and_works_after_a_retry(sshd: Make, tmp_path: Path) -> None:
    server = sshd("LogLevel VERBOSE")
    other = make_key(tmp_path / "other")
    log = server.root / "sshd.log"
    async with Link(server.host(client_keys=(str(other),), data_dir=str(tmp_path / "data"))) as link:
        await until(lambda: link.status().word == state.AUTH_NEEDED, why=link.status)
        assert "login refused" in link.status().detail and "not tried again" in link.status().detail
        dialed = log.read_text().count("Connection from")
        await asyncio.sleep(1.5)  # longer than the first waits: a link that tried again would have by now
        assert log.read_text().count("Connection from") == dialed
        (server.root / "authorized_keys").write_bytes((tmp_path / "other.pub").read_bytes())
        link.retry_now()
        await until(lambda: link.status().word == state.LIVE, why=link.status)


async def test_an_encrypted_key_that_the_agent_does_not_hold(sshd: Make, tmp_path: Path) -> None:
    server = sshd()
    locked = make_key(tmp_path / "locked", passphrase="secret")
    (server.root / "authorized_keys").write_bytes((tmp_path / "locked.pub").read_bytes())
    error = await stopped(server.host(client_keys=(str(locked),)), state.AUTH_NEEDED)
    assert error.kind == errors.ENCRYPTED_KEY
    assert f"{locked} has a passphrase" in str(error) and f"ssh-add {locked}" in str(error)


async def test_an_unknown_host_key(sshd: Make, tmp_path: Path) -> None:
    server = sshd()
    nothing = tmp_path / "nothing"
    error = await stopped(server.host(known_hosts=str(nothing)), state.HOST_KEY)
    assert error.kind == errors.HOST_KEY_UNKNOWN
    fingerprint = tool("ssh-keygen", "-lf", str(server.host_key)).split()[1]
    assert fingerprint in str(error) and str(nothing) in str(error)


async def test_another_port_s_key_does_not_make_it_a_changed_one(sshd: Make, tmp_path: Path) -> None:
    server = sshd()
    known = tmp_path / "known"
    known.write_text("garbage\n|9|x\n127.0.0.1 " + make_key(tmp_path / "port22").with_suffix(".pub").read_text())
    assert (await failure(server.host(known_hosts=str(known)))).kind == errors.HOST_KEY_UNKNOWN


async def test_a_changed_host_key_stops_and_names_the_remedy(sshd: Make, tmp_path: Path) -> None:
    server = sshd()
    server.trust(make_key(tmp_path / "old_host_key"))
    error = await stopped(server.host(), state.HOST_KEY)
    assert error.kind == errors.HOST_KEY_CHANGED
    assert "HOST KEY CHANGED" in str(error)
    assert f"ssh-keygen -f {server.known_hosts} -R '[127.0.0.1]:{server.port}'" in str(error)


async def test_a_host_key_of_another_kind_is_a_changed_one(sshd: Make, tmp_path: Path) -> None:
    server = sshd()
    old = tmp_path / "old_ecdsa"
    tool("ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(old))
    server.trust(old)
    assert (await failure(server.host())).kind == errors.HOST_KEY_CHANGED


async def test_a_known_host_key_that_changes_during_a_link(sshd: Make, tmp_path: Path) -> None:
    server = sshd()
    async with Link(server.host(data_dir=str(tmp_path / "data"))) as link:
        await until(lambda: link.status().word == state.LIVE, why=link.status)
        server.kill()
        server.host_key.unlink()
        server.host_key.with_suffix(".pub").unlink()
        make_key(server.host_key)
        server.start()
        link.retry_now()
        await until(lambda: link.status().word == state.HOST_KEY, why=link.status)
        assert link.status().age_s is not None and "CHANGED" in link.status().detail


@pytest.mark.parametrize(
    ("changes", "kind", "says"),
    [
        ({"client_keys": ("/none/such",)}, errors.CONFIG, "No such file"),
        ({"client_keys": (__file__,)}, errors.CONFIG, "no private key"),
        ({"ssh": "no-such-host.invalid:22"}, errors.UNREACHABLE, "cannot resolve the name no-such-host.invalid"),
        ({"ssh": "a b"}, errors.CONFIG, "write an ssh alias"),
    ],
)
async def test_wrong_settings(changes: dict, kind: str, says: str, sshd: Make) -> None:
    error = await failure(sshd().host(**changes))
    assert error.kind == kind and says in str(error)


async def test_nobody_listens(sshd: Make) -> None:
    server = sshd()
    server.kill()
    error = await failure(server.host())
    assert error.kind == errors.REFUSED and error.retried


@pytest.mark.parametrize(
    ("speaks", "kind"), [(b"", errors.TIMEOUT), (b"HTTP/1.1 400 Bad Request\r\n\r\n" * 2000, errors.PROTOCOL), (None, errors.LOST)]
)
async def test_what_listens_is_no_ssh_server(speaks: bytes | None, kind: str, sshd: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "CONNECT_SECONDS", 1.0)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            if speaks:
                writer.write(speaks)
                await writer.drain()
            if speaks is not None:
                await reader.read()
            writer.close()

    listener = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    try:
        assert (await failure(sshd().host(ssh=f"127.0.0.1:{port}"))).kind == kind
    finally:
        listener.close()


async def test_a_server_without_sessions_is_busy_and_tried_again(sshd: Make) -> None:
    async with Link(sshd("MaxSessions 0").host()) as link:
        await until(lambda: "no further session" in link.status().detail and link.status().attempt >= 2, why=link.status)
        assert link.status().word == state.CONNECTING


async def test_one_session_is_enough(sshd: Make, tmp_path: Path) -> None:
    async with Link(sshd("MaxSessions 1").host(data_dir=str(tmp_path / "data"))) as link:
        await until(lambda: link.status().word == state.LIVE, why=link.status)
        assert (await link.request("runs"))["runs"] == []


async def test_a_server_that_sheds_connections_is_tried_again(sshd: Make, tmp_path: Path) -> None:
    server = sshd("MaxStartups 1:100:1")
    with contextlib.ExitStack() as stack:
        deadline = time.monotonic() + 30
        # The one place may still be taken by the connection that saw the server start.
        while stack.enter_context(holder := socket.create_connection(("127.0.0.1", server.port))).recv(4) != b"SSH-":
            assert time.monotonic() < deadline, "the place of the first connection was never given back"
            holder.close()
            await asyncio.sleep(0.05)
        error = await failure(server.host())
    assert error.kind == errors.LOST and error.retried
