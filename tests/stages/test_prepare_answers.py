"""prepare takes the answers that generate checked, and no others, unless that is overridden; then the rows say what they are of."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answer_runs import newest, prepared_manifest, run_stage

from pipeline import settings
from pipeline.contract import lineage

pytestmark = pytest.mark.xdist_group("answers")


def outdated(run: Path) -> dict[str, str | None]:
    return lineage.outdated(str(run), settings.to_json(settings.load(str(run / "settings.toml"))))


def lines_of(run: Path, name: str = "responses.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "data" / "generated" / name).read_text().splitlines()]


def write(run: Path, lines: list[dict[str, Any]], name: str = "responses.jsonl") -> None:
    (run / "data" / "generated" / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def less(lines: list[dict[str, Any]]) -> None:
    del lines[1]


def half(lines: list[dict[str, Any]]) -> None:
    del lines[: len(lines) // 2]


def renamed(lines: list[dict[str, Any]]) -> None:
    lines[0]["id"] = "another"


def token(lines: list[dict[str, Any]]) -> None:
    lines[0]["response_token_ids"][0] += 1


def prompt_token(lines: list[dict[str, Any]]) -> None:
    lines[0]["prompt_token_ids"][-1] -= 1


def flag(lines: list[dict[str, Any]]) -> None:
    lines[0]["ids_match"] = False


def text(lines: list[dict[str, Any]]) -> None:
    lines[0]["content"] = "what a person reads"


def question(lines: list[dict[str, Any]]) -> None:
    lines[0]["messages"][0]["content"] = "what another person asked"


@pytest.mark.parametrize("edit", [less, half, renamed, token, prompt_token, flag, text, question])
@pytest.mark.parametrize("name", ["responses.jsonl", "holdout.jsonl"])
def test_edited_answers_are_refused_by_what_is_there(made: Callable[..., Path], edit: Callable[[list], None], name: str) -> None:
    run = made(6, holdout=3)
    lines = lines_of(run, name)
    edit(lines)
    write(run, lines, name)
    said = run_stage(run, "prepare", code=2)
    count = len(lines) + (3 if name == "responses.jsonl" else 6)
    assert f"{count} answers with the fingerprint" in said and "9 answers with" in said, said
    assert "put the files back, or add --override REASON" in said and "run generate again" not in said
    assert not (run / "data" / "prepared" / "eaglewatch.json").exists()


@pytest.mark.parametrize("count", [7, "9", None])
def test_a_manifest_that_counts_other_answers_is_refused(made: Callable[..., Path], count: Any) -> None:
    run = made(6, holdout=3)
    path = run / "data" / "generated" / "eaglewatch.json"
    there = json.loads(path.read_text())
    path.write_text(json.dumps({**there, "totals": {**there["totals"], "answered": count}}))
    said = run_stage(run, "prepare", code=2)
    assert ("are not those that generate checked" if count == 7 else "eaglewatch.json has no totals.answered") in said, said


def test_an_answer_to_a_training_prompt_forged_among_the_held_out_ones_is_refused(made: Callable[..., Path]) -> None:
    run = made(6, holdout=3)
    forged = {**lines_of(run)[2], "split": "holdout", "response_token_ids": [65, 66, 67, 257]}
    write(run, [*lines_of(run, "holdout.jsonl"), forged], "holdout.jsonl")
    for override in ((), ("--override", "I want it")):
        said = run_stage(run, "prepare", *override, code=2)
        assert "responses.jsonl: line 3: p2 was answered already" in said, said
    assert not (run / "data" / "prepared" / "eaglewatch.json").exists()


def test_under_an_override_the_rows_say_what_they_are_of_and_stay_outdated(made: Callable[..., Path]) -> None:
    run = made(12)
    told = json.loads((run / "data" / "generated" / "eaglewatch.json").read_text())["fingerprint"]
    run_stage(run, "prepare")
    assert prepared_manifest(run)["inputs"]["generate"] == told and outdated(run)["prepare"] is None
    said = run_stage(run, "prepare", "--verify", "--set", "prepare.min_loss_tokens=3")
    assert "verified: 12 rows" in said and "OUTDATED: prepare.min_loss_tokens was 1, it is 3 now" in said
    original = lines_of(run)
    write(run, [*original, {**original[0], "id": "one more"}])
    said = run_stage(run, "prepare", "--verify")  # the rows are sound, and of other answers
    assert "verified: 12 rows" in said and "OUTDATED: the answers are others" in said
    assert "the answers are others" in newest(run, "prepare")["outdated"]
    edited = lines_of(run)[:12]
    edited[0] = {**edited[0], "response_token_ids": [*edited[0]["response_token_ids"]]}
    token(edited)
    write(run, edited)
    run_stage(run, "prepare", "--override", "I mended a typing error")
    receipt = newest(run, "prepare")
    assert receipt["overridden"]["reason"] == "I mended a typing error" and "12 answers with" in receipt["overridden"]["what"][0]
    read = prepared_manifest(run)["inputs"]["generate"]
    assert read != told and read[:12] in receipt["overridden"]["what"][0]
    assert "made of another output of generate" in str(outdated(run)["prepare"])
    for stage in ("vocab", "extract"):
        assert "prepare is outdated" in run_stage(run, stage, code=2)
    write(run, original)
    run_stage(run, "prepare")
    assert outdated(run)["prepare"] is None and newest(run, "prepare")["outdated"] is None
    assert "OUTDATED" not in run_stage(run, "prepare", "--verify")


def test_rows_of_answers_that_were_not_complete_are_up_to_date_only_when_these_were_all(made: Callable[..., Path]) -> None:
    run = made(8)
    path = run / "data" / "generated" / "eaglewatch.json"
    whole = json.loads(path.read_text())
    path.write_text(json.dumps({**whole, "complete": False, "fingerprint": None}))
    run_stage(run, "prepare", "--override", "a first look")
    assert "not complete now" in str(outdated(run)["prepare"])
    path.write_text(json.dumps({**whole, "fingerprint": "f" * 64}))  # more answers came
    assert "made of another output of generate" in str(outdated(run)["prepare"])
    path.write_text(json.dumps(whole))
    assert outdated(run)["prepare"] is None
