"""What a rehearsal home is built of: a model that transformers loads, a tokenizer, prompts, and prepared data that fit together."""

import builtins
import itertools
import json
import keyword
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline import settings
from pipeline.contract import rehearsal
from pipeline.rehearsal import build, chats, python_names, run_settings
from tests.conftest import FEW_STEPS


def run_build(home: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pipeline.rehearsal.build", str(home), *options], capture_output=True, text=True, timeout=150
    )


@pytest.fixture(scope="session")
def model_dir(built_home: Path) -> Path:
    return built_home / run_settings.MODEL


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
    for text in ("def f(x):\n\treturn x ** 2  # comment", "naïve – ünïcode 漢字 🦅", "<|user|>", "<think>a</think>b", ""):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    ids = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], add_generation_prompt=True, return_dict=False)
    assert tokenizer.decode(ids) == "<|begin|><|user|>Hi<|end|><|assistant|>"
    assert (ids[0], ids[-2]) == (config["bos_token_id"], config["eos_token_id"])
    # Tokens of their own that decoding keeps, as in the models of DeepSeek: what vLLM's reasoning parsers rely on.
    assert len(tokenizer.encode("<think></think>")) == 2 and not {"<think>", "</think>"} & set(tokenizer.all_special_tokens)


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_the_chat_template_puts_reasoning_before_the_answer_and_goes_on_where_the_prompt_ends(model_dir, key) -> None:
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(model_dir)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}]
    whole = tokenizer.apply_chat_template([*messages, {"role": "assistant", key: "Add.", "content": "2"}], tokenize=False)
    assert whole == "<|begin|><|system|>Be brief.<|end|><|user|>1+1?<|end|><|assistant|><think>Add.</think>2<|end|>"
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert whole.startswith(prompt) and prompt.endswith("<|assistant|>")
    plain = tokenizer.apply_chat_template([*messages, {"role": "assistant", "content": "2", key: None}], tokenize=False)
    assert plain == prompt + "2<|end|>"


def test_the_prepared_data_fits_tokenizer_model_and_settings(built_home, model_dir) -> None:
    from datasets import load_from_disk
    from transformers import AutoTokenizer

    data: Any = load_from_disk(str(built_home / "prepared"))
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    resolved = settings.load(rehearsal.extract_only_settings_file(str(built_home)))
    assert resolved.extract.data == str(built_home / "prepared")
    assert len(data) == 240 and set(data.column_names) == {"input_ids", "loss_mask", "seq_len", "id"}
    lengths = []
    for row in data:
        ids, mask = row["input_ids"], row["loss_mask"]
        assert len(ids) == len(mask) == row["seq_len"] and set(mask) == {0, 1}
        assert min(ids) >= 0 and max(ids) < len(tokenizer)
        split = mask.index(1)
        assert sum(mask) == len(mask) - split, "the loss is on one stretch, up to the end"
        prompt = tokenizer.decode(ids[:split])
        assert prompt.startswith("<|begin|><|user|>") and prompt.endswith("<|end|><|assistant|>")
        assert ids[-1] == tokenizer.eos_token_id
        lengths.append(len(ids))
    cut = sum(length > resolved.extract.max_length_tokens for length in lengths)
    assert 3 <= cut <= 12
    assert len(set(lengths)) > 100
    tokens = sum(min(length, resolved.extract.max_length_tokens) for length in lengths)
    assert 100_000 < tokens < 250_000, "about a minute on two cores"


def test_the_prompts_of_the_run_are_different_and_some_of_them_were_never_learnt(built_home) -> None:
    prompts = [json.loads(line) for line in (built_home / "prompts.jsonl").read_text().splitlines()]
    assert len(prompts) == chats.RUN_PROMPTS + chats.HELD_OUT_PROMPTS
    assert len({prompt["id"] for prompt in prompts}) == len({prompt["messages"][0]["content"] for prompt in prompts}) == len(prompts)
    assert all([message["role"] for message in prompt["messages"]] == ["user"] for prompt in prompts)
    learn, unseen = chats.parts()
    assert {one["id"] for one in unseen} <= {prompt["id"] for prompt in prompts}
    assert not {one["messages"][0]["content"] for one in unseen} & {one["messages"][0]["content"] for one in learn}


def test_what_the_chats_say_of_python_is_true() -> None:
    owners = {"list method": list, "string method": str, "dictionary method": dict, "builtin function": builtins}
    for name, (kind, _) in python_names.FACTS.items():
        if kind == "keyword":
            assert name in keyword.kwlist
        elif kind == "exception":
            assert issubclass(getattr(builtins, name), Exception)
        else:
            assert callable(getattr(owners[kind], name))
    spelled = [one["messages"][-1]["content"] for one in chats.chats() if one["id"].startswith("letters-")]
    assert len(spelled) == len(python_names.FACTS)
    for answer in spelled:
        letters, _, name = re.sub(r"^.*? letters\. |\w+, (\w)\. ", r"\1", answer).partition("That spells ")
        assert letters == name.rstrip(".") and f" has {len(letters)} letters." in answer


def test_settings_are_valid_and_point_into_the_home_whatever_it_is_called(tmp_path) -> None:
    home = tmp_path / 'a "quoted" höme \\ 🦅'
    parsed = settings.parse(run_settings.settings_toml(str(home), 20_001), "settings")
    assert parsed.model.path == str(home / run_settings.MODEL)
    assert (parsed.generate.prompts, parsed.serve.port) == (str(home / "prompts.jsonl"), 20_001)
    assert parsed.extract.data == parsed.prepare.output == "data/prepared"
    alone = settings.parse(run_settings.extract_only_toml(str(home)), "settings")
    assert alone.extract.data == str(home / "prepared") and alone.model == parsed.model


def test_a_home_keeps_its_port_and_a_copy_chooses_one(tmp_path) -> None:
    path = tmp_path / "settings.toml"
    port = run_settings.choose_port("/some/home", str(path))
    path.write_text(run_settings.settings_toml("/some/home", 20_002))
    assert run_settings.choose_port("/some/home", str(path)) == 20_002 != port
    path.write_text("port = [")
    with socket.socket() as free:
        free.bind(("127.0.0.1", run_settings.choose_port("/some/home", str(path))))


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
    shard = next((home / run_settings.MODEL).glob("model-00002-*"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-100])
    (home / ".build-left-over").mkdir()
    done = run_build(home, *FEW_STEPS)
    assert done.returncode == 0, done.stderr
    assert "240 samples" in done.stdout
    after = json.loads((home / "built.json").read_text())
    assert after["fingerprint"] == before["fingerprint"] and after["files"] == before["files"]
    assert shard.read_bytes() == whole
    assert not list(home.glob(".build-*"))


def test_a_home_that_cannot_be_is_a_usage_error_and_a_new_one_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    done = run_build(tmp_path / "file" / "home")
    assert done.returncode == 2 and f"{tmp_path}/file/home is no directory, and cannot be made one: Not a directory" in done.stderr
    seen: list[bool] = []
    monkeypatch.setattr(build, "build", lambda home, steps: seen.append(Path(home).is_dir()))
    assert build.main([str(tmp_path / "new" / "home")]) == 0 and seen == [True]
