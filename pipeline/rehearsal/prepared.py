"""The rehearsal's ready-made data, for an extraction without the stages before it: the Arrow dataset that the prepare stage would write.

Its answers are long pieces of Python's own help, which every Python carries: as ragged as real ones.
"""

from pydoc_data.topics import topics
from typing import Any

SAMPLES = 240
TEMPLATES = (
    "What does Python's help say about {topic}?",
    "Explain {topic} in Python to somebody who knows another language.",
    "I am reviewing code that uses {topic}. Which rules do I need to know?",
    "Summarise the reference on {topic}, with the details that people forget.",
    "When would I need {topic}, and what goes wrong most often?",
)
ANSWER_CHARACTERS = (400, 3200)
"""Shortest and longest answer, but for the long ones."""
LONG_ANSWER_CHARACTERS = 10_000
LONG_EVERY = 40


def texts() -> list[str]:
    """What the answers are cut from."""
    return [topics[name] for name in sorted(topics)]


def build_prepared(directory: str, tokenizer: Any) -> "dict[str, int]":
    """Write the dataset (input_ids, loss_mask, seq_len, id) to ``directory``; returns samples, tokens and the longest sample in tokens."""
    from datasets import Dataset, Features, Sequence, Value

    rows = [_row(number, tokenizer) for number in range(SAMPLES)]
    columns = {name: [row[name] for row in rows] for name in ("input_ids", "loss_mask", "seq_len", "id")}
    whole = Value("int64")
    features = Features({"input_ids": Sequence(whole), "loss_mask": Sequence(whole), "seq_len": whole, "id": Value("string")})
    Dataset.from_dict(columns, features=features).save_to_disk(directory)
    return {"samples": len(rows), "tokens": sum(columns["seq_len"]), "longest": max(columns["seq_len"])}


def _row(number: int, tokenizer: Any) -> "dict[str, Any]":
    """The chat as the template renders it; the loss is on the answer and its end token."""
    template, topic = divmod(number, len(topics))
    name = sorted(topics)[topic]
    messages = [{"role": "user", "content": TEMPLATES[template].format(topic=name.replace("-", " ").lower())}]
    head = tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, return_dict=False)
    messages.append({"role": "assistant", "content": _answer(number)})
    ids = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False)
    if ids[: len(head)] != head:
        raise RuntimeError("the chat template does not render an answer as a continuation of its prompt")
    mask = [0] * len(head) + [1] * (len(ids) - len(head))
    return {"input_ids": ids, "loss_mask": mask, "seq_len": len(ids), "id": f"help-{number}"}


def _answer(number: int) -> str:
    """A piece of the topic's text, of ragged length, the same whenever it is made.

    Each template starts at another place of the text; a topic too short goes on with the next ones.
    """
    names = sorted(topics)
    template, at = divmod(number, len(names))
    shortest, longest = ANSWER_CHARACTERS
    # A multiplicative walk: lengths spread evenly over the range, without a random generator whose stream may change.
    length = shortest + (number * 2654435761 >> 7) % (longest - shortest)
    if number % LONG_EVERY == LONG_EVERY - 1:
        length = LONG_ANSWER_CHARACTERS + length
    text = topics[names[at]]
    text = text[template * longest % max(1, len(text) - length) :]
    while len(text) < length:
        at = (at + 1) % len(names)
        text += "\n" + topics[names[at]]
    return text[:length]
