"""The console's commands as an operator starts them: processes of their own, with a state directory of the test's own."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pipeline.contract.rehearsal import extract_only_settings_file

ROOT = Path(__file__).parents[2]
COMMAND_S = 150
"""A command that takes longer has failed; most of an extraction on a busy machine is the import of torch."""


class Machine:
    """An operator's machine: configuration and state below ``root``."""

    def __init__(self, root: Path):
        self.state = root / "state"
        self.config = root / "config"
        for directory in (self.state / "eaglewatch", self.config / "eaglewatch"):
            directory.mkdir(parents=True, exist_ok=True)
        self.rehearsal_home = self.state / "eaglewatch" / "rehearsal"
        self.environment = {
            **os.environ,
            "XDG_STATE_HOME": str(self.state),
            "XDG_CONFIG_HOME": str(self.config),
            "PYTHONPATH": str(ROOT),
        }

    def run(self, *arguments: str, timeout: float = COMMAND_S, **changed: Any) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": timeout, "env": self.environment, "cwd": "/"}
        return subprocess.run([sys.executable, "-m", "console", *arguments], **{**options, **changed})

    def start(self, *arguments: str) -> "Running":
        return Running(self, arguments)

    def audit(self) -> list[dict[str, Any]]:
        path = self.state / "eaglewatch" / "audit.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def runs(self) -> Path:
        """The rehearsal host's runs."""
        return self.rehearsal_home / "home" / "eaglewatch" / "runs"

    def attempts(self, run: str, stage: str = "extract") -> list[Path]:
        """Attempt directories on the rehearsal host."""
        return sorted(path for path in (self.runs() / run / "stages" / stage).glob("*-*-*") if path.is_dir())


class Running:
    """A command under way, whose lines of JSON are read as they come."""

    def __init__(self, machine: Machine, arguments: tuple[str, ...]):
        command = [sys.executable, "-m", "console", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=machine.environment, cwd="/", start_new_session=True
        )
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.seen: list[dict[str, Any]] = []
        self.messages: list[str] = []
        self._threads = [threading.Thread(target=self._read), threading.Thread(target=self._read_messages)]
        for thread in self._threads:
            thread.start()

    def until(self, condition: Any, timeout: float = COMMAND_S) -> dict[str, Any]:
        """The first line, from here on, that meets the condition."""
        deadline = time.monotonic() + timeout
        while True:
            line = self._lines.get(timeout=max(0.1, deadline - time.monotonic()))
            assert line is not None, f"the command ended before; it said {self.messages}, its last line is {self.seen[-1:]}"
            if condition(line):
                return line

    def end(self, timeout: float = COMMAND_S) -> tuple[int, dict[str, Any]]:
        """Exit code and last line."""
        code = self.process.wait(timeout)
        for thread in self._threads:
            thread.join(timeout)
        return code, self.seen[-1] if self.seen else {}

    def kill(self) -> None:
        """SIGKILL, as the kernel or a lost terminal would."""
        self.process.kill()
        self.process.wait(30)

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.end(30)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for text in stream:
                line = json.loads(text)
                self.seen.append(line)
                self._lines.put(line)
        self._lines.put(None)

    def _read_messages(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            self.messages.extend(stream)


def check_result(line: dict[str, Any], ok: bool, simulated: bool = True) -> None:
    """The last line of a finished command has its agreed shape."""
    assert {"ok", "simulated", "stages"} <= set(line)
    assert (line["ok"], line["simulated"]) == (ok, simulated), line
    for row in line["stages"].values():
        assert set(row) == {"state", "seconds", "samples", "tokens", "bytes", "verified"}
    if not ok:
        assert line["error"]["message"], line


def settings_text(machine: Machine, extra: str = "") -> str:
    """Settings of the extraction on ready-made data, one sample a batch and one thread: many small steps to watch."""
    text = Path(extract_only_settings_file(str(machine.rehearsal_home))).read_text()
    return text.replace("batch_samples = 8", "batch_samples = 1").replace("threads = 2", "threads = 1") + extra
