"""Records as the generate stage writes them, and somebody who asks the host for one."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.host import samples
from pipeline.host.errors import RequestError


def record(name: str, **other: Any) -> dict[str, Any]:
    return {
        "id": name,
        "messages": [{"role": "user", "content": "q " + name}],
        "split": "train",
        "prompt_token_ids": [1, 2, 3],
        "response_token_ids": [4, 5],
        "reasoning": None,
        "content": "answer",
        "finish_reason": "stop",
        "ids_match": True,
        "mismatch": None,
        "view": [["prompt", "q"], ["response", "answer"], ["response_special", "<end>"]],
        **other,
    }


def line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


class Client:
    """Asks as the agent is asked."""

    def __init__(self, data_dir: Path):
        self._data_dir = data_dir

    def __call__(self, direction: str, offset: "int | None" = None, which: str = "responses", run: Any = "demo") -> dict[str, Any]:
        return samples.sample(str(self._data_dir), {"run": run, "which": which, "direction": direction, "offset": offset})

    def missing(self, **fields: Any) -> str:
        with pytest.raises(RequestError) as caught:
            self("last", **fields)
        assert caught.value.kind == "missing"
        return str(caught.value)

    def walk(self, direction: str) -> "list[str]":
        """Ids from one end to the other, the empty replies between them included as None."""
        forwards = direction == "next"
        reply, ids = self("first" if forwards else "last"), []
        while True:
            ids += [reply["sample"]["id"]] if reply["sample"] else []
            if reply["last" if forwards else "first"]:
                return ids if forwards else ids[::-1]
            assert len(ids) < 1000
            reply = self(direction, reply["end" if forwards else "offset"])
