"""The rehearsal's tokenizer: byte-level BPE, trained where it is used."""

from collections.abc import Iterator
from typing import Any

from pipeline.rehearsal.chats import chats
from pipeline.rehearsal.prepared import texts

VOCABULARY = 2048
BEGIN, END, SYSTEM, USER, ASSISTANT = "<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"
OPEN, CLOSE = "<think>", "</think>"
"""Around an answer's reasoning. Tokens of their own, but not special ones, as in the models of DeepSeek and Kimi: decoding keeps them,
and vLLM's reasoning parsers look for them."""
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>"
    "{% set reasoning = message['reasoning_content'] if message['reasoning_content'] is defined else message['reasoning'] %}"
    "{% if message['role'] == 'assistant' and reasoning is defined and reasoning is not none %}<think>{{ reasoning }}</think>{% endif %}"
    "{% if message['content'] is not none %}{{ message['content'] }}{% endif %}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""The model itself says ``<think>``: the prompt for an answer ends with ``<|assistant|>``."""


def build_tokenizer(directory: str) -> Any:
    """Train, save to ``directory`` as a fast transformers tokenizer, and return it."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BEGIN, END, SYSTEM, USER, ASSISTANT, OPEN, CLOSE],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(), trainer)
    tokenizer.add_tokens([AddedToken(text, normalized=False, special=False) for text in (OPEN, CLOSE)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=END,
        additional_special_tokens=[SYSTEM, USER, ASSISTANT],
        clean_up_tokenization_spaces=False,
        model_max_length=8192,
        chat_template=CHAT_TEMPLATE,
    )
    fast.save_pretrained(directory)
    return fast


def _corpus() -> Iterator[str]:
    for chat in chats():
        for message in chat["messages"]:
            yield from (text for text in (message.get("reasoning_content"), message["content"]) if text)
    yield from texts()
