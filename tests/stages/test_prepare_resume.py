"""prepare killed at any point, stopped, and run again: old rows or new rows, never half, and the same bits in the end."""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest
from answer_runs import StageProcess, answer, newest, prepared_manifest, run_stage, write_answers

from pipeline import rows_lock

pytestmark = pytest.mark.xdist_group("answers")
KILLS = 10


def content(directory: Path) -> dict[str, bytes]:
    """Every file that the stage leaves, but for locks and manifest."""
    names = ("eaglewatch.json", ".eaglewatch.lock", rows_lock.NAME)
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file() and path.name not in names
    }


def row_ids(directory: Path) -> list[str]:
    return datasets.load_from_disk(str(directory)).with_format(None)["id"][:]  # type: ignore[index]


def test_killed_at_random_points_it_leaves_old_or_new_rows(made: Callable[..., Path], tokenizer: Any) -> None:
    run = made(20, holdout=2)
    run_stage(run, "prepare")
    began = time.monotonic()
    run_stage(run, "prepare")
    took = time.monotonic() - began
    prepared = run / "data" / "prepared"
    old_rows = row_ids(prepared)
    more = [answer(number, tokenizer) for number in range(35)]
    write_answers(run, more)  # without a held-out one: its dataset has to go
    fresh = made(1)
    write_answers(fresh, more)
    run_stage(fresh, "prepare")
    wanted, new_rows = content(fresh / "data" / "prepared"), row_ids(fresh / "data" / "prepared")
    chance = random.Random(4)
    killed = 0
    for _ in range(KILLS):
        process = StageProcess(run, "prepare")
        process.wait(chance.uniform(0.2, 1.0) * took)
        process.signal(signal.SIGKILL)
        killed += process.end() == -signal.SIGKILL
        assert row_ids(prepared) in (old_rows, new_rows)
        if prepared_manifest(run)["complete"]:
            told = prepared_manifest(run)["totals"]["samples"]
            assert told == len(row_ids(prepared))
    assert killed
    run_stage(run, "prepare")
    assert content(prepared) == wanted and prepared_manifest(run)["complete"] is True
    assert prepared_manifest(run)["totals"] == prepared_manifest(fresh)["totals"]


def test_killed_before_each_step_of_the_switch(made: Callable[..., Path], tokenizer: Any) -> None:
    """Each change of a name below data/ once, from making ``.building`` to tidying up; each attempt goes a step further than the last."""
    run = made(12, holdout=2)
    run_stage(run, "prepare")
    before = content(run / "data" / "prepared")
    write_answers(run, [answer(number, tokenizer) for number in range(17)], [answer(2000, tokenizer, split="holdout")])
    wanted_run = made(1)
    for name in ("responses.jsonl", "holdout.jsonl", "eaglewatch.json"):
        (wanted_run / "data" / "generated" / name).write_bytes((run / "data" / "generated" / name).read_bytes())
    run_stage(wanted_run, "prepare")
    wanted = content(wanted_run / "data" / "prepared")
    for step in range(40):
        code = StageProcess(run, "prepare", kill_at=step).end()
        if code == 0:
            break
        assert code == -signal.SIGKILL
        prepared = run / "data" / "prepared"
        for directory in ("", "holdout/"):
            name = json.loads((prepared / directory / "state.json").read_text())["_data_files"][0]["filename"]
            assert (prepared / directory / name).read_bytes() == {**before, **wanted}[directory + name]
            assert row_ids(prepared / directory)
    assert step > 10
    assert content(run / "data" / "prepared") == wanted


def test_stopped_it_says_so_and_goes_on(made: Callable[..., Path]) -> None:
    run = made(400)
    process = StageProcess(run, "prepare")
    deadline = time.monotonic() + 30
    while "answers in" not in process.text and time.monotonic() < deadline:
        time.sleep(0.002)
    process.signal(signal.SIGTERM)
    code = process.end()
    assert code == 1 and "stopped by SIGTERM" in process.text
    run_stage(run, "prepare")
    assert newest(run, "prepare")["samples"] == 400
    assert not (run / "data" / "prepared" / ".building").exists()


def test_the_same_answers_give_the_same_bits_and_nothing_is_replaced(made: Callable[..., Path], tokenizer: Any) -> None:
    run = made(25, holdout=1)
    run_stage(run, "prepare")
    prepared = run / "data" / "prepared"
    before, rows = content(prepared), next(prepared.glob("data-*.arrow"))
    inode, fingerprint = rows.stat().st_ino, prepared_manifest(run)["fingerprint"]
    assert "nothing to do: the same rows" in run_stage(run, "prepare")
    assert newest(run, "prepare")["unchanged"] is True
    assert content(prepared) == before and rows.stat().st_ino == inode and prepared_manifest(run)["fingerprint"] == fingerprint
    # An answer that is left out changes the answers' fingerprint, and no row: the manifest follows, the rows stay.
    empty = answer(77, tokenizer, response_token_ids=[])
    write_answers(run, [*(answer(number, tokenizer) for number in range(25)), empty], [answer(1000, tokenizer, split="holdout")])
    assert "nothing to do: the same rows" in run_stage(run, "prepare")
    assert rows.stat().st_ino == inode and prepared_manifest(run)["totals"]["answers"] == 26


def test_new_rows_after_an_extraction_are_told(made: Callable[..., Path], tokenizer: Any) -> None:
    run = made(8)
    run_stage(run, "prepare")
    (run / "data" / "hidden_states").mkdir()
    config = {"data": {"fingerprint": prepared_manifest(run)["fingerprint"]}, "complete": True}
    (run / "data" / "hidden_states" / "data_config.json").write_text(json.dumps(config))
    assert "there already" in run_stage(run, "prepare")
    write_answers(run, [answer(number, tokenizer) for number in range(9)])
    assert "hidden states of the earlier rows are there" in run_stage(run, "prepare")
    assert len(list((run / "data" / "prepared").glob("data-*.arrow"))) == 1


def test_what_others_left_in_the_directory_stays(made: Callable[..., Path]) -> None:
    run = made(6)
    prepared = run / "data" / "prepared"
    prepared.mkdir()
    datasets.Dataset.from_dict({"input_ids": [[1]]}).save_to_disk(str(prepared))
    before = content(prepared)
    assert "the prepare stage did not make it" in run_stage(run, "prepare", code=2)
    assert content(prepared) == before
    other = made(6)
    building = other / "data" / "prepared" / ".building"
    building.mkdir(parents=True)
    (building / "thesis.txt").write_text("mine")
    assert "nothing was touched" in run_stage(other, "prepare", code=2)
    assert (building / "thesis.txt").read_text() == "mine"
    os.unlink(building / "thesis.txt")
    (other / "data" / "prepared" / "token_freq.pt").write_text("somebody's")
    run_stage(other, "prepare")
    assert (other / "data" / "prepared" / "token_freq.pt").read_text() == "somebody's"
    shared = made(6, prepare={"output": "data/generated"})
    assert "is the same directory as generate.output" in run_stage(shared, "prepare", code=2)
