"""Memory a GPU, foretold for the reference run's model and cards."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.checks_model import ModelInfo
from pipeline.model_memory import SPARE_BYTES, Prediction, cache_bytes_a_token, loaded_bytes

CARD = 97_253 << 20
KIMI = 547 * 10**9


def model(directory: Path, weight_bytes: int = KIMI, layers: int = 61, hidden: int = 7168, **config: Any) -> ModelInfo:
    (directory / "config.json").write_text(json.dumps(config))
    return ModelInfo(str(directory), "kimi_k25", layers, hidden, 163_840, 64, weight_bytes, "f", None, True)


def test_the_reference_run_fits_on_eight_gpus_and_not_on_four() -> None:
    eight, four = (Prediction(CARD, ranks, 0.85, KIMI, 0) for ranks in (8, 4))
    assert eight.fits is True and eight.weights_each_bytes == 68_375_000_000 and round(eight.left_bytes / 1e9, 1) == 18.3
    assert eight.told() == "a GPU: 68.4 GB of weights (547 GB / 8); 0.85 of 102 GB allowed, so 18.3 GB are left"
    assert four.fits is False and four.told().endswith("so 50.1 GB too much")


def test_what_is_too_close_to_call_is_not_called() -> None:
    weights = CARD - SPARE_BYTES
    assert [Prediction(CARD, 1, 1.0, weights + more, 0).fits for more in (-1, 0, 1, SPARE_BYTES, SPARE_BYTES + 1)] == [
        True, True, None, None, False,
    ]  # fmt: skip
    assert Prediction(CARD, 1, 1.0, weights, 1).fits is None, "the capture counts"


def test_a_token_of_cache_by_the_models_attention(tmp_path: Path) -> None:
    latent = model(tmp_path, text_config={"kv_lora_rank": 512, "qk_rope_head_dim": 64, "num_attention_heads": 64})
    assert cache_bytes_a_token(latent, 8) == cache_bytes_a_token(latent, 1) == 70_272
    grouped = model(tmp_path, layers=16, hidden=4096, num_attention_heads=32, num_key_value_heads=8)
    assert cache_bytes_a_token(grouped, 1) == 2 * 8 * 128 * 16 * 2
    assert cache_bytes_a_token(grouped, 8) == cache_bytes_a_token(grouped, 16) == 2 * 1 * 128 * 16 * 2
    assert cache_bytes_a_token(model(tmp_path, model_type="strange"), 1) is None


@pytest.mark.parametrize(
    ("stored", "compute", "share"), [("bfloat16", "float32", 2), ("float32", "bfloat16", 0.5), ("bfloat16", "model", 1)]
)
def test_weights_in_another_dtype(stored: str, compute: str, share: float, tmp_path: Path) -> None:
    assert loaded_bytes(model(tmp_path, torch_dtype=stored), compute) == KIMI * share
    quantized = model(tmp_path, torch_dtype=stored, quantization_config={"quant_method": "compressed-tensors"})
    assert loaded_bytes(quantized, compute) == KIMI, "quantized weights count as they are"
    assert loaded_bytes(model(tmp_path), compute) == KIMI, "a config that does not tell leaves them as they are"
