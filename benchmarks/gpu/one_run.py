"""One run on disk for the scripts here: its model, prompts and settings; its stages started by hand, and what they left."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PORT = 18_200
PROMPTS = 400
RESPONSE_TOKENS = 256


def make_model(directory: str, layers: int = 16) -> None:
    """A Qwen3-shaped model with random weights, and the rehearsal's tokenizer."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from pipeline.rehearsal.tokenizer import VOCABULARY, build_tokenizer

    shape: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 1536,
        "intermediate_size": 4096,
        "num_hidden_layers": layers,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "max_position_embeddings": 8192,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 1,
        "dtype": "bfloat16",
    }
    torch.manual_seed(1)
    model: Any = Qwen3ForCausalLM(Qwen3Config(**shape))
    model.to(torch.bfloat16).save_pretrained(directory, max_shard_size="200MB")
    build_tokenizer(directory)


def write_prompts(path: Path) -> None:
    with path.open("w") as file:
        for number in range(PROMPTS):
            text = f"Question {number}: what comes after {number}, and why? " + "Say more. " * (number % 40)
            file.write(json.dumps({"id": f"q{number}", "messages": [{"role": "user", "content": text}]}) + "\n")


def write_settings(run: Path, model: str, response_tokens: int = RESPONSE_TOKENS) -> None:
    (run / "settings.toml").write_text(
        f"""[model]
path = {json.dumps(model)}
[serve]
port = {PORT}
served_model_name = "verifier"
gpu_memory_utilization = 0.5
max_model_len_tokens = 4096
env = {{ VLLM_USE_FLASHINFER_SAMPLER = "0" }}
stop_timeout_s = 60.0
[generate]
prompts = {json.dumps(str(run / "prompts.jsonl"))}
greedy_holdout = 20
max_response_tokens = {response_tokens}
temperature = 0.8
concurrency = 64
[vocab]
draft_vocab_size = 1024
coverage_sizes = [512, 1024]
"""
    )


def start(run: Path, stage: str) -> "subprocess.Popen[bytes]":
    log = (run / f"{stage}.log").open("ab")
    words = [sys.executable, "-u", "-m", "pipeline", stage, "--run", str(run)]
    return subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def attempts(run: Path, stage: str) -> list[Path]:
    """Directories of the stage's attempts, the newest last."""
    return sorted(one for one in (run / "stages" / stage).glob("2*") if one.is_dir())


def newest(run: Path, stage: str, name: str) -> dict[str, Any]:
    """A JSON file of the stage's newest attempt; empty while there is none."""
    try:
        return json.loads((attempts(run, stage)[-1] / name).read_text())
    except (IndexError, OSError, ValueError):
        return {}


def newest_event(run: Path, stage: str) -> Any:
    """The newest error that a stage told of itself."""
    told = lines(attempts(run, stage)[-1] / "events.jsonl")
    return next((one.get("message") for one in reversed(told) if one.get("kind") == "error"), None)


def server_pids(run: Path) -> list[int]:
    """Processes below the serve stage, the server's main process first: they carry the attempt's id in their environment."""
    cookie = f"EAGLEWATCH_ATTEMPT={attempts(run, 'serve')[-1].name}".encode()
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if cookie in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                found.append(int(name))
        except OSError:
            continue
    return sorted(found)


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSONL file, whole lines only: it may be written meanwhile. None while there is no file."""
    data = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]
