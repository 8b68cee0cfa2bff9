"""The rehearsal's prepared data: the Arrow dataset that the prepare stage would write."""

from typing import Any

from pipeline.rehearsal.prompts import make_answer, make_prompts

SAMPLES = 240


def build_prepared(directory: str, tokenizer: Any) -> "dict[str, int]":
    """Write the dataset (input_ids, loss_mask, seq_len) to ``directory``; returns samples, tokens and the longest sample in tokens."""
    from datasets import Dataset, Features, Sequence, Value

    rows = [_row(number, prompt, tokenizer) for number, prompt in enumerate(make_prompts()[:SAMPLES])]
    columns = {name: [row[name] for row in rows] for name in ("input_ids", "loss_mask", "seq_len")}
    whole = Value("int64")
    features = Features({"input_ids": Sequence(whole), "loss_mask": Sequence(whole), "seq_len": whole})
    Dataset.from_dict(columns, features=features).save_to_disk(directory)
    return {"samples": len(rows), "tokens": sum(columns["seq_len"]), "longest": max(columns["seq_len"])}


def _row(number: int, prompt: "dict[str, Any]", tokenizer: Any) -> "dict[str, Any]":
    """The chat as the template renders it; the loss is on the answer and its end token."""
    head = tokenizer.apply_chat_template(prompt["messages"], tokenize=True, add_generation_prompt=True, return_dict=False)
    messages = [*prompt["messages"], {"role": "assistant", "content": make_answer(number, prompt["topic"])}]
    ids = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False)
    if ids[: len(head)] != head:
        raise RuntimeError("the chat template does not render an answer as a continuation of its prompt")
    return {"input_ids": ids, "loss_mask": [0] * len(head) + [1] * (len(ids) - len(head)), "seq_len": len(ids)}
