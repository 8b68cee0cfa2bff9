"""The memory of captured hidden states: one batch's at a time, and foretold for the longest sample that may come."""

import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from pipeline import settings
from pipeline.batches import Batch
from pipeline.engines.transformers_engine import TransformersEngine
from pipeline.model_memory import SPARE_BYTES
from pipeline.preflights import extract
from pipeline.preflights.report import Report
from tests.fakes.serve_runs import write_model


def test_the_states_of_a_batch_are_gone_before_the_next_ones_are_made() -> None:
    made: list[weakref.ref[torch.Tensor]] = []

    class Engine(TransformersEngine):
        def _forward(self, token_ids: "list[torch.Tensor]", width: int) -> torch.Tensor:
            assert all(one() is None for one in made), "two batches' states at once"
            found = torch.zeros(len(token_ids), width, 1, 1)
            made.append(weakref.ref(found))
            return found

    data = SimpleNamespace(token_ids=lambda index: torch.arange(3).numpy())
    engine = Engine(cast(Any, SimpleNamespace(extract=SimpleNamespace(threads=0))), cast(Any, None), (0,))
    rows: Iterator[Any] = engine.run([Batch((0, 1), 3), Batch((2,), 3), Batch((3,), 3)], cast(Any, data))
    assert [index for index, _, _ in rows] == [0, 1, 2, 3] and len(made) == 3


@pytest.mark.parametrize(
    ("card_bytes", "max_length_tokens", "ok"),
    [(1 << 40, 4096, True), (SPARE_BYTES + (30 << 20), 4096, True), (SPARE_BYTES + (30 << 20), 1 << 24, None), (1 << 16, 4096, False)],
)
def test_one_long_sample_may_take_more_than_a_batch(card_bytes: int, max_length_tokens: int, ok: bool | None, tmp_path: Path) -> None:
    asked = {"device": "cuda", "layer_ids": [1], "batch_tokens": 16384, "max_length_tokens": max_length_tokens}
    sections = {"model": {"path": str(write_model(tmp_path / "model"))}, "extract": asked}
    card = {"total_bytes": card_bytes, "reserved_bytes": 0, "reserve_apart": True}
    report = Report()
    resolved = settings.convert(sections, settings.Settings, "test")
    extract.add_memory(report, resolved, str(tmp_path), {"cards": [card], "simulated": False})
    (line,) = report.lines
    assert line["ok"] is ok and ("max_length_tokens" in line["what_to_do"]) is (ok is None), line
