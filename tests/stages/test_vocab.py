"""vocab: frequencies and mappings as speculators makes them, with the special tokens in; of the present rows, or refused by name."""

import json
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from answer_runs import ASSISTANT, BEGIN, END, END_THINK, THINK, USER, StageProcess, answer, in_fork, newest, run_stage, write_answers

from pipeline.errors import UserError
from pipeline.vocabulary.files import check_mapping
from pipeline.vocabulary.mapping import problems_of

pytestmark = pytest.mark.xdist_group("answers")
SPECIAL = {BEGIN, END, USER, ASSISTANT, THINK, END_THINK}
SMALL = {"draft_vocab_size": 20, "coverage_sizes": [16, 24, 512, 32_000]}


def speculators_own(prepared: str, output: str, size: int) -> tuple[dict[int, int], Any, Any]:
    """Frequencies and mapping by its own code alone, from the same rows."""
    import datasets
    import torch
    from speculators.train.vocab_mapping import build_vocab_mappings_from_distribution, save_token_frequency_distribution

    save_token_frequency_distribution(datasets.load_from_disk(prepared), output)  # type: ignore[arg-type]
    frequencies = torch.load(output, weights_only=True)
    d2t, t2d = build_vocab_mappings_from_distribution(frequencies, size, 512)
    return frequencies, d2t.numpy(), t2d.numpy()


def load_frequencies(path: str) -> dict[int, int]:
    import torch

    return torch.load(path, weights_only=True)


def mapping(run: Path, size: int) -> tuple[Any, Any]:
    return tuple(numpy.load(run / "data" / "vocab" / f"{name}-{size}.npy") for name in ("d2t", "t2d"))  # type: ignore[return-value]


def manifest(run: Path) -> dict[str, Any]:
    return json.loads((run / "data" / "vocab" / "eaglewatch.json").read_text())


def content(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "data" / "vocab").iterdir() if path.suffix in (".pt", ".npy")}


@pytest.fixture
def prepared(made: Callable[..., Path]) -> Path:
    """A run whose answers are prepared."""
    run = made(40, vocab=SMALL)
    run_stage(run, "prepare")
    return run


def test_counts_and_mapping_are_speculators_own_with_the_special_tokens_in(prepared: Path, tmp_path: Path) -> None:
    said = run_stage(prepared, "vocab")
    receipt = newest(prepared, "vocab")
    frequencies, d2t, t2d = in_fork(speculators_own, str(prepared / "data" / "prepared"), str(tmp_path / "token_freq.pt"), 20)
    assert in_fork(load_frequencies, str(prepared / "data" / "vocab" / "token_freq.pt")) == frequencies
    ours_d2t, ours_t2d = mapping(prepared, 20)
    assert (ours_d2t.dtype, ours_t2d.dtype, ours_t2d.shape, ours_d2t.shape) == (d2t.dtype, t2d.dtype, t2d.shape, d2t.shape)
    chosen, theirs = set(numpy.flatnonzero(ours_t2d)), set(numpy.flatnonzero(t2d))
    forced = {int(token) for token in receipt["forced"]}
    assert SPECIAL <= forced <= chosen and not theirs >= SPECIAL and len(chosen) == 20
    assert chosen == set(ours_d2t + numpy.arange(20)) and problems_of(ours_d2t, ours_t2d, 20, 512, forced) == []
    most = sorted(frequencies, key=lambda token: (-frequencies[token], token))
    assert chosen - forced == set([token for token in most if token not in forced][: 20 - len(forced)])
    total = sum(frequencies.values())
    assert receipt["coverage"] == pytest.approx(sum(frequencies.get(token, 0) for token in chosen) / total, abs=1e-6)
    assert 0.5 < receipt["coverage_by_size"]["16"] < receipt["coverage"] < receipt["coverage_by_size"]["24"] <= 1
    assert receipt["coverage_by_size"]["512"] == 1 and receipt["sizes_left_out"] == [32_000]
    assert receipt["verified"] is True and receipt["padded"] == 0 and receipt["tokens"] == total and "32,000" in said
    progress = newest(prepared, "vocab", "progress/0.json")
    assert (progress["done"], progress["total"], progress["tokens"]) == (40, 40, total)


def test_fewer_tokens_than_the_vocabulary_are_padded_and_told(prepared: Path) -> None:
    run_stage(prepared, "vocab", "--set", "vocab.draft_vocab_size=300")
    receipt, (d2t, t2d) = newest(prepared, "vocab"), mapping(prepared, 300)
    occurring = receipt["distinct_tokens"]
    assert 300 - occurring - len(receipt["forced"]) <= receipt["padded"] < 300 - occurring and t2d.sum() == 300 == len(d2t)
    assert [level for label, _, level in newest(prepared, "vocab", "progress/0.json")["facts"] if label == "padding"] == ["warn"]
    before = content(prepared)
    assert "nothing to do" in run_stage(prepared, "vocab", "--set", "vocab.draft_vocab_size=300") and content(prepared) == before
    run_stage(prepared, "vocab", "--set", "vocab.draft_vocab_size=512")
    assert mapping(prepared, 512)[1].all() and set(content(prepared)) == {"token_freq.pt", "d2t-512.npy", "t2d-512.npy"}


def test_sizes_that_cannot_be_are_refused(prepared: Path) -> None:
    assert "more than the verifier's vocabulary of 512" in run_stage(prepared, "vocab", "--set", "vocab.draft_vocab_size=513", code=2)
    assert "cannot hold the 7 special tokens" in run_stage(prepared, "vocab", "--set", "vocab.draft_vocab_size=5", code=2)
    assert not (prepared / "data" / "vocab" / "eaglewatch.json").exists()


def test_a_mapping_of_other_rows_or_another_tokenizer_is_refused_and_made_anew(
    prepared: Path, tokenizer: Any, tmp_path: Path, verifier: Path
) -> None:
    run_stage(prepared, "vocab")
    assert "verified" in run_stage(prepared, "vocab", "--verify")
    first, before = manifest(prepared), content(prepared)
    directory = str(prepared / "data" / "vocab")
    check_mapping(directory, first["inputs"]["prepare"], 20, 512, first["inputs"]["tokenizer"])
    for arguments, words in (
        (("f" * 64, 20, 512), "token_freq.pt and d2t-20.npy are of other prepared rows"),
        ((first["inputs"]["prepare"], 32, 512), "a draft vocabulary of 20 tokens, 32 are wanted"),
        ((first["inputs"]["prepare"], 20, 4096), "a verifier's vocabulary of 512 tokens"),
        ((first["inputs"]["prepare"], 20, 512, "e" * 64), "another tokenizer"),
    ):
        with pytest.raises(UserError, match=words):
            check_mapping(directory, *arguments)  # type: ignore[arg-type]
    write_answers(prepared, [answer(number, tokenizer) for number in range(60)])
    run_stage(prepared, "prepare")
    said = run_stage(prepared, "vocab", "--verify", code=2)
    assert "token_freq.pt and d2t-20.npy are of other prepared rows" in said and content(prepared) == before
    run_stage(prepared, "vocab")
    assert content(prepared)["token_freq.pt"] != before["token_freq.pt"]
    assert "a draft vocabulary of 20 tokens, 24 are wanted" in run_stage(
        prepared, "vocab", "--verify", "--set", "vocab.draft_vocab_size=24", code=2
    )
    other = tmp_path / "other-model"
    other.mkdir()
    for path in verifier.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    (other / "tokenizer_config.json").write_text((other / "tokenizer_config.json").read_text() + " ")
    assert "another tokenizer" in run_stage(prepared, "vocab", "--verify", "--set", f"model.path={json.dumps(str(other))}", code=2)


def test_damaged_files_are_found(prepared: Path) -> None:
    assert "run vocab first" in run_stage(prepared, "vocab", "--verify", code=2)
    run_stage(prepared, "vocab")
    vocab = prepared / "data" / "vocab"
    fingerprint = manifest(prepared)["inputs"]["prepare"]
    d2t = numpy.load(vocab / "d2t-20.npy")
    d2t[3] += 1
    numpy.save(vocab / "d2t-20.npy", d2t)
    assert "d2t-20.npy is not the file that vocab wrote" in run_stage(prepared, "vocab", "--verify", code=1)
    assert newest(prepared, "vocab")["verified"] is False
    with pytest.raises(UserError, match="was changed since"):
        check_mapping(str(vocab), fingerprint, 20, 512)
    run_stage(prepared, "vocab")
    (vocab / "token_freq.pt").unlink()
    with pytest.raises(UserError, match=r"token_freq\.pt is not there"):
        check_mapping(str(vocab), fingerprint, 20, 512)
    run_stage(prepared, "vocab")
    check_mapping(str(vocab), fingerprint, 20, 512)


def test_a_manifest_edited_by_hand_is_told_of_in_a_line(prepared: Path) -> None:
    run_stage(prepared, "vocab")
    path = prepared / "data" / "vocab" / "eaglewatch.json"
    value = manifest(prepared)
    for edited in ({"forced": [1]}, {"forced": {"x": "y"}}, {"forced": {"1": 2}}, {"forced": {"9" * 5000: "y"}}, {"files": 5}):
        path.write_text(json.dumps({**value, "totals": {**value["totals"], **edited}}))
        with pytest.raises(UserError, match=r"eaglewatch\.json does not say which"):
            check_mapping(str(path.parent), value["inputs"]["prepare"], 20, 512)
    prepare = prepared / "data" / "prepared" / "eaglewatch.json"
    rows = json.loads(prepare.read_text())
    prepare.write_text(json.dumps({**rows, "totals": {**rows["totals"], "samples": "many"}}))
    assert "eaglewatch.json does not say which files" in run_stage(prepared, "vocab", "--verify", code=1)
    path.write_text(json.dumps({**value, "totals": {**value["totals"], "files": None, "replaces": 7}}))
    ours = "d2t-20.npy, t2d-20.npy, token_freq.pt"
    said = run_stage(prepared, "vocab", code=2)
    assert f"holds {ours}, and no eaglewatch.json tells of which data it is" in said and f"or move {ours} away" in said
    assert f"; move {ours} away, then run vocab again" in run_stage(prepared, "vocab", "--verify", code=1)
    for name in ours.split(", "):
        (path.parent / name).unlink()
    run_stage(prepared, "vocab")  # as it said


def test_a_directory_where_a_file_belongs_is_named_with_the_way_out(prepared: Path) -> None:
    run_stage(prepared, "vocab")
    t2d = prepared / "data" / "vocab" / "t2d-20.npy"
    t2d.unlink()
    t2d.mkdir()
    assert "t2d-20.npy: Is a directory; move t2d-20.npy away, then run vocab again" in run_stage(prepared, "vocab", "--verify", code=1)
    assert f"vocab.output: {t2d} is a directory, where vocab writes a file; move it away" in run_stage(prepared, "vocab", code=2)
    t2d.rmdir()
    assert "run vocab again, which makes the files anew" in run_stage(prepared, "vocab", "--verify", code=1)
    run_stage(prepared, "vocab")
    assert "verified" in run_stage(prepared, "vocab", "--verify")


def test_files_of_unknown_origin_are_neither_used_nor_overwritten(prepared: Path) -> None:
    vocab = prepared / "data" / "vocab"
    vocab.mkdir()
    (vocab / "d2t-20.npy").write_text("a checkpoint's own")
    assert "holds d2t-20.npy, and no eaglewatch.json tells of which data it is" in run_stage(prepared, "vocab", code=2)
    assert (vocab / "d2t-20.npy").read_text() == "a checkpoint's own"
    with pytest.raises(UserError, match="no mapping that vocab made"):
        check_mapping(str(vocab), "", 20, 512)


def test_killed_and_stopped_it_leaves_the_old_mapping_or_the_new_one(prepared: Path, tokenizer: Any) -> None:
    run_stage(prepared, "vocab")
    began = time.monotonic()
    run_stage(prepared, "vocab")
    took = time.monotonic() - began
    old = content(prepared)
    write_answers(prepared, [answer(number, tokenizer) for number in range(70)])
    run_stage(prepared, "prepare")
    fingerprint = json.loads((prepared / "data" / "prepared" / "eaglewatch.json").read_text())["fingerprint"]
    chance = random.Random(8)
    killed = 0
    for number in range(10):
        by_itself = number > 4
        size = f"vocab.draft_vocab_size={20 + number % 2}"
        process = StageProcess(prepared, "vocab", "--set", size, kill_at=number if by_itself else None)
        process.wait(60 if by_itself else chance.uniform(0.2, 1.0) * took)
        process.signal(signal.SIGKILL)
        killed += process.end() == -signal.SIGKILL
        found = manifest(prepared)
        if found["complete"] and found["inputs"]["prepare"] == fingerprint:
            check_mapping(str(prepared / "data" / "vocab"), fingerprint, found["totals"]["draft_vocab_size"], 512)
        elif found["complete"]:
            assert content(prepared) == old
    assert killed >= 5
    run_stage(prepared, "vocab")
    check_mapping(str(prepared / "data" / "vocab"), fingerprint, 20, 512)
    assert set(content(prepared)) == {"token_freq.pt", "d2t-20.npy", "t2d-20.npy"}
    names = {path.name for path in (prepared / "data" / "vocab").iterdir()}
    assert names == set(content(prepared)) | {"eaglewatch.json", ".eaglewatch.lock"}
    process = StageProcess(prepared, "vocab")
    process.signal(signal.SIGTERM)
    assert process.end() in (0, 1, -signal.SIGTERM)
