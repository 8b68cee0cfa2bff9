"""prepare: answers that cannot be are named, hostile ones go through, and what is wrong with rows on disk is found."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answer_runs import answer, load_rows, newest, prepared_manifest, run_stage, write_answers

from pipeline import settings
from pipeline.contract import lineage

pytestmark = pytest.mark.xdist_group("answers")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"response_token_ids": [1, 2, 512]}, "line 3: response_token_ids[2]: token id 512 is outside the model's vocabulary of 512"),
        ({"prompt_token_ids": [1, -1]}, "line 3: prompt_token_ids[1]: token id -1"),
        ({"prompt_token_ids": [10**30]}, "line 3: prompt_token_ids[0]: token id 1000000"),
        ({"response_token_ids": [1, "2"]}, "line 3: response_token_ids[1]: Expected `int`, got `str`"),
        ({"response_token_ids": [True]}, "line 3: response_token_ids[0]: Expected `int`, got `bool`"),
        ({"response_token_ids": None}, "line 3: response_token_ids: Expected `array`, got `null`"),
        ({"split": "holdout"}, "line 3: p2 is of the split 'holdout', in the file of train"),
        ({"id": "p0"}, "line 3: p0 was answered on line 1 already"),
        ({"id": ""}, "line 3: id: Expected `str` of length >= 1"),
    ],
)
def test_an_answer_that_cannot_be_is_named(made: Callable[..., Path], line: dict[str, Any], words: str) -> None:
    run = made(5, {2: line})
    said = run_stage(run, "prepare", code=2)
    assert words in said.replace("\\", "") and "responses.jsonl" in said
    assert not (run / "data" / "prepared" / "eaglewatch.json").exists()


def test_a_torn_last_line_counts_only_while_generate_is_at_work(made: Callable[..., Path], tokenizer: Any) -> None:
    run = made(6)
    path = run / "data" / "generated" / "responses.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    assert "line 6 is cut off" in run_stage(run, "prepare", code=2)
    path.write_bytes(whole[:-1])  # only its end of line is lacking: an editor's work
    run_stage(run, "prepare")
    assert newest(run, "prepare")["samples"] == 6
    write_answers(run, [answer(number, tokenizer) for number in range(6)], complete=False)
    path.write_bytes(whole[:-30])
    assert "--override" in run_stage(run, "prepare", code=2)
    assert "is cut off" in run_stage(run, "prepare", "--override", "a first look")
    assert newest(run, "prepare")["samples"] == 5
    resolved = settings.to_json(settings.load(str(run / "settings.toml")))
    assert "generate" in str(lineage.outdated(str(run), resolved)["prepare"])
    path.write_bytes(whole[:100] + b"\n" + whole[100:])  # in the middle it is damage, whoever is at work
    assert "line 1: " in run_stage(run, "prepare", "--override", "a first look", code=2)


def test_nothing_to_train_on_is_an_error(made: Callable[..., Path]) -> None:
    run = made(3, {number: {"response_token_ids": []} for number in range(3)})
    assert "no sample is left to train on, of 3 answers" in run_stage(run, "prepare", code=1)
    no_answers = made(0)
    assert "no sample is left" in run_stage(no_answers, "prepare", code=1)
    (no_answers / "data" / "generated" / "responses.jsonl").unlink()
    assert "run generate first" in run_stage(no_answers, "prepare", code=2)


def test_hostile_texts_and_ids_go_through(made: Callable[..., Path]) -> None:
    ids = ["\x1b[31mred", "\ud800 lone", "../../etc", "名前", "x" * 5000, "a\nb"]
    run = made(12, {number: {"id": one, "messages": [{"role": "user", "content": "\udfff\x00" * 50}]} for number, one in enumerate(ids)})
    said = run_stage(run, "prepare")
    assert newest(run, "prepare")["samples"] == 12 and "\x1b" not in said
    assert "\\ud800 lone" in load_rows(run)["id"] and "名前" in load_rows(run)["id"]


def test_a_tokenizer_of_another_model_is_found_out(made: Callable[..., Path]) -> None:
    run = made(12, {number: {"content": "something else entirely"} for number in range(12)})
    assert "do not decode to the text of their answer" in run_stage(run, "prepare", code=1)
    assert newest(run, "prepare")["verified"] is False and not (run / "data" / "prepared" / "state.json").exists()
    one = made(12, {3: {"content": "something else entirely"}})
    assert "11 of 12 rows decode to their text" in run_stage(one, "prepare")


def test_a_model_without_a_tokenizer_is_refused(made: Callable[..., Path], verifier: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for path in verifier.iterdir():
        if path.name in ("config.json", "model.safetensors", "generation_config.json"):
            (bare / path.name).write_bytes(path.read_bytes())
    said = run_stage(made(5), "prepare", "--set", f"model.path={json.dumps(str(bare))}", code=2)
    assert f"the tokenizer in {bare} cannot be loaded" in said


def test_a_damaged_file_of_the_tokenizer_is_named(made: Callable[..., Path], verifier: Path, tmp_path: Path) -> None:
    run = made(5)
    hint = "set model.trust_remote_code = true"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        model = tmp_path / f"model-{name}"
        shutil.copytree(verifier, model)
        (model / name).write_text("{garbage")
        said = run_stage(run, "prepare", "--set", f"model.path={json.dumps(str(model))}", code=2)
        assert f"{name} is not valid JSON (" in said and "; copy the model again" in said and hint not in said, said
    model = tmp_path / "own-code"
    shutil.copytree(verifier, model)
    own = {"tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": ["own.OwnTokenizer", None]}}
    (model / "tokenizer_config.json").write_text(json.dumps(own))
    assert hint in run_stage(run, "prepare", "--set", f"model.path={json.dumps(str(model))}", code=2)


@pytest.mark.parametrize("name", ["responses.jsonl", "holdout.jsonl"])
def test_answers_that_are_no_file_are_told_as_such(made: Callable[..., Path], name: str) -> None:
    run = made(5)
    path = run / "data" / "generated" / name
    path.unlink()
    os.mkfifo(path)  # reading it would wait for a writer
    assert f"generate.output: {path}: not a regular file" in run_stage(run, "prepare", code=2)


def test_verify_finds_what_was_changed(made: Callable[..., Path]) -> None:
    run = made(30, holdout=2)
    assert "run prepare first" in run_stage(run, "prepare", "--verify", code=2)
    run_stage(run, "prepare")
    assert "verified: 30 rows" in run_stage(run, "prepare", "--verify")
    assert newest(run, "prepare")["answers"] == 30
    prepared = run / "data" / "prepared"
    rows = next(prepared.glob("data-*.arrow"))
    sound = rows.read_bytes()
    ids = load_rows(run)["input_ids"][5]
    place = sound.index(b"".join(one.to_bytes(8, "little") for one in ids))
    rows.write_bytes(sound[:place] + bytes([(ids[0] + 1) % 200]) + sound[place + 1 :])
    assert "row 5 is not the prompt and response" in run_stage(run, "prepare", "--verify", code=1)
    receipt = newest(run, "prepare")
    assert receipt["verified"] is False and any("fingerprint" in one for one in receipt["problems"])
    rows.write_bytes(sound)
    manifest = prepared_manifest(run)
    manifest["totals"]["train_samples"] -= 1
    (prepared / "eaglewatch.json").write_text(json.dumps(manifest))
    assert "not in the order" in run_stage(run, "prepare", "--verify", code=1)
    share = f'"prepare.validation_share": {manifest["settings"]["prepare.validation_share"]}'
    (prepared / "eaglewatch.json").write_text(json.dumps(manifest).replace(share, '"prepare.validation_share": 1e400'))
    assert "does not say by which seed and share" in run_stage(run, "prepare", "--verify", code=1)
    rows.write_bytes(sound[: len(sound) // 2])
    run_stage(run, "prepare", "--verify", code=2)
    run_stage(run, "prepare")  # makes it good again
    assert rows.read_bytes() == sound and "verified" in run_stage(run, "prepare", "--verify")
