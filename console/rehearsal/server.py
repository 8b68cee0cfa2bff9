"""``python -m console.rehearsal.server --home HOME``: the SSH server of the rehearsal host, a process of its own.

It outlives every console, keeps host key and port over restarts, and ends when it is idle: nobody connected for a while, and no
process left that a session of it started. One a home, by a lock. Jobs do not depend on it.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path

import asyncssh

from console.rehearsal import home as homes
from console.rehearsal.faults import DropLink
from console.rehearsal.session import CommandSession
from pipeline.contract import rehearsal
from pipeline.contract.clock import boot_id, boot_s
from pipeline.contract.files import read_json, write_json

ADDRESS = "127.0.0.1"
USER = "rehearsal"
IDLE_S = 600.0
LOCK_WAIT_S = 5.0
_KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "TMPDIR", "TZ")
"""Of the server's own environment, what a command needs to run at all; nothing else of the caller's gets through."""

log = logging.getLogger("rehearsal")


def session_environment(home: str) -> "dict[str, str]":
    """All that a command on the rehearsal host finds in its environment."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {
        "LANG": "C.UTF-8",
        **kept,
        "HOME": os.path.join(home, "home"),
        "USER": USER,
        "LOGNAME": USER,
        "SHELL": "/bin/sh",
        "PATH": f"{os.path.dirname(sys.executable)}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        # Threads that wait for work sleep instead of spinning: on two busy cores the extraction is 3 to 5 times as fast.
        "OMP_WAIT_POLICY": "PASSIVE",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        rehearsal.ENV_HOME: home,
        rehearsal.ENV_SESSION: home,
        rehearsal.ENV_GPUS: rehearsal.gpus_file(home),
        rehearsal.ENV_NVML: rehearsal.NVML_INSTALL,
    }


class Host:
    """The server's state: who is connected, and until when nobody may be."""

    def __init__(self, home: str):
        self.home = home
        self.connections: set[asyncssh.SSHServerConnection] = set()
        self.refuse_until_s = 0.0
        self.used_s = boot_s()
        self._environment = session_environment(home)

    def session(self) -> CommandSession:
        return CommandSession(self._environment, os.path.join(self.home, "home"))

    def drop_link(self, seconds: float) -> None:
        """Abort every connection, and each new one for a while."""
        self.refuse_until_s = boot_s() + seconds
        for connection in list(self.connections):
            connection.abort()

    def idle(self, idle_s: float) -> bool:
        """Nobody connected, no console that announced itself, and no process of ours alive for ``idle_s``."""
        marked = (read_json(homes.use_file(self.home)) or {}).get("boot_s")
        if isinstance(marked, float) and marked <= boot_s():
            self.used_s = max(self.used_s, marked)
        if self.connections:
            self.used_s = boot_s()
        if boot_s() - self.used_s < idle_s:
            return False
        if homes.session_processes(self.home):
            self.used_s = boot_s()
            return False
        return True


class Server(asyncssh.SSHServer):
    """One connection: only the generated client key, no forwarding."""

    def __init__(self, host: Host):
        self._host = host
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        if boot_s() < self._host.refuse_until_s:
            conn.abort()
            return
        self._connection = conn
        self._host.connections.add(conn)

    def connection_lost(self, exc: "Exception | None") -> None:
        if self._connection is not None:
            self._host.connections.discard(self._connection)
            self._host.used_s = boot_s()

    def session_requested(self) -> CommandSession:
        return self._host.session()


def _key(path: Path) -> asyncssh.SSHKey:
    """The key at ``path``; made the first time. Raises OSError or asyncssh.KeyImportError."""
    if path.exists():
        try:
            return asyncssh.read_private_key(str(path))
        except asyncssh.KeyImportError as error:
            raise asyncssh.KeyImportError(f"{path}: {error}; remove the file, a new key is made") from None
    key = asyncssh.generate_private_key("ssh-ed25519", comment="eaglewatch rehearsal")
    temporary = path.with_suffix(".new")
    temporary.touch(mode=0o600)
    key.write_private_key(str(temporary))
    temporary.replace(path)
    return key


async def _listen(host: Host, host_key: asyncssh.SSHKey, client_key: asyncssh.SSHKey) -> asyncssh.SSHAcceptor:
    """Listen on the port of last time if it is free, else on any."""
    authorized = asyncssh.import_authorized_keys(client_key.export_public_key().decode())
    before = (read_json(rehearsal.port_file(host.home)) or {}).get("port")
    for port in [before, 0] if isinstance(before, int) else [0]:
        try:
            return await asyncssh.listen(
                ADDRESS,
                port,
                server_factory=lambda: Server(host),
                server_host_keys=[host_key],
                authorized_client_keys=authorized,
                password_auth=False,
                kbdint_auth=False,
                allow_pty=False,
                agent_forwarding=False,
                x11_forwarding=False,
                allow_scp=False,
                encoding=None,
                compression_algs=None,
                keepalive_interval=15,
                reuse_address=True,
            )
        except OSError as error:
            if not port:
                raise
            log.info("port %d is taken (%s); taking another", port, error.strerror)
    raise AssertionError("unreachable")


async def serve(home: str, idle_s: float) -> None:
    """Serve until idle, SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    keys = Path(home, "keys")
    host_key, client_key = _key(keys / "host_ed25519"), _key(keys / "client_ed25519")
    host = Host(home)
    acceptor = await _listen(host, host_key, client_key)
    port = acceptor.get_port()
    public = host_key.export_public_key().decode().rsplit(" ", 2)[0]
    homes.publish_text(rehearsal.known_hosts_file(home), f"[{ADDRESS}]:{port} {public}\n")
    identity = {"pid": os.getpid(), "start_ticks": homes.start_ticks(os.getpid()), "boot_id": boot_id()}
    write_json(rehearsal.port_file(home), {"port": port, **identity})
    log.info("listening on port %d, pid %d", port, os.getpid())
    link = asyncio.create_task(DropLink(home, host.drop_link).watch())
    try:
        await _until_idle(host, idle_s, stop, port)
    finally:
        link.cancel()
        _withdraw(home, port)
        acceptor.close()
        for connection in list(host.connections):
            connection.abort()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(acceptor.wait_closed(), 2.0)
        log.info("ends")


def _withdraw(home: str, port: int) -> None:
    """Only the port stays in the file, for the next server: nobody finds this one any more."""
    with contextlib.suppress(OSError):
        write_json(rehearsal.port_file(home), {"port": port})


async def _until_idle(host: Host, idle_s: float, stop: asyncio.Event, port: int) -> None:
    while not stop.is_set():
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(stop.wait(), min(5.0, idle_s / 4))
        if stop.is_set() or not host.idle(idle_s):
            continue
        # Who starts the rehearsal holds this lock from looking whether we are here to announcing itself: never end in between.
        with homes.exclusive(rehearsal.start_lock_file(host.home), 0.0) as alone:
            if alone and host.idle(idle_s):
                _withdraw(host.home, port)
                log.info("idle for %.0f s", idle_s)
                return


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m console.rehearsal.server", description=__doc__)
    parser.add_argument("--home", required=True)
    parser.add_argument("--idle-s", type=float, default=IDLE_S)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("asyncssh").setLevel(logging.WARNING)
    home = os.path.abspath(arguments.home)
    # The one before may be about to end.
    with homes.exclusive(os.path.join(home, "server.lock"), LOCK_WAIT_S) as alone:
        if not alone:
            log.info("another server of this home runs: nothing to do")
            return 0
        try:
            asyncio.run(serve(home, arguments.idle_s))
        except (OSError, asyncssh.Error, asyncssh.KeyImportError) as error:
            log.error("cannot serve: %s", error)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
