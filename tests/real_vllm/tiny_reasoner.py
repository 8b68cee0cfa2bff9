"""A verifier so small that a CPU trains and serves it, which reasons, answers and ends as a large one does.

DeepSeek-V3's shape, as the reference run's model: latent attention with the cache sizes that vLLM's CPU kernels are compiled for (512 and
64), routed and shared experts. Trained for seconds, until it knows four animals by heart, so that its tokens are text that a chat template
can give again.
"""

from pathlib import Path
from typing import Any

from pipeline.rehearsal.model import shape

ANIMALS = {"cat": "It sleeps all day.", "owl": "It hears everything.", "elk": "It swims well.", "ant": "It carries leaves."}
TRAINED_ON = range(64)
BATCH = 16
BEGIN, END, USER, ASSISTANT, THINK, THOUGHT = "<|begin|>", "<|end|>", "<|user|>", "<|assistant|>", "<think>", "</think>"
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>"
    "{% if message.get('reasoning_content') %}<think>{{ message['reasoning_content'] }}</think>{% endif %}"
    "{{ message['content'] }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
VOCABULARY = 384
MOST_STEPS, GOOD_LOSS = 400, 0.02


def question(number: int) -> str:
    return f"Question {number}: what of the {_animal(number)}?"


def build(directory: Path) -> float:
    """Train and save model and tokenizer; returns the largest of the last losses."""
    import torch
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(5)
    tokenizer = _tokenizer(directory)
    changes: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 128,
        "moe_intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "n_routed_experts": 4,
        "n_group": 1,
        "first_k_dense_replace": 1,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "max_position_embeddings": 1024,
    }
    model: Any = DeepseekV3ForCausalLM(DeepseekV3Config(**{**shape(), **changes}))
    loss = _train(model, _batch(tokenizer))
    model.save_pretrained(directory, max_shard_size="1MB")
    return loss


def _tokenizer(directory: Path) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 2,
        special_tokens=[BEGIN, END, USER, ASSISTANT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text for number in range(100) for text in (question(number), *_answer(number))], trainer)
    fast: Any = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=END,
        additional_special_tokens=[USER, ASSISTANT],
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
        chat_template=TEMPLATE,
    )
    # Added, but not "special", as the large models have them: special ones are left out of the text that vLLM's reasoning parser reads
    # (0.32), and the whole answer then counts as reasoning.
    fast.add_tokens([AddedToken(text, special=False, normalized=False) for text in (THINK, THOUGHT)])
    assert len(fast) <= VOCABULARY
    fast.save_pretrained(directory)
    return fast


def _answer(number: int) -> tuple[str, str]:
    """(reasoning, content)."""
    return f"This is about the {_animal(number)}.", ANIMALS[_animal(number)]


def _animal(number: int) -> str:
    return list(ANIMALS)[number % len(ANIMALS)]


def _batch(tokenizer: Any) -> "tuple[Any, Any]":
    """(ids, labels), [conversations, tokens]; the loss is on the answers."""
    import torch

    rows = []
    for number in TRAINED_ON:
        messages = [{"role": "user", "content": question(number)}]
        reasoning, content = _answer(number)
        prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        answer = {"role": "assistant", "reasoning_content": reasoning, "content": content}
        whole = tokenizer.apply_chat_template([*messages, answer], tokenize=False)
        before = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
        rows.append((tokenizer(whole, add_special_tokens=False)["input_ids"], before))
    longest = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([row + [1] * (longest - len(row)) for row, _ in rows])
    labels = torch.tensor([[-100] * before + row[before:] + [-100] * (longest - len(row)) for row, before in rows])
    return ids, labels


def _train(model: Any, batch: "tuple[Any, Any]") -> float:
    import torch

    ids, labels = batch
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses: list[float] = []
    for step in range(MOST_STEPS):
        rows = slice(step * BATCH % len(ids), step * BATCH % len(ids) + BATCH)
        optimizer.zero_grad()
        loss = model(input_ids=ids[rows], labels=labels[rows]).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses = [*losses[1 - len(ids) // BATCH :], loss.item()]
        if len(losses) * BATCH == len(ids) and max(losses) < GOOD_LOSS:
            break
    return max(losses)
