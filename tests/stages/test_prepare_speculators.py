"""The prepared rows in speculators' own dataset classes, with hidden states that our store wrote, unchanged."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answer_runs import in_fork, prepared_manifest, run_stage

pytestmark = pytest.mark.xdist_group("answers")
HIDDEN, LAYERS = 16, 4


def write_states(prepared: str, output: str) -> None:
    """Hidden states of every row, by the store; each value tells its row."""
    import datasets
    import torch

    from pipeline.store import Store

    rows: Any = datasets.load_from_disk(prepared)
    store = Store(output, [2, 4, 5, 8], 0, writer_threads=1)
    for index in range(len(rows)):
        ids = rows[index]["input_ids"]
        store.put(index, ids, torch.full((len(ids), LAYERS, HIDDEN), index + 1, dtype=torch.bfloat16))
    store.close()


def read_with_the_trainers_classes(prepared: str, states: str, ratio: float) -> dict[str, Any]:
    import torch
    from hs_connectors import FileTransfer
    from speculators.train.data import ArrowDataset
    from speculators.train.dataloader import create_train_val_loaders

    write_states(prepared, states)
    common: dict[str, Any] = {"transfer": FileTransfer(Path(states)), "on_missing": "raise"}
    found: dict[str, Any] = {}
    for split in ("train", "val"):
        data = ArrowDataset(max_len=256, datapath=prepared, train_ratio=ratio, split=split, **common)
        items: list[Any] = [data[index] for index in range(len(data))]
        assert all(isinstance(item, dict) for item in items), items
        assert all(item["hidden_states"].shape == (len(item["input_ids"]), (LAYERS - 1) * HIDDEN) for item in items)
        found[split] = [(item["input_ids"].tolist(), item["loss_mask"].tolist(), float(item["hidden_states"][0, 0])) for item in items]
        assert data.approx_lengths == [len(item["input_ids"]) for item in items]
    loaders = create_train_val_loaders(
        data_path=prepared,
        total_seq_len=256,
        hidden_states_dtype=torch.bfloat16,
        vllm_endpoint="",
        verifier_name_or_path="",
        request_timeout=None,
        max_retries=0,
        generation_validation_retries=0,
        max_consecutive_generation_failures=1,
        hidden_size=HIDDEN,
        num_target_layers=LAYERS - 1,
        num_workers=0,
        prefetch_factor=2,
        preprocess=None,
        train_data_ratio=ratio,
        **common,
    )
    found["learnt"] = [sum(int(batch["loss_mask"].sum()) for batch in loader) for loader in loaders]
    found["dropped"] = sum(batch["error_records"] for loader in loaders for batch in loader)
    return found


def test_the_trainers_datasets_and_loaders_read_it_as_it_is(made: Callable[..., Path], tmp_path: Path) -> None:
    run = made(24, prepare={"validation_share": 0.2}, holdout=2)
    run_stage(run, "prepare")
    totals = prepared_manifest(run)["totals"]
    (tmp_path / "states").mkdir()
    found = in_fork(read_with_the_trainers_classes, str(run / "data" / "prepared"), str(tmp_path / "states"), totals["train_ratio"])
    assert (len(found["train"]), len(found["val"])) == (totals["train_samples"], totals["validation_samples"])
    rows = found["train"] + found["val"]
    assert [state for _, _, state in rows] == list(range(1, 25))  # each row with its own file, over the cut too
    assert sum(sum(mask) for _, mask, _ in rows) == totals["loss_tokens"] == sum(found["learnt"]) and found["dropped"] == 0
    assert all(mask == sorted(mask) and 0 < sum(mask) < len(mask) == len(ids) for ids, mask, _ in rows)
