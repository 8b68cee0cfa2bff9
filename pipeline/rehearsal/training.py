"""A minute's training of the rehearsal's verifier on its chats, so that it speaks their sentences and ends by itself.

Reproducible on one machine: seed, number of steps and number of threads are fixed.
"""

import random
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

STEPS = 150
BATCH_CHATS = 8
RATE = 4e-3
WARM_UP_SHARE = 0.1
TOLD_EVERY_STEPS = 25
_IGNORED = -100


class Chat(NamedTuple):
    """One rendered chat."""

    ids: list[int]
    prompt: int
    """How many of them are the prompt's."""


def rendered(tokenizer: Any, chats: list[dict[str, Any]]) -> list[Chat]:
    """Chats as the chat template gives them."""
    made = []
    for chat in chats:
        ids = tokenizer.apply_chat_template(chat["messages"], return_dict=False)
        head = tokenizer.apply_chat_template(chat["messages"][:-1], add_generation_prompt=True, return_dict=False)
        made.append(Chat(ids, len(head)))
    return made


def train(model: Any, learn: list[Chat], unseen: list[Chat], steps: int, say: Callable[[str], None]) -> dict[str, float]:
    """Train in place; the loss is on whole chats.

    Returns steps, seconds, the last ``TOLD_EVERY_STEPS`` steps' mean loss (nats a token), and the share of the unseen answers' tokens that
    are the model's likeliest.
    """
    import torch
    from torch.nn.functional import cross_entropy

    began = time.monotonic()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps, pct_start=WARM_UP_SHARE)
    losses: list[float] = []
    model.train()
    for step, rows in zip(range(1, steps + 1), _batches(learn), strict=False):
        ids, labels = _padded(rows, whole=True)
        logits = model(ids, use_cache=False).logits[:, :-1]
        loss = cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=_IGNORED)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        losses.append(loss.item())
        if step % TOLD_EVERY_STEPS == 0:
            say(f"training: step {step} of {steps}, loss {_mean(losses):.2f}")
    model.eval()
    seconds = round(time.monotonic() - began, 1)
    return {"steps": steps, "training_s": seconds, "loss": round(_mean(losses), 3), "unseen_accuracy": round(_accuracy(model, unseen), 3)}


def _batches(chats: list[Chat]) -> Iterator[list[Chat]]:
    """Batches without end, of chats about as long as each other: little is padding."""
    mixed = random.Random(0)
    while True:
        ordered = sorted(chats, key=lambda chat: len(chat.ids) + 20 * mixed.random())
        batches = [ordered[at : at + BATCH_CHATS] for at in range(0, len(ordered), BATCH_CHATS)]
        mixed.shuffle(batches)
        yield from batches


def _padded(chats: list[Chat], whole: bool) -> tuple[Any, Any]:
    """Token ids and labels, int64 [chats, longest], padded on the right; labels of the prompts only when ``whole``."""
    import torch

    size = (len(chats), max(len(chat.ids) for chat in chats))
    ids, labels = torch.zeros(size, dtype=torch.int64), torch.full(size, _IGNORED)
    for row, chat in enumerate(chats):
        start = 0 if whole else chat.prompt
        ids[row, : len(chat.ids)] = torch.tensor(chat.ids)
        labels[row, start : len(chat.ids)] = ids[row, start : len(chat.ids)]
    return ids, labels


def _accuracy(model: Any, chats: list[Chat]) -> float:
    import torch

    ids, labels = _padded(chats, whole=False)
    with torch.inference_mode():
        likeliest = model(ids, use_cache=False).logits[:, :-1].argmax(-1)
    counted = labels[:, 1:] != _IGNORED
    return (likeliest == labels[:, 1:])[counted].float().mean().item()


def _mean(losses: list[float]) -> float:
    last = losses[-TOLD_EVERY_STEPS:]
    return sum(last) / len(last)
