"""A request to the rehearsal's inference engine, and the choice of its next token."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

STOP, LENGTH, ABORTED = "stop", "length", "abort"


@dataclass(eq=False)
class Request:
    """One prompt to continue. The callbacks come from the engine's thread."""

    prompt: list[int]
    max_tokens: int
    temperature: float
    top_p: float
    seed: int | None
    ignore_eos: bool
    on_done: Callable[[str], None]
    """Called once with why it ended: STOP, LENGTH or ABORTED."""
    on_token: Callable[[int], None] | None = None
    output: list[int] = field(default_factory=list)
    """Token ids so far; an end token is the last one."""
    aborted: bool = False

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        """Its own: what else is in the batch does not change what it draws."""


def sample(requests: list[Request], logits: Any) -> list[int]:
    """The next token of every row of ``logits`` (float64 [B, vocabulary]): the likeliest at temperature 0, else drawn.

    Drawn with the request's own numbers, over the tokens in the order of their ids, so that rounding hardly ever changes the draw.
    """
    import torch

    tokens = logits.argmax(1)
    drawn = [row for row, request in enumerate(requests) if request.temperature > 0]
    if drawn:
        chosen = [requests[row] for row in drawn]
        heat = torch.tensor([[request.temperature] for request in chosen], dtype=torch.float64)
        shares = torch.softmax(logits[drawn] / heat, 1)
        top_p = torch.tensor([[request.top_p] for request in chosen], dtype=torch.float64)
        if bool((top_p < 1).any()):
            ordered, order = shares.sort(1, descending=True)
            beyond = ordered.cumsum(1) - ordered >= top_p  # the one that crosses top_p stays
            shares = shares.masked_fill(beyond.scatter(1, order, beyond), 0.0)
        sums = shares.cumsum(1)
        at = torch.tensor([[request.random.random()] for request in chosen], dtype=torch.float64) * sums[:, -1:]
        tokens[drawn] = torch.searchsorted(sums, at, right=True).clamp(max=logits.shape[1] - 1)[:, 0]
    return tokens.tolist()
