"""Runs of the serve stage with the small server of serve_fake, as processes of their own."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.host import procs

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0


def wait_for(condition: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    end = time.monotonic() + deadline_s
    while not (value := condition()):
        assert time.monotonic() < end, f"waited {deadline_s:.0f} s in vain for {what}"
        time.sleep(0.02)
    return value


def write_model(directory: Path, positions: int = 4096) -> Path:
    """A model directory that passes the checks; nothing could run it."""
    directory.mkdir(parents=True)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 1, "hidden_size": 4, "vocab_size": 8}
    heads = {"num_attention_heads": 2, "max_position_embeddings": positions}
    (directory / "config.json").write_text(json.dumps({**config, **heads}))
    header = json.dumps({"model.embed_tokens.weight": {"dtype": "F32", "shape": [8, 4], "data_offsets": [0, 128]}}).encode()
    (directory / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(range(128)))
    return directory


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def write_run(run: Path, model: Path, manners: dict[str, Any] | None = None, **serve: Any) -> Path:
    """Settings whose server is the small one, with these manners."""
    run.mkdir(parents=True, exist_ok=True)
    settings = {
        "program": ["python", "-m", "tests.fakes.serve_fake"],
        "port": free_port(),
        "served_model_name": "tiny",
        "stop_timeout_s": 20.0,
        "ready_timeout_s": 50.0,
        **serve,
    }
    environment = {
        "FAKE": json.dumps(manners or {}),
        "NOTES": str(run / "notes"),
        "SICK": str(run / "sick"),
        "PYTHONPATH": str(ROOT),
        **settings.pop("env", {}),
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    env = [f"{key} = {json.dumps(value)}" for key, value in environment.items()]
    text = ["[model]", f"path = {json.dumps(str(model))}", "[serve]", *lines, "[serve.env]", *env]
    (run / "settings.toml").write_text("\n".join([*text, ""]))
    return run


class Serving:
    """The stage, started by hand."""

    def __init__(self, run: Path, *arguments: str, path: str = ""):
        """``path``: more places for Python to import from."""
        self.run = run
        environment = {key: value for key, value in os.environ.items() if not key.startswith("EAGLEWATCH_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pipeline", "serve", "--run", str(run), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), path)))},
            cwd=run,
        )

    def wait_phase(self, phase: str) -> dict[str, Any]:
        return wait_for(lambda: (found := self.progress()).get("phase") == phase and found, phase)

    def wait_progress(self, condition: Callable[[dict[str, Any]], Any], what: str) -> dict[str, Any]:
        return wait_for(lambda: (found := self.progress()) and condition(found) and found, what)

    def wait_notes(self, word: str, count: int = 1) -> list[int]:
        wait_for(lambda: len(notes(self.run, word)) >= count, f"{count} notes of {word}")
        return notes(self.run, word)

    def progress(self) -> dict[str, Any]:
        return read_json(self.run, "progress/0.json")

    def end(self, number: int | None = signal.SIGTERM) -> tuple[int, str, str]:
        """Signal it (None: only wait); returns (exit code, stdout, stderr)."""
        if number is not None:
            self.process.send_signal(number)
        out, error = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, out.decode(), error.decode()


@contextmanager
def serving(run: Path, *arguments: str, path: str = "") -> Iterator[Serving]:
    """The stage; what is left of it afterwards is killed."""
    one = Serving(run, *arguments, path=path)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.process.kill()
        for pid in [*notes(run, "pid"), *notes(run, "worker")]:
            if running(pid):
                os.kill(pid, signal.SIGKILL)
        one.process.communicate()


def notes(run: Path, word: str) -> list[int]:
    """The numbers noted by the server under a word; 0 for a note without one."""
    try:
        lines = (run / "notes").read_text().splitlines()
    except OSError:
        return []
    return [int([*line.split(), "0"][1]) for line in lines if line.split()[0] == word]


def read_json(run: Path, name: str) -> dict[str, Any]:
    """A file of the newest attempt; {} while it is not there."""
    found = sorted((run / "stages" / "serve").glob("*/spec.json"), key=lambda path: path.stat().st_mtime_ns)
    try:
        return json.loads((found[-1].parent / name).read_text())
    except (OSError, IndexError):
        return {}


def read_events(run: Path) -> list[dict[str, Any]]:
    newest = max((run / "stages" / "serve").glob("*/spec.json"), key=lambda path: path.stat().st_mtime_ns).parent
    return [json.loads(line) for line in (newest / "events.jsonl").read_text().splitlines()]


def running(pid: int) -> bool:
    stat = procs.read_stat(pid)
    return stat is not None and stat.state not in procs.DEAD
