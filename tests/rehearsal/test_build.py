"""What a rehearsal home is built of: a model that transformers loads, a tokenizer, prompts, and prepared data that fit together."""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline import settings
from pipeline.rehearsal import build


def run_build(home: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "pipeline.rehearsal.build", str(home)], capture_output=True, text=True, timeout=150)


@pytest.fixture(scope="session")
def model_dir(built_home: Path) -> Path:
    return built_home / build.MODEL


def test_the_verifier_is_deepseek_v3_shaped_in_bf16_shards_and_runs(model_dir) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    config = json.loads((model_dir / "config.json").read_text())
    assert config["architectures"] == ["DeepseekV3ForCausalLM"]
    assert config["topk_method"] == "noaux_tc"
    assert config["num_hidden_layers"] >= 8 and config["kv_lora_rank"] and config["n_shared_experts"] and config["n_routed_experts"]
    index = json.loads((model_dir / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 1
    # Names as a published DeepSeek-V3 checkpoint has them, one tensor an expert: what vLLM and the preflight read.
    assert {"model.layers.3.mlp.experts.7.down_proj.weight", "model.layers.3.mlp.gate.e_score_correction_bias"} <= set(index["weight_map"])
    assert all((model_dir / name).is_file() for name in index["weight_map"].values())
    loaded: Any = AutoModelForCausalLM.from_pretrained(model_dir, output_loading_info=True)
    model, report = loaded
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert model.dtype == torch.bfloat16
    with torch.inference_mode():
        states = model(torch.arange(4, 36)[None], output_hidden_states=True).hidden_states
    assert all(torch.isfinite(state).all() for state in states)
    # Each layer changes the states enough for a test to tell it from its neighbours.
    for before, after in itertools.pairwise(states[:-1]):  # the last is after the final norm
        assert (after - before).float().norm() > 0.05 * before.float().norm()


def test_the_tokenizer_round_trips_and_renders_a_chat(model_dir) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    config = json.loads((model_dir / "config.json").read_text())
    assert len(tokenizer) == config["vocab_size"]
    for text in ("def f(x):\n\treturn x ** 2  # comment", "naïve – ünïcode 漢字 🦅", "<|user|>", ""):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    ids = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], add_generation_prompt=True, return_dict=False)
    assert tokenizer.decode(ids) == "<|begin|><|user|>Hi<|end|><|assistant|>"
    assert (ids[0], ids[-2]) == (config["bos_token_id"], config["eos_token_id"])


def test_the_prepared_data_fits_tokenizer_model_and_settings(built_home, model_dir) -> None:
    from datasets import load_from_disk
    from transformers import AutoTokenizer

    data: Any = load_from_disk(str(built_home / "prepared"))
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    resolved = settings.load(str(built_home / "home" / "rehearsal-settings.toml"))
    assert len(data) == 240 and set(data.column_names) == {"input_ids", "loss_mask", "seq_len"}
    prompts = [json.loads(line) for line in (built_home / "prompts.jsonl").read_text().splitlines()]
    lengths = []
    for number, row in enumerate(data):
        ids, mask = row["input_ids"], row["loss_mask"]
        assert len(ids) == len(mask) == row["seq_len"] and set(mask) == {0, 1}
        assert min(ids) >= 0 and max(ids) < len(tokenizer)
        split = mask.index(1)
        assert sum(mask) == len(mask) - split, "the loss is on one stretch, up to the end"
        prompt = tokenizer.decode(ids[:split])
        assert prompt.endswith("<|end|><|assistant|>") and prompts[number]["messages"][0]["content"] in prompt
        assert ids[-1] == tokenizer.eos_token_id
        lengths.append(len(ids))
    cut = sum(length > resolved.extract.max_length_tokens for length in lengths)
    assert 3 <= cut <= 12
    assert len(set(lengths)) > 100
    tokens = sum(min(length, resolved.extract.max_length_tokens) for length in lengths)
    assert 100_000 < tokens < 250_000, "about a minute on two cores"


def test_prompts_are_some_hundred_and_different(built_home) -> None:
    prompts = [json.loads(line) for line in (built_home / "prompts.jsonl").read_text().splitlines()]
    assert len(prompts) > 300
    assert len({prompt["id"] for prompt in prompts}) == len({prompt["messages"][0]["content"] for prompt in prompts}) == len(prompts)


def test_settings_are_valid_and_point_into_the_home_whatever_it_is_called(tmp_path) -> None:
    home = tmp_path / 'a "quoted" höme \\ 🦅'
    parsed = settings.parse(build.settings_toml(str(home)), "settings")
    assert parsed.model.path == str(home / build.MODEL)
    assert parsed.extract.data == str(home / "prepared")


def test_a_complete_home_is_left_as_it_is_and_a_copy_gets_its_own_settings(rehearsal_home) -> None:
    home = Path(rehearsal_home)
    before = {path: path.stat().st_mtime_ns for part in build.PARTS for path in (home / part).rglob("*")}
    told = (home / "built.json").read_bytes()
    done = run_build(home)
    assert (done.returncode, done.stdout) == (0, "")
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (home / "built.json").read_bytes() == told
    assert f"{home}/models" in (home / "home" / "rehearsal-settings.toml").read_text()


def test_a_damaged_home_is_built_anew_to_the_same_fingerprint(rehearsal_home) -> None:
    home = Path(rehearsal_home)
    before = json.loads((home / "built.json").read_text())
    shard = next((home / build.MODEL).glob("model-00002-*"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-100])
    (home / ".build-left-over").mkdir()
    done = run_build(home)
    assert done.returncode == 0, done.stderr
    assert "240 samples" in done.stdout
    after = json.loads((home / "built.json").read_text())
    assert after["fingerprint"] == before["fingerprint"] and after["files"] == before["files"]
    assert shard.read_bytes() == whole
    assert not list(home.glob(".build-*"))


def test_no_home_is_a_usage_error() -> None:
    done = run_build(Path("/nonexistent/home"))
    assert done.returncode == 2 and done.stderr.startswith("usage:")
