"""One login in which the bootstrap is run: a real shell, the source as the first line, and what comes back."""

import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

from agent_client import NONCE

from console.remote import deploy
from pipeline.contract import boot


class Boot:
    """One login: the command is started and the first line sent."""

    def __init__(
        self, python: str, data_dir: Path, bundle: deploy.Bundle, shell: str = "sh", sha256: "str | None" = None, **environment: str
    ):
        self.process = subprocess.Popen(
            [shell, "-c", boot.command(python)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **environment},
        )
        self._buffer = b""
        self.send(boot.line(NONCE, str(data_dir), bundle.code, sha256 or bundle.sha256, len(bundle.data)))

    def send(self, data: bytes) -> None:
        assert self.process.stdin
        try:
            view = memoryview(data)
            while view:
                view = view[self.process.stdin.write(view) :]
        except BrokenPipeError:
            pass  # it has ended, and its last words say why

    def message(self) -> "dict[str, Any] | None":
        """The next marked line; None at the end."""
        assert self.process.stdout
        end = time.monotonic() + 60
        while b"\n" not in self._buffer:
            assert select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))[0], "silence"
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                return None
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        assert line.startswith(b"\x1e" + NONCE.encode()), line
        return json.loads(line[1 + len(NONCE) :])

    def end(self) -> tuple[int, str]:
        """Close its input; exit code and what it printed on stderr."""
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors.decode()


def install(python: str, data_dir: Path, bundle: deploy.Bundle, **more: Any) -> Boot:
    """A boot that was sent the bundle if it wanted it, up to the agent's greeting."""
    one = Boot(python, data_dir, bundle, **more)
    message = one.message()
    if message == {"boot": "need"}:
        one.send(bundle.data)
        message = one.message()
    assert message == {"boot": "have"}, message
    assert one.message() == {"agent": "ready"}
    return one


def failed(one: Boot) -> dict[str, Any]:
    message = one.message()
    assert message is not None and message["boot"] == "error", message
    code, errors = one.end()
    assert code == 2 and not errors, errors
    return message


def code_names(data_dir: Path) -> list[str]:
    return sorted(path.name for path in (data_dir / "code").iterdir())
