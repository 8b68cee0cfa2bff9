"""One SSH connection to a host, made as the operator's own ssh would make it, and every way it can fail as one clear sentence."""

import asyncio
import contextlib
import getpass
import importlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.config import Host, Target, parse_target
from console.core import sanitize
from console.remote import errors, ssh_config, ssh_files
from console.remote.errors import SshError
from console.remote.ssh_config import SshConfig
from console.remote.ssh_explain import Login, explain
from pipeline.errors import UserError

if TYPE_CHECKING:
    import asyncssh

CONNECT_SECONDS = 15.0
"""TCP, key exchange and login, for each hop."""
SESSION_SECONDS = 15.0
CLOSE_SECONDS = 2.0
KEEPALIVE_SECONDS, KEEPALIVE_COUNT = 5.0, 3
"""A silent connection is given up after 5 x (3 + 1) s."""
_OTHER_HOST_KEYS = "+ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,rsa-sha2-512,rsa-sha2-256"
"""Asked for after the kinds that are known for a host: a server that lost its known key shows another one instead of hanging up."""

logging.getLogger("asyncssh").addHandler(logging.NullHandler())  # without one, its warnings would paint over the screen


class Connection:
    """A connection and the jump hosts that it goes through. ``close`` always returns."""

    def __init__(self, name: str, connection: "asyncssh.SSHClientConnection", hops: "list[asyncssh.SSHClientConnection]"):
        self.name = name
        self._connection = connection
        self._hops = hops

    @property
    def closed(self) -> bool:
        return self._connection.is_closed()

    async def open_session(self, command: str) -> "asyncssh.SSHClientProcess[bytes]":
        """Run ``command`` over a session channel, in bytes and without a terminal. Raises SshError (busy, lost, timeout)."""
        import asyncssh

        try:
            async with asyncio.timeout(SESSION_SECONDS):
                return await self._connection.create_process(command, encoding=None, request_pty=False)
        except TimeoutError:
            raise SshError(errors.TIMEOUT, f"{self.name}: no session within {SESSION_SECONDS:.0f} s of the login") from None
        except asyncssh.ChannelOpenError as error:
            if self.closed:
                raise SshError(errors.LOST, f"{self.name}: connection lost while a session was opened") from None
            text = f"{self.name}: the server opens no further session (MaxSessions?): {sanitize.line(error.reason, 100)}"
            raise SshError(errors.BUSY, text) from None
        except (OSError, asyncssh.Error) as error:
            raise SshError(errors.LOST, f"{self.name}: connection lost while a session was opened ({sanitize.line(error, 160)})") from None

    async def close(self) -> None:
        """Drop everything at once; a peer that does not answer is not waited for."""
        for connection in (self._connection, *reversed(self._hops)):
            connection.abort()
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await connection.wait_closed()


async def load_asyncssh() -> Any:
    """The module, imported in a thread: it takes a third of a second, in which a screen must go on."""
    return await asyncio.to_thread(importlib.import_module, "asyncssh")


async def connect(host: Host) -> Connection:
    """Connect and log in. Raises SshError."""
    await load_asyncssh()
    try:
        target = host.target
    except UserError as error:
        raise SshError(errors.CONFIG, str(error)) from None
    hops: list[asyncssh.SSHClientConnection] = []
    try:
        connection = await _dial(host.alias, target, host, None, hops)
    except BaseException:
        for hop in reversed(hops):
            hop.abort()
        raise
    return Connection(host.alias, connection, hops)


async def _dial(
    name: str,
    target: Target,
    host: Host | None,
    tunnel: "asyncssh.SSHClientConnection | None",
    hops: "list[asyncssh.SSHClientConnection]",
    depth: int = 0,
) -> "asyncssh.SSHClientConnection":
    """Connect to ``target``, through its jump hosts unless a ``tunnel`` to it is there already. ``hops`` collects what must be closed."""
    if depth > ssh_config.MAX_JUMPS:
        raise SshError(errors.CONFIG, f"{name}: more than {ssh_config.MAX_JUMPS} jump hosts behind each other in the ssh config")
    config = _given(host, target) if host and not host.use_ssh_config else await ssh_config.resolve(target)
    for jump in config.jumps if config and tunnel is None else ():
        jump_name = f"{name}: jump host {sanitize.line(jump, 80)}"
        try:
            jump_target = parse_target(jump.removeprefix("ssh://"), "jump host")
        except UserError as error:
            raise SshError(errors.CONFIG, f"{name}: {error}") from None
        tunnel = await _dial(jump_name, jump_target, None, tunnel, hops, depth + 1)
        hops.append(tunnel)
    return await _login(name, target, host, config, tunnel)


async def _login(
    name: str, target: Target, host: Host | None, config: SshConfig | None, tunnel: "asyncssh.SSHClientConnection | None"
) -> "asyncssh.SSHClientConnection":
    import asyncssh

    login, options = await asyncio.to_thread(_prepare, name, target, host, config)
    if tunnel is not None:
        options["tunnel"] = tunnel
    try:
        async with asyncio.timeout(CONNECT_SECONDS + 5.0):
            return await asyncssh.connect(
                connect_timeout=CONNECT_SECONDS,
                keepalive_interval=KEEPALIVE_SECONDS,
                keepalive_count_max=KEEPALIVE_COUNT,
                compression_algs=None,
                agent_forwarding=False,
                x11_forwarding=False,
                utf8_decode_errors="replace",
                client_factory=lambda: _client(login),
                **options,
            )
    except (OSError, ValueError, asyncssh.Error) as error:
        raise explain(error, login, CONNECT_SECONDS) from None


def _prepare(name: str, target: Target, host: Host | None, config: SshConfig | None) -> tuple[Login, dict[str, Any]]:
    """Arguments of asyncssh.connect. Without ``config`` (no ssh command here) asyncssh reads the user's config itself."""
    explicit = tuple(Path(key).expanduser() for key in host.client_keys) if host else ()
    identities = explicit or (config.identity_files if config else ())
    keys = ssh_files.load_keys(identities, name if explicit else None)
    if host and host.known_hosts:
        known_files: tuple[Path, ...] = (Path(host.known_hosts).expanduser(),)
    else:
        known_files = config.known_hosts if config else ssh_config.DEFAULT_KNOWN_HOSTS
    login = Login(name, target, host, config, keys.encrypted, ssh_files.load_known_hosts(known_files))
    options: dict[str, Any] = {"known_hosts": login.known, "server_host_key_algs": _OTHER_HOST_KEYS}
    if keys.usable:
        options["client_keys"] = keys.usable
    if config is None:
        options["host"] = target.name
        options |= {"port": target.port} if target.port else {}
        options |= {"username": target.user} if target.user else {}
        return login, options
    options |= {"host": config.host, "port": config.port, "username": config.user, "config": None}
    if config.host_key_alias:
        options["host_key_alias"] = config.host_key_alias
    if config.proxy_command:
        options["proxy_command"] = ["/bin/sh", "-c", f"exec {config.proxy_command}"]
    if config.agent != "":
        options["agent_path"] = config.agent
    if config.identities_only:
        public = ssh_files.public_keys(identities)
        options |= {"agent_identities": public} if public else {"agent_path": None}
    return login, options


def _given(host: Host, target: Target) -> SshConfig:
    """Nothing but what the host's own fields say."""
    return SshConfig(target.name, target.port or 22, target.user or getpass.getuser(), identities_only=True, agent=None)


def _client(login: Login) -> "asyncssh.SSHClient":
    import asyncssh

    class Client(asyncssh.SSHClient):
        """Notes what the server shows, for the explanation of a failure."""

        def validate_host_public_key(self, host: str, addr: str, port: int, key: Any) -> bool:
            login.untrusted = host, addr, port, key
            return False

        validate_host_ca_key = validate_host_public_key

        def auth_banner_received(self, msg: str, lang: str) -> None:
            login.banner = (login.banner + msg)[-2000:]

    return Client()
