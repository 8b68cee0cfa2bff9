"""A disk that fills in the middle of a write of prepare or vocab: one line, the old output stays whole, the next attempt goes on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answer_runs import answer, prepared_manifest, run_stage, write_answers

pytestmark = pytest.mark.xdist_group("answers")
SMALL = {"draft_vocab_size": 20, "coverage_sizes": [16]}


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file() and not path.name.endswith(".lock")}


def test_prepare(made: Callable[..., Path], tokenizer: Any) -> None:
    run = made(5)
    run_stage(run, "prepare")
    before = content(run / "data" / "prepared")
    write_answers(run, [answer(number, tokenizer) for number in range(60)])
    for limit, name in ((12_000, "tokens"), (40_000, "prepared/rows")):  # the tokens put aside, then the rows
        last = run_stage(run, "prepare", code=1, file_bytes=limit).splitlines()[-1]
        path = run / "data" / "prepared" / ".building" / name
        assert f"eaglewatch prepare: {path}: File too large; make room, then start the stage again" in last
        assert content(run / "data" / "prepared") == before
    run_stage(run, "prepare")
    assert prepared_manifest(run)["totals"]["samples"] == 60 and "verified" in run_stage(run, "prepare", "--verify")


def test_vocab(made: Callable[..., Path], tokenizer: Any) -> None:
    run = made(5, vocab=SMALL)
    run_stage(run, "prepare")
    run_stage(run, "vocab")
    before = content(run / "data" / "vocab")
    write_answers(run, [answer(number, tokenizer) for number in range(30)])
    run_stage(run, "prepare")
    said = run_stage(run, "vocab", "--set", "vocab.draft_vocab_size=500", code=1, file_bytes=3_900)  # d2t is larger
    last = said.splitlines()[-1]
    assert (
        "eaglewatch vocab: " in last and "d2t-500.npy: File too large; make room" in last and content(run / "data" / "vocab") == before
    ), said
    run_stage(run, "vocab")
    assert "verified" in run_stage(run, "vocab", "--verify")
    said = run_stage(run, "vocab", "--set", "vocab.draft_vocab_size=24", code=1, file_bytes=1_000)  # the frequencies are larger
    assert "eaglewatch vocab: " in said.splitlines()[-1] and "/data/vocab" in said.splitlines()[-1], said
