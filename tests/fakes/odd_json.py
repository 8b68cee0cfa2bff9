"""JSON that nobody asked for, in every place of an answer."""

import json
from typing import Any

from hypothesis import strategies as st

DEEP = b"[" * 100_000
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
GOOD = {
    "id": "x",
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hi", "reasoning": None}, "finish_reason": "stop", "token_ids": [1]}
    ],
    "prompt_token_ids": [1, 2],
    "usage": {"completion_tokens": 1},
    "data": [{"id": "m", "max_model_len": 10}],
    "error": {"message": "no", "detail": "no"},
}
PLACES = [
    (), ("model",), ("choices",), ("choices", 0), ("choices", 0, "message"), ("choices", 0, "message", "content"),
    ("choices", 0, "message", "reasoning"), ("choices", 0, "finish_reason"), ("choices", 0, "token_ids"), ("choices", 0, "token_ids", 0),
    ("prompt_token_ids",), ("prompt_token_ids", 0), ("usage",), ("usage", "completion_tokens"), ("data",), ("data", 0), ("data", 0, "id"),
    ("data", 0, "max_model_len"), ("error",), ("error", "message"), ("error", "detail"),
]  # fmt: skip
"""Where a server may put something else."""


def changed(place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    copy = json.loads(json.dumps(GOOD))
    at: Any = copy
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    return copy
