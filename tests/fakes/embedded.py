"""An asyncssh server in this process, for what a real one never does: it hands every session to a coroutine of the test."""

import asyncio
import contextlib
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncssh

from console.config import Host

Session = Callable[["asyncssh.SSHServerProcess[bytes]"], Awaitable[None]]


class Embedded:
    """``async with Embedded(tmp_path, session) as server``."""

    def __init__(self, root: Path, session: Session):
        self._root = root
        self._session = session
        self.connections: list[asyncssh.SSHServerConnection] = []
        self.sessions = 0

    async def __aenter__(self) -> "Embedded":
        host_key, client_key = asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key("ssh-ed25519")
        client_key.write_private_key(str(self._root / "client"))
        embedded = self

        class Server(asyncssh.SSHServer):
            def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
                embedded.connections.append(conn)

        self._acceptor = await asyncssh.create_server(
            Server,
            "127.0.0.1",
            0,
            server_host_keys=[host_key],
            authorized_client_keys=asyncssh.import_authorized_keys(client_key.export_public_key().decode()),
            process_factory=self._serve,
            encoding=None,
        )
        self.port = self._acceptor.get_port()
        (self._root / "known").write_text(f"[127.0.0.1]:{self.port} {host_key.export_public_key().decode()}")
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._acceptor.close()
        self.drop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self._acceptor.wait_closed()

    def drop(self) -> None:
        """Abort every connection."""
        for connection in self.connections:
            connection.abort()
        self.connections.clear()

    def host(self, **changes: object) -> Host:
        fields: dict[str, Any] = {
            "alias": "embedded",
            "ssh": f"127.0.0.1:{self.port}",
            "user": "me",
            "client_keys": (str(self._root / "client"),),
            "known_hosts": str(self._root / "known"),
            "use_ssh_config": False,
        }
        return Host(**{**fields, **changes})

    async def _serve(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        self.sessions += 1
        with contextlib.suppress(asyncssh.Error, OSError):
            await self._session(process)
            process.exit(0)


async def run_command(process: "asyncssh.SSHServerProcess[bytes]") -> None:
    """A session that runs its command, as a well-behaved server does."""
    child = await asyncio.create_subprocess_shell(
        str(process.command), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    child_in, child_out = child.stdin, child.stdout
    assert child_in and child_out

    async def pump(reader: Any, writer: Any) -> None:
        with contextlib.suppress(asyncssh.Error, OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()

    async def feed() -> None:
        await pump(process.stdin, child_in)
        child_in.close()

    feeder = asyncio.create_task(feed())
    try:
        await pump(child_out, process.stdout)
    finally:
        feeder.cancel()
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


class Agent:
    """The host program's side of the wire, by hand: for faults that the real one does not have."""

    def __init__(self, process: "asyncssh.SSHServerProcess[bytes]"):
        self.process = process
        self.mark = b""
        self.boot_id = "boot-1"

    async def first_line(self) -> None:
        """Read the bootstrap's line, for the nonce in it."""
        line = await self.process.stdin.readline()
        nonce = re.search(rb"nonce\W+([0-9a-f]{16})", line)
        assert nonce, line[:200]
        self.mark = b"\x1e" + nonce.group(1)

    async def boot(self) -> None:
        """Claim to be ready, the code being there."""
        await self.first_line()
        self.say({"boot": "have"})
        self.say({"agent": "ready"})

    def say(self, value: dict[str, Any]) -> None:
        self.raw(self.mark + json.dumps(value).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        self.process.stdout.write(data)

    async def request(self) -> dict[str, Any]:
        """The next request. Raises EOFError at the end."""
        line = await self.process.stdin.readline()
        if not line:
            raise EOFError
        return json.loads(line)

    def answer(self, request: dict[str, Any], **fields: Any) -> None:
        self.say({"re": request["id"], "ok": True, **fields})

    async def serve(self, special: Callable[[dict[str, Any]], Awaitable[bool]]) -> None:
        """Answer what every link asks; ``special`` gets each request first and says whether it dealt with it."""
        from pipeline.contract.clock import boot_s

        with contextlib.suppress(EOFError):
            while True:
                request = await self.request()
                if await special(request):
                    continue
                if request["op"] == "hello":
                    self.answer(request, version=1, boot_id=self.boot_id, boot_s=boot_s(), pid=1)
                elif request["op"] == "ping":
                    self.answer(request, boot_s=boot_s())
                else:
                    self.answer(request)
                if request["op"] == "watch":
                    self.say({"frame": {"version": 1, "boot_id": self.boot_id, "boot_s": boot_s(), "seq": 1}})
