"""What config.json says beyond sizes: is it a causal language model, how many positions has it, are its numbers numbers."""

from typing import Any

from pipeline.errors import UserError

_CAUSAL_ENDINGS = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
"""Class names of causal models, of multimodal wrappers around one, and GPT-2's older kind."""
_CAUSAL_IF_DECODER = frozenset(
    [
        "bert",
        "bert-generation",
        "big_bird",
        "camembert",
        "data2vec-text",
        "electra",
        "ernie",
        "megatron-bert",
        "qdqbert",
        "reformer",
        "rembert",
        "roberta",
        "roberta-prelayernorm",
        "roc_bert",
        "roformer",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xmod",
    ]
)
"""Model types of transformers whose attention looks both ways unless config.json says ``is_decoder``."""
_NEVER_CAUSAL = frozenset(["albert", "distilbert", "deberta", "deberta-v2", "modernbert", "mpnet", "xlm", "xlnet"])
_COUNTS = (
    "num_attention_heads",
    "num_key_value_heads",
    "n_head",
    "head_dim",
    "intermediate_size",
    "moe_intermediate_size",
    "n_inner",
    "n_routed_experts",
    "num_experts",
    "num_local_experts",
    "num_experts_per_tok",
    "q_lora_rank",
    "kv_lora_rank",
)
_MOST = (1 << 31) - 1
_POSITIONS = ("max_position_embeddings", "n_positions")


def check_causal(config: dict[str, Any], text: dict[str, Any], path: str) -> bool:
    """Whether the architecture's name shows a causal model; False when only transformers can tell. Raises UserError when it is none."""
    asks = "the verifier must be a decoder-only (causal) language model"
    if config.get("is_encoder_decoder") or text.get("is_encoder_decoder"):
        raise UserError(f"{path}: an encoder-decoder model; {asks}")
    kind = str(text.get("model_type"))
    names = config.get("architectures")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise UserError(f"{path}: architectures must be a list of class names, it is {_shown(names)}")
    if kind in _NEVER_CAUSAL or (kind in _CAUSAL_IF_DECODER and text.get("is_decoder") is not True):
        what = ", ".join(names or []) or "it"
        raise UserError(f"{path}: {what} (model_type {kind}) looks at later tokens too; {asks}")
    return any(name.endswith(_CAUSAL_ENDINGS) for name in names or [])


def check_counts(text: dict[str, Any], path: str) -> None:
    """Raise UserError for a head count, width or number of experts that is no whole number. Some models have a list, one a layer."""
    for key in _COUNTS:
        value = text.get(key)
        for number in value if isinstance(value, list) else [value]:
            if number is not None and (type(number) is not int or number < 0):
                raise UserError(f"{path}: {key} is {_shown(value)}; a whole number is expected")
    heads = text.get("num_attention_heads", text.get("n_head"))
    if heads == 0:
        raise UserError(f"{path}: 0 attention heads; a whole number from 1 up is expected")


def max_positions(text: dict[str, Any]) -> int | None:
    """Positions that the model is made for; None when config.json does not say.

    Rope scaling may extend them: some models write the extended number into max_position_embeddings, others (Qwen2.5 with YaRN)
    leave the original one there, so the larger reading counts.
    """
    given = next((text[key] for key in _POSITIONS if type(text.get(key)) is int and 0 < text[key] <= _MOST), None)
    if given is None:
        return None
    most = given
    for key in ("rope_scaling", "rope_parameters"):
        outer = text.get(key)
        if isinstance(outer, dict):
            for rope in [outer, *(value for value in outer.values() if isinstance(value, dict))]:  # one a kind of layer, in some models
                factor, original = rope.get("factor"), rope.get("original_max_position_embeddings")
                base = original if type(original) is int and 0 < original <= _MOST else given
                if isinstance(factor, (int, float)) and 1 < factor < 1e6:
                    most = max(most, int(base * factor))
    return most


def number(text: dict[str, Any], keys: tuple[str, ...], path: str) -> int:
    """The first of the keys that is there, a whole number from 1 up. Raises UserError."""
    found = [key for key in keys if text.get(key) is not None]
    if not found:
        raise UserError(f"{path}: no {keys[0]}; the model's shape cannot be told")
    value = text[found[0]]
    if type(value) is not int or not 1 <= value <= _MOST:
        raise UserError(f"{path}: {found[0]} is {_shown(value)}; a whole number from 1 to {_MOST} is expected")
    return value


def _shown(value: Any) -> str:
    return repr(value)[:80]
