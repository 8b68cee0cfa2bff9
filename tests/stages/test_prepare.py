"""prepare: answers become rows as the trainer reads them; whatever is left out is counted; what cannot be is named."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answer_runs import END, answer, load_rows, newest, prepared_manifest, run_stage

from pipeline import preflight, settings
from pipeline.checks_data import check_data
from pipeline.contract import lineage
from pipeline.preparation import order

pytestmark = pytest.mark.xdist_group("answers")


def sides(run: Path) -> tuple[set[str], set[str]]:
    """Ids that train, and that validate."""
    rows, train = load_rows(run)["id"], prepared_manifest(run)["totals"]["train_samples"]
    return set(rows[:train]), set(rows[train:])


def test_rows_are_the_answers_ids_with_the_loss_on_the_response(made: Callable[..., Path], tokenizer: Any) -> None:
    run = made(40, holdout=3)
    said = run_stage(run, "prepare")
    rows, answers = load_rows(run), [answer(number, tokenizer) for number in range(40)]
    by_id = {one["id"]: one for one in answers}
    assert sorted(rows["id"]) == sorted(by_id)
    for sample_id, ids, mask, length in zip(rows["id"], rows["input_ids"], rows["loss_mask"], rows["seq_len"], strict=True):
        one = by_id[sample_id]
        assert ids == one["prompt_token_ids"] + one["response_token_ids"]
        assert mask == [0] * len(one["prompt_token_ids"]) + [1] * len(one["response_token_ids"])
        assert length == len(ids)
    assert load_rows(run, "holdout")["id"] and set(load_rows(run, "holdout")["id"]) == {"p1000", "p1001", "p1002"}
    receipt, manifest = newest(run, "prepare"), prepared_manifest(run)
    assert receipt["verified"] is True and receipt["bad"] == 0 and receipt["spot_checked"] == 40
    loss = sum(len(one["response_token_ids"]) for one in answers)
    assert receipt["loss_tokens"] == loss and receipt["loss_share"] == pytest.approx(loss / receipt["tokens"], abs=1e-6)
    lengths = sorted(rows["seq_len"])
    assert (
        receipt["lengths"]["median"] == lengths[19]
        and receipt["lengths"]["max"] == lengths[-1]
        and receipt["lengths"]["p99"] == lengths[39]
    )
    assert (receipt["samples"], receipt["holdout_samples"]) == (40, 3)
    checked = check_data(str(run / "data" / "prepared"), 512, 4096)
    assert manifest["fingerprint"] == checked.fingerprint == receipt["fingerprint"]
    assert manifest["complete"] is True and manifest["stage"] == "prepare"
    resolved = settings.to_json(settings.load(str(run / "settings.toml")))
    assert lineage.outdated(str(run), resolved)["prepare"] is None
    assert "3 held out" in said and newest(run, "prepare", "progress/0.json")["done"] == 43


def test_what_is_left_out_is_counted_by_reason(made: Callable[..., Path], tokenizer: Any) -> None:
    twin = answer(0, tokenizer)
    asked_again = answer(1000, tokenizer)  # its prompt is a held-out one
    changed = {
        1: {"response_token_ids": []},
        2: {"prompt_token_ids": []},
        3: {"response_token_ids": [END], "content": "", "reasoning": None},
        4: {key: twin[key] for key in ("prompt_token_ids", "response_token_ids", "content", "reasoning")},
        5: {"ids_match": False},
        6: {"ids_match": None},
        7: {key: asked_again[key] for key in ("prompt_token_ids", "response_token_ids", "content", "reasoning")},
    }
    run = made(20, changed, holdout=1, prepare={"min_loss_tokens": 2, "mismatched": "drop"})
    said = run_stage(run, "prepare")
    receipt = newest(run, "prepare")
    assert receipt["left_out"] == {"empty": 2, "short": 1, "duplicates": 1, "mismatched": 1, "held_out": 1}
    assert receipt["answers"] == 20 == receipt["samples"] + sum(receipt["left_out"].values())
    assert receipt["unchecked"] == 1 and set(load_rows(run)["id"]) == {f"p{number}" for number in (0, 6, *range(8, 20))}
    assert "6 of 20 + 1 held out: 2 empty, 1 short, 1 duplicates, 1 mismatched, 1 held_out" in said
    (run / "settings.toml").write_text((run / "settings.toml").read_text().replace('"drop"', '"keep"'))
    run_stage(run, "prepare")
    receipt = newest(run, "prepare")
    assert receipt["left_out"]["mismatched"] == 0 and receipt["mismatched"] == 1 and "p5" in load_rows(run)["id"]


def test_cut_samples_keep_their_mask_and_are_counted(made: Callable[..., Path], tokenizer: Any) -> None:
    run = made(30, prepare={"max_length_tokens": 60})
    run_stage(run, "prepare")
    answers = {f"p{number}": answer(number, tokenizer) for number in range(30)}
    rows, receipt = load_rows(run), newest(run, "prepare")
    whole = {name: one["prompt_token_ids"] + one["response_token_ids"] for name, one in answers.items()}
    assert max(rows["seq_len"]) == 60
    assert all(ids == whole[name][:60] for name, ids in zip(rows["id"], rows["input_ids"], strict=True))
    assert all(mask.index(1) == len(answers[name]["prompt_token_ids"]) for name, mask in zip(rows["id"], rows["loss_mask"], strict=True))
    assert receipt["cut"] == sum(len(ids) > 60 for ids in whole.values()) > 0
    assert receipt["cut_tokens"] == sum(max(0, len(ids) - 60) for ids in whole.values())


def test_the_trainers_own_cut_falls_where_ours_is() -> None:
    """Its expression, int(len(data) * ratio), for every cut of small datasets and many of large ones; its loaders want 0 < ratio < 1."""
    for rows in (*range(2, 130), 9_990, 10_000, 99_991, 1 << 20, 12_345_678, (1 << 31) - 1):
        for cut in range(1, rows) if rows < 130 else (1, 2, 3, rows // 3, rows // 2, round(rows * 0.95), rows - 2, rows - 1):
            ratio = order.train_ratio(cut, rows)
            assert int(rows * ratio) == cut and 0 < ratio < 1
        assert order.train_ratio(rows, rows) == 1.0


def test_more_data_moves_no_sample_to_the_other_side(made: Callable[..., Path]) -> None:
    few, many = made(60, prepare={"validation_share": 0.2}), made(90, prepare={"validation_share": 0.2})
    other = made(60, prepare={"validation_share": 0.2, "seed": 5})
    for run in (few, many, other):
        run_stage(run, "prepare")
    (train, validation), (more_train, more_validation) = sides(few), sides(many)
    assert train < more_train and validation < more_validation
    assert 3 <= len(validation) <= 24 and sides(other)[1] != validation
    order_of_few = [one for one in load_rows(many)["id"] if one in train]
    assert order_of_few == load_rows(few)["id"][: len(train)]


def test_without_validation_all_rows_train_and_that_is_said(made: Callable[..., Path]) -> None:
    run = made(5, prepare={"validation_share": 0.0})
    assert "no validation rows" in run_stage(run, "prepare")
    assert prepared_manifest(run)["totals"]["train_ratio"] == 1.0 and newest(run, "prepare")["validation_samples"] == 0
    small = made(3, prepare={"validation_share": 0.001})
    assert "the nearest one is taken" in run_stage(small, "prepare")
    assert newest(small, "prepare")["validation_samples"] == 1
    all_of_them = made(3, prepare={"validation_share": 0.999999})
    assert "prepare.validation_share" in run_stage(all_of_them, "prepare", code=2)


def test_the_extraction_is_foretold_to_the_byte(made: Callable[..., Path]) -> None:
    run = made(25, extract={"max_length_tokens": 50, "layer_ids": [1, 4, 8], "min_free_bytes": 0}, holdout=2)
    said = run_stage(run, "prepare")
    (run / "data" / "hidden_states").mkdir()
    plan = preflight.make_plan(settings.load(str(run / "settings.toml")), str(run), None)
    receipt = newest(run, "prepare")
    assert receipt["extract_bytes"] == plan.total_bytes and receipt["extract_tokens"] == plan.tokens and receipt["extract_samples"] == 25
    assert "rows would be cut and left out by the trainer" in said
    run_stage(run, "prepare", "--set", f"extract.min_free_bytes={1 << 60}")
    facts = newest(run, "prepare", "progress/0.json")["facts"]
    assert [level for label, text, level in facts if label == "extraction" and "too little" in text] == ["warn"]
    run_stage(run, "prepare", "--set", "extract.layer_ids=[99]")
    assert newest(run, "prepare")["extract_bytes"] is None


def test_lengths_are_those_of_numpy_on_many_rows() -> None:
    from pipeline.preparation.report import length_statistics

    lengths = list(range(1, 1001))
    assert length_statistics(lengths) == {"min": 1, "mean": 500.5, "median": 500, "p90": 900, "p99": 990, "max": 1000}
    assert math.isclose(length_statistics([7])["mean"], 7)
