"""A job that runs as a real process, the settings it needs, and ways to wait and to clean up."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import psutil

from console.remote.link import Link
from pipeline import settings
from pipeline.contract.layout import new_attempt_id
from tests.fakes.sshd import wait_gone

SETTINGS = '[model]\npath = "/models/none"\n'


def end_all(directory: Path) -> None:
    """SIGKILL every process whose command line or environment names ``directory``."""
    ours = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = [*process.cmdline(), *process.environ().values()]
            if process.pid != psutil.Process().pid and any(str(directory) in word for word in words):
                process.kill()
                ours.append(process)
    wait_gone(ours)


class Job:
    """A stand-in for a stage's interpreter: a shell script that notes each start and prints numbered lines."""

    def __init__(self, directory: Path, body: str):
        self.started = directory / "started"
        self.interpreter = directory / "interpreter"
        self.interpreter.write_text(f"#!/bin/sh\necho $$ >> {self.started}\n{body}\n")
        self.interpreter.chmod(0o755)
        self.attempt = new_attempt_id()

    def starts(self) -> int:
        return len(self.started.read_text().split()) if self.started.exists() else 0

    async def launch(self, link: Link, timeout_s: float = 60.0) -> dict:
        gpus = {"expected_gpus": 0}
        return await link.launch("r1", "extract", self.attempt, str(self.interpreter), [], {}, "test", gpus, timeout_s=timeout_s)

    async def stop(self, link: Link) -> dict:
        return await link.stop("r1", "extract", self.attempt, "test", grace_s=1.0)


async def put_settings(link: Link) -> None:
    resolved = settings.to_json(settings.parse(SETTINGS, "test"))
    await link.request("put-settings", run="r1", toml=SETTINGS, resolved=resolved)


async def until(what: Callable[[], bool], timeout_s: float = 30.0, why: Callable[[], object] = lambda: "") -> None:
    """Poll until ``what`` holds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while not what():  # noqa: ASYNC110  what is waited for happens in other processes
                await asyncio.sleep(0.02)
            return
    raise AssertionError(f"did not happen within {timeout_s} s: {why()}")
