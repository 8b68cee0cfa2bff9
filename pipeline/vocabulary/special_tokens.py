"""The special tokens that a drafter has to be able to say, however rare they are in the data: turn ends, thinking, tool calls.

speculators chooses by frequency alone and forces none in.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

from pipeline.contract.files import read_json

_THINKING = ("<think>", "</think>", "◁think▷", "◁/think▷")
_CONVERSATIONS: tuple[list[dict[str, str]], ...] = (
    [{"role": "user", "content": "a"}],
    [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}],
)


def forced_tokens(tokenizer: Any, model_directory: str, anywhere: Any) -> dict[int, str]:
    """{token id: its text} of every token that the drafter's vocabulary must hold.

    Of the tokenizer's added tokens: those whose text the chat template names, that it puts into a rendered conversation, that occur in the
    data (``anywhere``: counts [verifier vocabulary]), and those that frame thinking. And every end token that the model's files name.
    """
    vocab_size = len(anywhere)
    added = {int(token): str(text) for token, text in tokenizer.added_tokens_decoder.items() if int(token) < vocab_size}
    template = json.dumps(tokenizer.chat_template, ensure_ascii=False) if tokenizer.chat_template else ""
    rendered = set(_rendered(tokenizer))
    forced = {
        token: text
        for token, text in added.items()
        if (text and json.dumps(text, ensure_ascii=False)[1:-1] in template) or token in rendered or anywhere[token] or text in _THINKING
    }
    for token in _end_tokens(tokenizer, model_directory):
        if 0 <= token < vocab_size:
            forced.setdefault(token, added.get(token) or str(tokenizer.convert_ids_to_tokens(token)))
    return dict(sorted(forced.items()))


def _rendered(tokenizer: Any) -> Iterator[int]:
    """Token ids of short conversations; a template that refuses one (no system turn, say) gives none for it."""
    for conversation in _CONVERSATIONS:
        for prompt in (False, True):
            try:
                yield from tokenizer.apply_chat_template(conversation, tokenize=True, add_generation_prompt=prompt, return_dict=False)
            except Exception:  # jinja's errors, and whatever a template raises by itself
                continue


def _end_tokens(tokenizer: Any, model_directory: str) -> set[int]:
    found = {tokenizer.eos_token_id}
    for name in ("generation_config.json", "config.json"):
        config = read_json(os.path.join(model_directory, name)) or {}
        for part in (config, config.get("text_config")):
            value = part.get("eos_token_id") if isinstance(part, dict) else None
            found.update(value if isinstance(value, list) else [value])
    return {token for token in found if type(token) is int}
