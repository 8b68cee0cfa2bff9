"""A host of which only the record is asked: its answers are given, what was asked of it is kept."""

import argparse
import io
from typing import Any

import pytest

from console import cli
from console.core.frame_ring import FrameRing
from console.headless.output import Output
from console.remote import errors
from console.remote.errors import AgentError
from tests.headless.played_host import PlayedHost


class RecordHost(PlayedHost):
    """A session and a link in one, with the run ``r`` whose extract runs. ``answers`` maps an operation to a reply, or an error."""

    def __init__(self, answers: dict[str, Any], reached: Exception | None = None):
        super().__init__()
        self.lasts["extract"] = 1 << 30
        self.begin("extract", "20260101-000000-0123456789ab")
        self.answers, self.reached = answers, reached
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.frames = FrameRing()
        self.hello = {"boot_id": "b", "simulated": False}
        self.tell()

    def __call__(self, host: Any, output: Output, run: str | None = None, **options: Any) -> "RecordHost":
        """Where a command makes its session."""
        self.output, self._on_log = output, options.get("on_log")
        return self

    async def __aenter__(self) -> "RecordHost":
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass

    async def connect(self) -> None:
        if self.reached is not None:
            raise self.reached

    async def watch(self, run: str | None) -> None:
        self.tell()

    def tell(self) -> None:
        super().tell()
        if hasattr(self, "frames"):
            self.frames.add({"boot_s": self._boot_s})

    async def request(self, op: str, _timeout_s: float = 0.0, /, **fields: Any) -> dict[str, Any]:
        self.asked.append((op, fields))
        answer = self.answers.get(f"{op} {fields['what']}" if op == "read" else op, AgentError(errors.MISSING, f"there is no {op}"))
        if isinstance(answer, Exception):
            raise answer
        if op == "tail" and self._on_log is not None:
            text = answer["text"]
            self._on_log({"attempt": fields["attempt"], "inode": 1, "offset": 0, "end": len(text), "data": text})
            return {"size": len(text)}
        return answer


class Ran:
    """What a command printed, and how it ended."""

    def __init__(self, code: int, out: str, err: str):
        self.code, self.out, self.err = code, out, err


async def ran(monkeypatch: pytest.MonkeyPatch, host: RecordHost, *arguments: str) -> Ran:
    """Run a command of ``eaglewatch`` in this process, on this host. Errors come through as they are raised."""
    import importlib

    read: argparse.Namespace = cli.parser().parse_args(list(arguments))
    module = importlib.import_module(f"console.headless.{read.module}")
    monkeypatch.setattr(module, "Session", host)
    out, err = io.StringIO(), io.StringIO()
    code = await module.command(read, Output("--json" in arguments, out, err))
    return Ran(code, out.getvalue(), err.getvalue())
