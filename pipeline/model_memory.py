"""What a model takes of a GPU, foretold from its files: a share of the weights, the cache of a token, the capture of hidden states."""

import json
import os
from dataclasses import dataclass
from typing import Any

from pipeline.checks_model import ModelInfo
from pipeline.sizes import size

_TEXT_CONFIGS = ("text_config", "llm_config", "language_config")
_DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
SPARE_BYTES = 2 << 30
"""Activations, CUDA graphs and NCCL's buffers take some of what is left: with less than this it is too close to call."""


@dataclass(frozen=True)
class Prediction:
    """Of each of ``ranks`` GPUs."""

    card_bytes: int
    """What programs can have of the card."""
    ranks: int
    utilisation: float
    weights_bytes: int
    """Of all ranks together."""
    capture_bytes: int
    """Of hidden states on their way out, on each GPU."""

    @property
    def allowed_bytes(self) -> int:
        return int(self.card_bytes * self.utilisation)

    @property
    def weights_each_bytes(self) -> int:
        return -(-self.weights_bytes // self.ranks)

    @property
    def left_bytes(self) -> int:
        """For activations and cache; negative: it cannot fit."""
        return self.allowed_bytes - self.weights_each_bytes - self.capture_bytes

    @property
    def fits(self) -> bool | None:
        """None: too close to tell from files alone."""
        return False if self.left_bytes < 0 else None if self.left_bytes < SPARE_BYTES else True

    def told(self) -> str:
        capture = f", {size(self.capture_bytes)} for the captured hidden states" if self.capture_bytes else ""
        weights = f"{size(self.weights_each_bytes)} of weights" + (
            f" ({size(self.weights_bytes)} / {self.ranks})" if self.ranks > 1 else ""
        )
        left = f"{size(self.left_bytes)} are left" if self.left_bytes >= 0 else f"{size(-self.left_bytes)} too much"
        share = (
            f"{self.utilisation:g} of {size(self.card_bytes)} allowed" if self.utilisation < 1 else f"the card has {size(self.card_bytes)}"
        )
        return f"a GPU: {weights}{capture}; {share}, so {left}"


def cache_bytes_a_token(model: ModelInfo, ranks: int) -> int | None:
    """Of the attention cache in 16 bits, on each rank; None when config.json does not tell. An upper bound where some layers keep less.

    Latent attention (DeepSeek, Kimi) keeps one row a layer on every rank; otherwise keys and values of each head are parted among ranks.
    """
    text = _text_config(model)
    latent, rope = text.get("kv_lora_rank"), text.get("qk_rope_head_dim")
    if type(latent) is int and type(rope) is int:
        return (latent + rope) * model.num_layers * 2
    heads, queries = text.get("num_key_value_heads", text.get("num_attention_heads")), text.get("num_attention_heads")
    width = text.get("head_dim") or (model.hidden_size // queries if type(queries) is int and queries else None)
    if type(heads) is not int or type(width) is not int:
        return None
    return 2 * max(1, -(-heads // ranks)) * width * model.num_layers * 2


def loaded_bytes(model: ModelInfo, compute_dtype: str) -> int:
    """Of the weights once loaded in ``compute_dtype`` (``model``: as they are). Quantized weights count as they are."""
    text = _text_config(model)
    if text.get("quantization_config"):
        return model.weight_bytes
    stored = _DTYPE_BYTES.get(str(text.get("dtype") or text.get("torch_dtype")))
    wanted = _DTYPE_BYTES.get(compute_dtype)
    return model.weight_bytes * wanted // stored if stored and wanted else model.weight_bytes


def _text_config(model: ModelInfo) -> dict[str, Any]:
    """The language model's part of config.json, which was read before."""
    with open(os.path.join(model.path, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    text = next((config[key] for key in _TEXT_CONFIGS if isinstance(config.get(key), dict)), config)
    return {**{key: config[key] for key in ("dtype", "torch_dtype", "quantization_config") if key in config}, **text}
