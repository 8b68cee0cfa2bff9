"""config.json against the weights and the data: what would fail only after half an hour of loading is refused before it."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from extract_runs import KINDS, make_rows, make_run, samples

from pipeline.__main__ import main
from pipeline.checks_config import check_causal, max_positions
from pipeline.checks_model import check_model
from pipeline.engines import transformers_engine
from pipeline.errors import UserError
from pipeline.stages import extract as stage

ROWS = make_rows(6, 40, shortest=3)


def changed(model: Path, directory: Path, **values: Any) -> Path:
    """A copy whose config.json has other values."""
    copy = shutil.copytree(model, directory)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, **values}))
    return copy


def refused(model: Path, directory: Path, capsys: pytest.CaptureFixture[str]) -> str:
    run = make_run(directory, model, ROWS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "make_engine", lambda *_: pytest.fail("a model would have been loaded"))
        assert main(["extract", "--run", str(run)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("eaglewatch extract: ") and error.count("\n") == 1, error
    return error


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"vocab_size": 513}, "vocab_size is 513, but the token embedding model.embed_tokens.weight has 512 rows"),
        ({"num_hidden_layers": 9}, "9 decoder layers, but the weights hold layers 0 to 7 only: layer 8 is lacking"),
        ({"num_attention_heads": "4"}, "num_attention_heads is '4'; a whole number is expected"),
        ({"num_key_value_heads": 2.0}, "num_key_value_heads is 2.0; a whole number is expected"),
        ({"intermediate_size": {}}, "intermediate_size is {}; a whole number is expected"),
        ({"num_attention_heads": 0}, "0 attention heads"),
        ({"hidden_size": "64"}, "hidden_size is '64'; a whole number from 1"),
        ({"hidden_size": 10**400}, "hidden_size is 1000"),
        ({"architectures": "LlamaForCausalLM"}, "architectures must be a list of class names"),
        ({"model_type": "bert", "architectures": ["BertModel"]}, "BertModel (model_type bert) looks at later tokens too"),
        ({"max_position_embeddings": 39}, "has 40 tokens, and the model is made for 39 (config.json); set extract.max_length_tokens to 39"),
    ],
)
def test_a_config_that_does_not_fit_is_refused_before_a_model_loads(
    values: dict[str, Any], says: str, llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in refused(changed(llama, tmp_path / "model", **values), tmp_path / "run", capsys)


@pytest.mark.parametrize("kind", KINDS)
def test_causal_models_are_known_by_name(kind: str, models: dict[str, Path]) -> None:
    info = check_model(str(models[kind]))
    assert info.surely_causal and info.max_positions == 1024 and info.vocab_size == 512


def test_bert_is_refused_and_a_bert_decoder_is_not() -> None:
    for names in (["BertModel"], ["BertLMHeadModel"], None):
        config = {"model_type": "bert", "architectures": names}
        with pytest.raises(UserError, match="causal"):
            check_causal(config, config, "config.json")
    decoder = {"model_type": "bert", "architectures": ["BertLMHeadModel"], "is_decoder": True}
    assert check_causal(decoder, decoder, "config.json")


def run_of(model: Path, directory: Path, **extract: Any) -> Path:
    return make_run(directory, model, ROWS, **extract)


def test_a_model_whose_name_does_not_tell_is_looked_up(llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = changed(llama, tmp_path / "base", architectures=["LlamaModel"])
    assert main(["extract", "--run", str(run_of(base, tmp_path / "run"))]) == 0
    encoder = changed(llama, tmp_path / "encoder", architectures=["ViTModel"], model_type="vit")
    capsys.readouterr()
    assert main(["extract", "--run", str(run_of(encoder, tmp_path / "other"))]) == 2
    assert "model_type vit is no causal language model" in capsys.readouterr().err


def test_gpt2_runs_up_to_its_positions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    GPT2LMHeadModel(GPT2Config(vocab_size=512, n_positions=32, n_embd=32, n_layer=8, n_head=4)).save_pretrained(tmp_path / "gpt2")
    assert "the model is made for 32" in refused(tmp_path / "gpt2", tmp_path / "run", capsys)
    assert main(["extract", "--run", str(tmp_path / "run"), "--set", "extract.max_length_tokens=32"]) == 0
    assert len(samples(tmp_path / "run")) == len(ROWS)


@pytest.mark.parametrize(
    ("config", "most"),
    [
        ({}, None),
        ({"max_position_embeddings": None}, None),
        ({"n_positions": 1024}, 1024),
        ({"max_position_embeddings": 32768, "rope_scaling": None}, 32768),
        ({"max_position_embeddings": 32768, "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 32768}}, 131072),
        ({"max_position_embeddings": 163840, "rope_scaling": {"factor": 40, "original_max_position_embeddings": 4096}}, 163840),
        ({"max_position_embeddings": 131072, "rope_parameters": {"factor": 8.0, "original_max_position_embeddings": 8192}}, 131072),
        ({"max_position_embeddings": 4096, "rope_parameters": {"full_attention": {"factor": 2.0}}}, 8192),
        ({"max_position_embeddings": 4096, "rope_scaling": {"factor": "2", "original_max_position_embeddings": 10**400}}, 4096),
    ],
)
def test_positions_with_rope_scaling(config: dict[str, Any], most: int | None) -> None:
    assert max_positions(config) == most


@pytest.mark.parametrize("error", [IndexError("index out of range in self"), TypeError("unsupported"), KeyError("cache")])
def test_whatever_a_forward_pass_raises_names_its_samples(
    error: Exception, llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(transformers_engine.TransformersEngine, "_forward", fail)
    assert main(["extract", "--run", str(run_of(llama, tmp_path / "run"))]) == 1
    says = capsys.readouterr().err
    assert says.count("\n") == 1 and re.search(rf"the batch of samples \d.* failed: {type(error).__name__}", says), says


def test_a_padded_embedding_is_fine(llama: Path, tmp_path: Path) -> None:
    assert check_model(str(changed(llama, tmp_path / "model", vocab_size=400))).vocab_size == 400
