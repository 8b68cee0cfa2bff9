"""Rows that were changed after prepare checked them feed neither vocab nor extract, unless that is overridden; then it is on record."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from answer_runs import load_rows, newest, prepared_manifest, run_stage

from pipeline import settings
from pipeline.contract import lineage

pytestmark = pytest.mark.xdist_group("answers")
SMALL = {"draft_vocab_size": 20, "coverage_sizes": [16]}
EXTRACT = {"device": "cpu", "threads": 1, "min_free_bytes": 0}


def outdated(run: Path) -> dict[str, str | None]:
    return lineage.outdated(str(run), settings.to_json(settings.load(str(run / "settings.toml"))))


def edit(run: Path, column: str, place: str = "") -> None:
    """Change one value of a column where it lies in the Arrow file; of a mask, its first 0."""
    path = next((run / "data" / "prepared" / place).glob("data-*.arrow"))
    data = bytearray(path.read_bytes())
    values = [value for row in load_rows(run, place)[column] for value in row]
    start = data.index(b"".join(value.to_bytes(8, "little") for value in values))
    data[start] = 1 - values[0] if column == "loss_mask" else (values[0] + 1) % 200
    path.write_bytes(data)


@pytest.mark.parametrize(("column", "place"), [("loss_mask", ""), ("input_ids", ""), ("loss_mask", "holdout")])
def test_edited_rows_are_refused_by_name(made: Callable[..., Path], column: str, place: str) -> None:
    run = made(10, holdout=3, vocab=SMALL, extract=EXTRACT)
    run_stage(run, "prepare")
    edit(run, column, place)
    for stage in ("vocab", "extract"):
        said = run_stage(run, stage, code=2)
        assert f"the rows in data/prepared{place and '/'}{place} are not those that prepare made: sha256 " in said, said
        assert "run prepare again, or add --override REASON" in said
    assert not (run / "data" / "vocab" / "eaglewatch.json").exists() and not (run / "data" / "hidden_states" / "data_config.json").exists()
    run_stage(run, "prepare")  # puts the same rows back
    run_stage(run, "vocab")
    assert outdated(run)["vocab"] is None


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("state.json", '"input_ids"', '"seq_len"'),
        ("holdout/state.json", '"torch"', '"numpy"'),
        ("dataset_info.json", "int64", "int32"),
        ("dataset_info.json", "", None),
    ],
)
def test_how_rows_are_read_is_part_of_them(made: Callable[..., Path], name: str, before: str, after: str | None) -> None:
    """The files beside the rows: which columns a reader gets, of which type."""
    run = made(10, holdout=3, vocab=SMALL, extract=EXTRACT)
    run_stage(run, "prepare")
    path = run / "data" / "prepared" / name
    text = path.read_text()
    assert before in text
    path.unlink() if after is None else path.write_text(text.replace(before, after, 1))
    for stage in ("vocab", "extract"):
        said = run_stage(run, stage, code=2)
        assert "the rows in data/prepared" in said and "are not those that prepare made: " in said, said
        assert after is not None or "(dataset_info.json: No such file or directory)" in said, said
    run_stage(run, "prepare")  # puts the same back
    assert path.read_text() == text
    run_stage(run, "vocab")


@pytest.mark.parametrize("column", ["loss_mask", "input_ids"])
def test_an_override_leaves_outputs_that_say_what_they_are_of(made: Callable[..., Path], column: str) -> None:
    run = made(10, vocab=SMALL, extract=EXTRACT)
    run_stage(run, "prepare")
    told = prepared_manifest(run)
    edit(run, column)
    run_stage(run, "vocab", "--override", "a trial")
    receipt = newest(run, "vocab")
    assert receipt["overridden"]["reason"] == "a trial" and "are not those that prepare made" in receipt["overridden"]["what"][0]
    inputs = json.loads((run / "data" / "vocab" / "eaglewatch.json").read_text())["inputs"]
    assert inputs["rows"] != told["totals"]["rows_sha256"] and (inputs["prepare"] == told["fingerprint"]) == (column == "loss_mask")
    assert "made of" in str(outdated(run)["vocab"])
    if column == "input_ids":
        run_stage(run, "extract", "--override", "a trial")
        config = json.loads((run / "data" / "hidden_states" / "data_config.json").read_text())
        assert config["data"]["fingerprint"] == inputs["prepare"] and "made of another output of prepare" in str(outdated(run)["extract"])
    run_stage(run, "prepare")
    assert "other prepared rows" in run_stage(run, "vocab", "--verify", code=2)
    run_stage(run, "vocab")
    assert outdated(run)["vocab"] is None
