"""Tiny real models, prepared data and run directories for the tests of the extraction."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy

ROOT = Path(__file__).resolve().parents[2]
VOCABULARY = 512
HIDDEN = 64
LAYERS = 8
KINDS = ("llama", "qwen3", "deepseek_v3", "kimi_k25")
"""The last is the reference run's: DeepSeek-V3's shape inside a multimodal wrapper, whose vision tower has as many layers."""

_SHARED = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": 2 * HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "max_position_embeddings": 1024,
    # At 0.02 so narrow a model hardly changes its hidden states from layer to layer, and a wrong layer would look right.
    "initializer_range": 0.1,
}
_MLA_AND_EXPERTS = {
    "num_key_value_heads": 4,
    "moe_intermediate_size": HIDDEN // 2,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "q_lora_rank": 32,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
}


def save_model(directory: Path, kind: str, dtype: str = "float32", seed: int = 7, shards: str = "10GB", **changed: Any) -> Path:
    """A causal model with random weights as a Hugging Face directory."""
    import torch
    import transformers

    own: dict[str, dict[str, Any]] = {
        "llama": {"num_key_value_heads": 2},
        "qwen3": {"num_key_value_heads": 2, "head_dim": 16},
        "deepseek_v3": _MLA_AND_EXPERTS,
        "kimi_k25": _MLA_AND_EXPERTS,
    }
    text = {**_SHARED, **own[kind], **changed}
    torch.manual_seed(seed)
    model: Any
    if kind == "kimi_k25":
        vision = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": LAYERS, "num_attention_heads": 2}
        config = transformers.AutoConfig.for_model(
            kind, text_config={"model_type": "deepseek_v3", **text}, vision_config=vision, projection_hidden_size=32
        )
        model = transformers.AutoModelForImageTextToText.from_config(config)
    else:
        model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(kind, **text))
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):  # all ones would hide a norm that is applied twice, or to the wrong state
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    model.to(getattr(torch, dtype)).save_pretrained(directory, max_shard_size=shards)
    return directory


def make_rows(count: int, longest: int, seed: int = 3, shortest: int = 1) -> list[list[int]]:
    """Token ids of ragged lengths; the first rows have the extreme ones."""
    random = numpy.random.default_rng(seed)
    lengths = [longest, shortest, *random.integers(shortest, longest + 1, count).tolist()][:count]
    return [random.integers(0, VOCABULARY, length).tolist() for length in lengths]


def save_rows(directory: Path, rows: list[list[int]], **columns: Any) -> Path:
    """Prepared data as the prepare stage writes it; ``columns`` replace or add columns, None leaves one out."""
    import datasets

    datasets.disable_progress_bars()
    content = {"input_ids": rows, "loss_mask": [[1] * len(row) for row in rows], "seq_len": [len(row) for row in rows], **columns}
    datasets.Dataset.from_dict({name: values for name, values in content.items() if values is not None}).save_to_disk(str(directory))
    return directory


def make_run(directory: Path, model: Path, rows: list[list[int]] | None, **extract: Any) -> Path:
    """A run directory with settings and, unless ``rows`` is None, prepared data."""
    directory.mkdir(parents=True)
    if rows is not None:
        save_rows(directory / "data" / "prepared", rows)
    settings = {"threads": 1, "device": "cpu", "min_free_bytes": 0, "batch_samples": 4, "writer_threads": 2, **extract}
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    # The rows are no prepare stage's: it would write elsewhere.
    head = [f"[model]\npath = {json.dumps(str(model))}", '[prepare]\noutput = "data/nowhere"', "[extract]"]
    (directory / "settings.toml").write_text("\n".join([*head, *lines, ""]))
    return directory


def command(run: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "pipeline", "extract", "--run", str(run), *arguments]


def environment(**changed: str) -> dict[str, str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("EAGLEWATCH_")}
    return {**clean, "PYTHONPATH": str(ROOT), **changed}


def extract(run: Path, *arguments: str, **changed: str) -> "subprocess.CompletedProcess[str]":
    """The stage as a process of its own."""
    return subprocess.run(
        command(run, *arguments), capture_output=True, text=True, timeout=120, env=environment(**changed), cwd=run, check=False
    )


def output(run: Path) -> Path:
    return run / "data" / "hidden_states"


def samples(run: Path) -> dict[str, bytes]:
    """The published files, whole."""
    return {path.name: path.read_bytes() for path in sorted(output(run).glob("hs_*"))}


def ledger(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output(run) / "ledger-0.jsonl").read_text().splitlines()]


def manifest(run: Path) -> dict[str, Any]:
    return json.loads((output(run) / "data_config.json").read_text())


def newest_attempt(run: Path) -> Path:
    """By the time of its claim: two attempts of one second are in no order by name."""
    specs = (run / "stages" / "extract").glob("*/spec.json")
    return max(specs, key=lambda path: path.stat().st_mtime_ns).parent


def newest(run: Path, name: str) -> dict[str, Any]:
    """A JSON file of the newest attempt, such as receipt.json."""
    return json.loads((newest_attempt(run) / name).read_text())


def events(run: Path) -> list[dict[str, Any]]:
    """Of the newest attempt."""
    return [json.loads(line) for line in (newest_attempt(run) / "events.jsonl").read_text().splitlines()]
