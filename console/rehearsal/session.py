"""One session of the embedded server: a real command, run by /bin/sh in a session of its own, joined to the channel by pipes.

Bytes move by callbacks with back-pressure both ways: a client that does not read stops the command's output at the pipe, a command
that does not read stops the client at the channel's window. When the channel goes, the command is treated as by sshd without a
terminal: its pipes close and nothing else happens to it, so an agent ends at the end of its input and a detached job lives on.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from typing import IO, Any

import asyncssh

_SIGNALS = ("ABRT", "ALRM", "FPE", "HUP", "ILL", "INT", "KILL", "PIPE", "QUIT", "SEGV", "TERM", "USR1", "USR2")
"""The names that RFC 4254 6.10 allows."""


class CommandSession(asyncssh.SSHServerSession):
    """Runs what the client asks for. ``environment`` is all that the command gets."""

    def __init__(self, environment: "dict[str, str]", directory: str):
        self._environment = environment
        self._directory = directory
        self._channel: asyncssh.SSHServerChannel[bytes]
        self._child: subprocess.Popen[bytes] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stdin: asyncio.WriteTransport | None = None
        self._outputs: list[asyncio.ReadTransport] = []
        self._early: list[bytes] = []
        self._stdin_ended = False
        self._paused = False
        self._gone = False

    # What the client asks for.

    def connection_made(self, chan: "asyncssh.SSHServerChannel[bytes]") -> None:
        self._channel = chan

    def pty_requested(self, term_type: str, term_size: Any, term_modes: Any) -> bool:
        return False

    def shell_requested(self) -> bool:
        return True

    def exec_requested(self, command: str) -> bool:
        return True

    def session_started(self) -> None:
        task = asyncio.get_running_loop().create_task(self._run(self._channel.get_command()))
        self._tasks.add(task)  # a task that nobody refers to may be collected
        task.add_done_callback(self._tasks.discard)

    # From the channel to the command.

    def data_received(self, data: bytes, datatype: "int | None") -> None:
        if self._stdin is not None:
            if not self._stdin.is_closing():  # else the command has closed its stdin: like sshd, throw away what still comes
                self._stdin.write(data)
        elif not self._stdin_ended:
            self._early.append(data)  # at most the channel's window, until the pipe is there

    def eof_received(self) -> bool:
        self._stdin_ended = True
        if self._stdin is not None:
            self._stdin.close()  # after what is still to be written
        return True  # the other direction stays open

    def signal_received(self, signal: str) -> None:
        self._signal(signal)

    def break_received(self, msec: int) -> bool:
        self._signal("INT")
        return True

    # Back-pressure of the channel on the command's output.

    def pause_writing(self) -> None:
        self._paused = True
        for transport in self._outputs:
            transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        for transport in self._outputs:
            transport.resume_reading()

    def connection_lost(self, exc: "Exception | None") -> None:
        self._gone = True
        self._close_pipes()

    # The command.

    async def _run(self, command: "str | None") -> None:
        arguments = ["/bin/sh"] if command is None else ["/bin/sh", "-c", command]
        pipe = subprocess.PIPE
        try:
            child = subprocess.Popen(  # noqa: ASYNC220 - a fork, some milliseconds; asyncio's own would kill the child at our end
                arguments,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                bufsize=0,
                cwd=self._directory,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:
            self._channel.write_stderr(f"rehearsal host: cannot run the command: {error}\n".encode())
            self._channel.exit(126)
            return
        self._child = child
        assert child.stdin and child.stdout and child.stderr
        ended = asyncio.ensure_future(_exit_of(child))
        outputs = [await self._attach(child.stdout, self._channel.write), await self._attach(child.stderr, self._channel.write_stderr)]
        await self._attach_stdin(child.stdin)
        if self._gone:
            self._close_pipes()
        for output in outputs:
            await output.closed
        code = await ended  # also when the channel has gone: it reaps the command
        if self._gone:
            return
        if code >= 0:
            self._channel.exit(code)
            return
        name = signal.Signals(-code).name[3:] if -code in set(signal.Signals) else ""
        if name in _SIGNALS:
            self._channel.exit_with_signal(name)
        else:
            self._channel.exit(128 - code)

    async def _attach(self, pipe: IO[bytes], write: Callable[[bytes], None]) -> "_Output":
        transport, protocol = await asyncio.get_running_loop().connect_read_pipe(lambda: _Output(write), pipe)
        self._outputs.append(transport)
        if self._paused:
            transport.pause_reading()
        return protocol

    async def _attach_stdin(self, pipe: IO[bytes]) -> None:
        transport, _ = await asyncio.get_running_loop().connect_write_pipe(lambda: _Input(self._channel), pipe)
        self._stdin = transport
        for data in self._early:
            transport.write(data)
        self._early.clear()
        if self._stdin_ended:
            transport.close()

    def _close_pipes(self) -> None:
        for transport in self._outputs:
            transport.close()
        if self._stdin is not None:
            self._stdin.close()

    def _signal(self, name: str) -> None:
        """To the command's process group, like sshd. It is not reaped before ``_exit_of`` ends: the id is still its own."""
        if self._child is not None and self._child.returncode is None and name in _SIGNALS:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.Signals[f"SIG{name}"])


class _Output(asyncio.Protocol):
    """From a pipe of the command to the channel."""

    def __init__(self, write: Callable[[bytes], None]):
        self._write = write
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # the channel went a moment ago
            self._write(data)

    def connection_lost(self, exc: "Exception | None") -> None:
        if not self.closed.done():
            self.closed.set_result(None)


class _Input(asyncio.BaseProtocol):
    """Back-pressure of the command's stdin on the channel."""

    def __init__(self, channel: "asyncssh.SSHServerChannel[bytes]"):
        self._channel = channel

    def pause_writing(self) -> None:
        self._channel.pause_reading()

    def resume_writing(self) -> None:
        # Not at once: asyncio's pipe transport drops what is written from within this call when the end of file comes with it.
        asyncio.get_running_loop().call_soon(self._channel.resume_reading)

    def connection_lost(self, exc: "Exception | None") -> None:
        self._channel.resume_reading()  # what still comes is thrown away, so that an end of file gets through


async def _exit_of(child: "subprocess.Popen[bytes]") -> int:
    """The command's exit code, or minus its signal. Reaps it here, in the loop, so that no signal can meet a reused id."""
    loop = asyncio.get_running_loop()
    descriptor = os.pidfd_open(child.pid)
    try:
        over = loop.create_future()
        loop.add_reader(descriptor, lambda: over.done() or over.set_result(None))
        try:
            await over
        finally:
            loop.remove_reader(descriptor)
        return child.wait()
    finally:
        os.close(descriptor)
