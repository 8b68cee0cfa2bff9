"""The host program at the other end of one session channel: bootstrap, requests, frames and log pieces."""

import asyncio
import contextlib
import json
import logging
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from console.config import Host
from console.core import sanitize
from console.remote import boot_errors, errors
from console.remote.deploy import Bundle
from console.remote.errors import AgentError, SshError
from console.remote.lines import NOISE_BYTES, Lines
from console.remote.ssh import Connection
from pipeline.contract import boot
from pipeline.contract.clock import boot_s

if TYPE_CHECKING:
    import asyncssh

BOOT_SECONDS = 30.0
"""From the first line sent to the bootstrap's first answer, and from there to the host program's; a cold disk is slow."""
UPLOAD_SECONDS = 180.0
CLOSE_SECONDS = 2.0
_READ_BYTES = 65536

log = logging.getLogger(__name__)

Heard = Callable[[dict[str, Any], float], None]
"""Called with a message and the local boot clock when it was read."""


class AgentChannel:
    """A running host program. Make it with ``open_agent``; ``lost`` is done once it has gone, with the reason."""

    def __init__(self, name: str, process: "asyncssh.SSHClientProcess[bytes]", nonce: str, on_frame: Heard, on_log: Heard):
        self._name = name
        self._process = process
        self._lines = Lines(nonce)
        self._on_frame, self._on_log = on_frame, on_log
        self._pending: dict[int, asyncio.Future[tuple[dict[str, Any], float]]] = {}
        self._next_id = 0
        self._boot: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._booted = False
        self._errors = b""
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._readers = [asyncio.create_task(self._read()), asyncio.create_task(self._read_errors())]

    @property
    def dropped_lines(self) -> int:
        """Marked lines that were too long or no JSON object."""
        return self._lines.dropped

    async def request(self, op: str, timeout_s: float = 15.0, **fields: Any) -> dict[str, Any]:
        """The reply to a request. Raises AgentError: the host program's, or ``timeout`` or ``lost``, after which nobody knows."""
        return (await self._ask(op, timeout_s, fields))[0]

    async def ping(self, timeout_s: float = 15.0) -> tuple[float, float, float]:
        """Local time of sending and of the answer's arrival, and the host's time in the answer. Raises AgentError."""
        sent_s = boot_s()
        reply, received_s = await self._ask("ping", timeout_s, {})
        host_s = reply.get("boot_s")
        if isinstance(host_s, bool) or not isinstance(host_s, (int, float)):
            raise AgentError(errors.INTERNAL, f"{self._name}: the host program's ping has no time in it")
        return sent_s, received_s, float(host_s)

    async def close(self) -> None:
        """End the host program (its stdin closes). Always returns."""
        self._lose("closed here")
        for task in self._readers:
            task.cancel()
        self._process.close()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._process.wait_closed()
        await asyncio.gather(*self._readers, return_exceptions=True)

    async def start(self, first_line: bytes, bundle: Bundle) -> None:
        """Send the bootstrap, the bundle if the host lacks it, and wait for the host program. Raises SshError."""
        await self._write(first_line)
        answer = await self._boot_answer(BOOT_SECONDS, "boot")
        if answer == "need":
            await self._write(bundle.data, UPLOAD_SECONDS)
            answer = await self._boot_answer(UPLOAD_SECONDS, "boot")
        if answer != "have":
            raise SshError(errors.PROTOCOL, f"{self._name}: the bootstrap said {sanitize.line(answer, 40)!r}")
        await self._boot_answer(BOOT_SECONDS, "agent")

    async def _boot_answer(self, seconds: float, key: str) -> str:
        try:
            async with asyncio.timeout(seconds):
                message = await self._boot.get()
        except TimeoutError:
            raise boot_errors.silent(self._name, seconds, self._lines.noise, self._errors) from None
        if message is None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._process.wait_closed()
            await asyncio.gather(*self._readers, return_exceptions=True)
            raise boot_errors.ended(self._name, self._process.exit_status, self._lines.noise, self._errors, self._booted)
        self._booted = True
        if message.get("boot") == "error":
            raise boot_errors.refused(self._name, message)
        return str(message.get(key))

    async def _ask(self, op: str, timeout_s: float, fields: dict[str, Any]) -> tuple[dict[str, Any], float]:
        if self.lost.done():
            raise AgentError(errors.LOST, f"{self._name}: connection lost before {op}")
        self._next_id += 1
        number = self._next_id
        future: asyncio.Future[tuple[dict[str, Any], float]] = asyncio.get_running_loop().create_future()
        self._pending[number] = future
        try:
            async with asyncio.timeout(timeout_s):
                await self._write(json.dumps({**fields, "id": number, "op": op}, separators=(",", ":")).encode() + b"\n")
                reply, received_s = await future
        except TimeoutError:
            raise AgentError(errors.TIMEOUT, f"{self._name}: no answer to {op} within {timeout_s:g} s") from None
        except SshError as error:
            raise AgentError(errors.TIMEOUT, str(error)) from None
        finally:
            self._pending.pop(number, None)
        if reply.get("ok") is True:
            return reply, received_s
        error = reply.get("error")
        error = error if isinstance(error, dict) else {}
        kind = sanitize.line(error.get("kind") or errors.INTERNAL, 40)
        message = sanitize.line(error.get("message") or f"{op} failed without a reason", 1000)
        raise AgentError(kind, message, sanitize.line(error.get("hint"), 500))

    async def _write(self, data: bytes, timeout_s: float = BOOT_SECONDS) -> None:
        """Raises SshError when the channel takes nothing for ``timeout_s``. A channel that has gone is told by ``lost``."""
        import asyncssh

        try:
            async with asyncio.timeout(timeout_s):
                self._process.stdin.write(data)
                await self._process.stdin.drain()
        except TimeoutError:
            raise SshError(errors.SILENT, f"{self._name}: the host takes no data for {timeout_s:.0f} s") from None
        except (OSError, asyncssh.Error):
            pass  # a broken pipe; the reader sees the end too, and what it heard explains more

    async def _read(self) -> None:
        reason = "the host program ended"
        try:
            while data := await self._process.stdout.read(_READ_BYTES):
                received_s = boot_s()
                for message in self._lines.feed(data):
                    self._dispatch(message, received_s)
                await asyncio.sleep(0)  # a full buffer is read without ever waiting, and the screen needs its turn
        except Exception as error:  # whatever ended it, there is nothing left to read
            reason = sanitize.line(error, 160) or type(error).__name__
        finally:
            self._lose(reason)

    async def _read_errors(self) -> None:
        with contextlib.suppress(Exception):
            while data := await self._process.stderr.read(_READ_BYTES):
                self._errors = (self._errors + data)[-NOISE_BYTES:]

    def _dispatch(self, message: dict[str, Any], received_s: float) -> None:
        if "re" in message:
            future = self._pending.get(message["re"]) if isinstance(message["re"], int) else None
            if future is not None and not future.done():
                future.set_result((message, received_s))
        elif isinstance(message.get("frame"), dict):
            self._tell(self._on_frame, message["frame"], received_s)
        elif isinstance(message.get("log"), dict):
            self._tell(self._on_log, message["log"], received_s)
        elif ("boot" in message or "agent" in message) and self._boot.qsize() < 8:
            self._boot.put_nowait(message)

    def _tell(self, heard: Heard, value: dict[str, Any], received_s: float) -> None:
        try:
            heard(value, received_s)
        except Exception:  # a mistake in a view must not end the connection
            log.exception("a listener failed")

    def _lose(self, reason: str) -> None:
        if self.lost.done():
            return
        self.lost.set_result(reason)
        self._boot.put_nowait(None)
        for future in self._pending.values():
            if not future.done():
                future.set_exception(AgentError(errors.LOST, f"{self._name}: connection lost before the answer came ({reason})"))


async def open_agent(connection: Connection, host: Host, bundle: Bundle, on_frame: Heard, on_log: Heard) -> AgentChannel:
    """Start the host program over a session of its own. Raises SshError."""
    nonce = secrets.token_hex(8)
    try:
        command = boot.command(host.python)
    except ValueError as error:
        raise SshError(errors.CONFIG, f"{host.alias}: {error}") from None
    process = await connection.open_session(command)
    channel = AgentChannel(host.alias, process, nonce, on_frame, on_log)
    try:
        await channel.start(boot.line(nonce, host.data_dir, bundle.code, bundle.sha256, len(bundle.data)), bundle)
    except BaseException:
        await channel.close()
        raise
    return channel
