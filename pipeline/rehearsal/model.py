"""The rehearsal's verifier: a DeepSeek-V3-shaped model (MLA, routed and shared experts), small enough for two CPU cores."""

from typing import Any

from pipeline.rehearsal.tokenizer import VOCABULARY

SEED = 20
HIDDEN, LAYERS = 192, 12
SHARD = "4MB"


def shape() -> dict[str, Any]:
    """What its config.json says."""
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": 2 * HIDDEN,
        "moe_intermediate_size": HIDDEN // 3,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "n_shared_experts": 1,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "n_group": 2,
        "topk_group": 1,
        "first_k_dense_replace": 2,
        "q_lora_rank": 64,
        "kv_lora_rank": 32,
        "qk_rope_head_dim": 16,
        "qk_nope_head_dim": 32,
        "v_head_dim": 32,
        "max_position_embeddings": 8192,
        "num_nextn_predict_layers": 0,
        "routed_scaling_factor": 1.0,
        # At 0.02 such a narrow model hardly changes its hidden states from layer to layer.
        "initializer_range": 0.06,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 1,
        # vLLM takes the router's bias only when config.json names this method.
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
    }


def new_model() -> Any:
    """A model with random weights, float32, the same each time."""
    import torch
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

    config = DeepseekV3Config(**shape())
    state = torch.random.get_rng_state()
    try:
        torch.manual_seed(SEED)
        return DeepseekV3ForCausalLM(config)
    finally:
        torch.random.set_rng_state(state)


def save_model(model: Any, directory: str) -> int:
    """Write config.json and bf16 safetensors shards with an index to ``directory``; returns the number of parameters."""
    import torch

    model = model.to(torch.bfloat16)
    model.save_pretrained(directory, max_shard_size=SHARD)
    return sum(parameter.numel() for parameter in model.parameters())
