"""A client of the real agent process: requests and frames over its pipes, every wait bounded."""

import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NONCE = "0123456789abcdef"
PATIENCE_S = 60.0


class AgentClient:
    """Starts ``python code_dir agent`` and talks to it."""

    def __init__(self, python: str, code_dir: Path, data_dir: Path, environment: "dict[str, str] | None" = None):
        command = [python, "-u", "-s", "-S", str(code_dir), "agent", "--data", str(data_dir), "--nonce", NONCE]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("EAGLEWATCH_", "PYTHON"))}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**clean, **(environment or {})},
        )
        assert self.process.stdin and self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self._buffer = b""
        self._number = 0
        self.frames: list[dict[str, Any]] = []
        self.logs: list[dict[str, Any]] = []
        self.others: list[dict[str, Any]] = []
        """Replies and greetings that nobody has asked ``reply`` for yet, in the order of arrival."""

    @property
    def pid(self) -> int:
        return self.process.pid

    def send_bytes(self, data: bytes) -> None:
        self.stdin.write(data)

    def send(self, op: str, **fields: Any) -> int:
        self._number += 1
        self.send_bytes(json.dumps({"id": self._number, "op": op, **fields}).encode() + b"\n")
        return self._number

    def read(self, timeout_s: float = PATIENCE_S) -> "dict[str, Any] | None":
        """The next message; None at the end of the output. Fails after the timeout."""
        end = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self.stdout], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"the agent said nothing for {timeout_s:.0f} s")
            data = os.read(self.stdout.fileno(), 1 << 16)
            if not data:
                return None
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        mark = b"\x1e" + NONCE.encode()
        assert line.startswith(mark), line[:200]
        message = json.loads(line[len(mark) :])
        if "frame" in message:
            self.frames.append(message["frame"])
        elif "log" in message:
            self.logs.append(message["log"])
        else:
            self.others.append(message)
        return message

    def reply(self, number: Any, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        """The reply to one request."""
        end = time.monotonic() + timeout_s
        while True:
            for message in self.others:
                if "re" in message and message["re"] == number:
                    self.others.remove(message)
                    return message
            assert time.monotonic() < end, f"no reply to request {number} within {timeout_s:.0f} s"
            assert self.read(max(0.1, end - time.monotonic())) is not None, "the agent ended"

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """The reply to a request that must succeed."""
        reply = self.reply(self.send(op, **fields))
        assert reply["ok"] is True, reply
        return reply

    def refused(self, op: str, **fields: Any) -> dict[str, Any]:
        """The error of a request that must fail."""
        reply = self.reply(self.send(op, **fields))
        assert reply["ok"] is False, reply
        return reply["error"]

    def next_frame(self) -> dict[str, Any]:
        before = len(self.frames)
        while len(self.frames) == before:
            assert self.read() is not None, "the agent ended"
        return self.frames[-1]

    def frame_where(self, condition: Any, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        """The first frame from now on that fulfils the condition."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            frame = self.next_frame()
            if condition(frame):
                return frame
        raise AssertionError(f"no such frame within {timeout_s:.0f} s; the last was {str(self.frames[-1])[:1500]}")

    def close(self) -> int:
        """End its input, as a connection that closes does; its exit code."""
        if not self.stdin.closed:
            self.stdin.close()
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the agent did not end with its input") from None
        finally:
            self.stdout.close()
            if self.process.stderr:
                self.process.stderr.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(20)


Start = Callable[..., AgentClient]


@contextmanager
def agents(python: str, code_dir: Path, data_dir: Path, environment: dict[str, str]) -> Iterator[Start]:
    """A function that starts agents on one data directory and takes their greeting; all of them end at the end."""
    made: list[AgentClient] = []

    def start(other: "dict[str, str] | None" = None) -> AgentClient:
        made.append(AgentClient(python, code_dir, data_dir, other or environment))
        assert made[-1].read() == {"agent": "ready"}
        made[-1].others.clear()
        return made[-1]

    try:
        yield start
    finally:
        for agent in made:
            agent.kill()
            agent.close()
