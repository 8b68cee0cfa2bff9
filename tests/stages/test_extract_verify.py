"""``--verify`` and the check at a run's end find and name whatever is not as it was written."""

import json
import os
import re
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from extract_runs import HIDDEN, events, ledger, make_rows, make_run, manifest, newest, output, samples, save_model
from safetensors.torch import load_file, save_file

from pipeline import preflight, verify
from pipeline import settings as settings_module
from pipeline.__main__ import main
from pipeline.contract.events import VERIFIED
from pipeline.ledger import read_ledgers
from pipeline.stages import extract as stage

ROWS = [*make_rows(10, 40, seed=23, shortest=2), *make_rows(2, 17, seed=4, shortest=17)]
ALIKE = (10, 11)
"""Two samples of one length."""


@pytest.fixture(scope="module")
def filled(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = make_run(tmp_path_factory.mktemp("verify") / "run", llama, ROWS)
    assert main(["extract", "--run", str(run)]) == 0
    return run


@pytest.fixture(scope="module")
def of_another_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same samples by a model of the same shape with other weights."""
    base = tmp_path_factory.mktemp("other")
    run = make_run(base / "run", save_model(base / "model", "llama", seed=99), ROWS)
    assert main(["extract", "--run", str(run)]) == 0
    return run


@pytest.fixture
def run(filled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(filled, tmp_path / "run")


def path_of(run: Path, index: int) -> Path:
    return output(run) / f"hs_{index}.safetensors"


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 0x10
    path.write_bytes(content)


def rewrite(run: Path, index: int, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Change a sample's states and forge its ledger line, as a writer with a fault would have left both."""
    file = load_file(path_of(run, index))
    save_file({**file, "hidden_states": change(file["hidden_states"]).contiguous()}, path_of(run, index))
    content = path_of(run, index).read_bytes()
    line = {**next(entry for entry in ledger(run) if entry["i"] == index), "bytes": len(content), "crc32": zlib.crc32(content)}
    with open(output(run) / "ledger-0.jsonl", "a") as lines:
        lines.write(json.dumps(line) + "\n")


def swap(run: Path, other: Path) -> None:
    one, two = (path_of(run, index) for index in ALIKE)
    one.rename(other)
    two.rename(one)
    other.rename(two)


def drop_ledger_line(run: Path, index: int) -> None:
    path = output(run) / "ledger-0.jsonl"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if json.loads(line)["i"] != index))


def with_nan(states: torch.Tensor) -> torch.Tensor:
    states[1, 2, 3] = float("nan")
    return states


def with_infinity(states: torch.Tensor) -> torch.Tensor:
    states[0, 0, 0] = float("-inf")
    return states


def with_a_zero_layer(states: torch.Tensor) -> torch.Tensor:
    states[:, 3] = 0
    return states


CASES: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "byte in the data": (lambda run, _: flip(path_of(run, 4), 3000), r"hs_4\.safetensors: holds other bytes than were written: crc32"),
    "last byte": (lambda run, _: flip(path_of(run, 4), -1), r"hs_4\.safetensors: (holds other bytes|layer id)"),
    "byte in a token id": (
        lambda run, _: flip(path_of(run, 4), 8 + int.from_bytes(path_of(run, 4).read_bytes()[:8], "little") + 8),
        r"hs_4\.safetensors: is of other tokens: 1 of \d+ token ids differ from sample 4, the first at position 1",
    ),
    "byte in the header": (lambda run, _: flip(path_of(run, 4), 12), r"hs_4\.safetensors: holds .*expected"),
    "space in the header": (lambda run, _: flip(path_of(run, 4), 7), r"hs_4\.safetensors: not a safetensors file"),
    "truncated": (lambda run, _: os.truncate(path_of(run, 5), 999), r"hs_5\.safetensors: truncated: 999 of \d+ bytes"),
    "cut to nothing": (lambda run, _: os.truncate(path_of(run, 5), 0), r"hs_5\.safetensors: not a safetensors file"),
    "one byte more": (
        lambda run, _: path_of(run, 5).write_bytes(path_of(run, 5).read_bytes() + b"\0"),
        r"hs_5\.safetensors: 1 bytes longer than its header says",
    ),
    "filled with zeros": (
        lambda run, _: path_of(run, 6).write_bytes(bytes(path_of(run, 6).stat().st_size)),
        r"hs_6\.safetensors: its header is damaged",
    ),
    "data filled with zeros": (
        lambda run, _: path_of(run, 6).write_bytes(path_of(run, 6).read_bytes()[:300].ljust(path_of(run, 6).stat().st_size, b"\0")),
        r"hs_6\.safetensors: (is of other tokens|layer id \d \(vllm convention\) is all zero)",
    ),
    "missing": (lambda run, _: path_of(run, 0).unlink(), r"hs_0\.safetensors: missing"),
    "no ledger line": (lambda run, _: drop_ledger_line(run, 7), r"hs_7\.safetensors: no ledger line"),
    "of another model": (
        lambda run, other: shutil.copy(path_of(other, 8), path_of(run, 8)),
        r"hs_8\.safetensors: holds other bytes than were written",
    ),
    "of another model's shape": (
        lambda run, _: save_file(
            {"hidden_states": torch.ones(len(ROWS[8]), 4, HIDDEN // 2, dtype=torch.bfloat16), "token_ids": torch.tensor(ROWS[8])},
            path_of(run, 8),
        ),
        r"hs_8\.safetensors: \d+ bytes; the ledger says \d+",
    ),
    "float32 of the same size": (
        lambda run, _: save_file(
            {"hidden_states": torch.ones(len(ROWS[8]), 4, HIDDEN // 2), "token_ids": torch.tensor(ROWS[8])}, path_of(run, 8)
        ),
        r"hs_8\.safetensors: (holds hidden_states F32|\d+ bytes)",
    ),
    "a row too many": (
        lambda run, _: shutil.copy(path_of(run, 8), path_of(run, 12)),
        r"hs_12\.safetensors: belongs to no row of the data, which has 12",
    ),
    "not a name of ours": (
        lambda run, _: shutil.copy(path_of(run, 8), output(run) / "hs_08.safetensors"),
        r"hs_08\.safetensors: belongs to no row",
    ),
    "NaN that its writer let through": (
        lambda run, _: rewrite(run, 9, with_nan),
        r"hs_9\.safetensors: layer id 5 \(vllm convention\) has 1 values that are NaN or infinite",
    ),
    "infinity that its writer let through": (
        lambda run, _: rewrite(run, 9, with_infinity),
        r"hs_9\.safetensors: layer id 2 \(vllm convention\) has 1 values that are NaN or infinite",
    ),
    "zero layer that its writer let through": (
        lambda run, _: rewrite(run, 9, with_a_zero_layer),
        r"hs_9\.safetensors: layer id 8 \(vllm convention\) is all zero",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_verify_finds_and_names(case: str, run: Path, of_another_model: Path, filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, says = CASES[case]
    spoil(run, of_another_model)
    spoiled = samples(run)
    assert main(["extract", "--run", str(run), "--verify"]) == 1
    captured = capsys.readouterr()
    assert re.search(f"BAD {says}", captured.out), captured.out
    assert re.match(rf"eaglewatch extract: 1 of {len(ROWS)} files in .* are bad, the first is {says}", captured.err), captured.err
    receipt = newest(run, "receipt.json")
    assert (receipt["verified"], receipt["bad"], len(receipt["bad_files"])) == (False, 1, 1)
    assert samples(run) == spoiled, "a look changes nothing"
    name = receipt["bad_files"][0].split(":")[0]
    (output(run) / name).unlink(missing_ok=True)
    assert main(["extract", "--run", str(run)]) == 0
    assert samples(run) == samples(filled)


def test_a_swapped_pair_is_found_on_both(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    swap(run, tmp_path / "aside")
    assert main(["extract", "--run", str(run), "--verify"]) == 1
    log = capsys.readouterr().out
    for index in ALIKE:
        assert re.search(rf"BAD hs_{index}\.safetensors: is of other tokens: \d+ of 17 token ids differ from sample {index}", log), log
    assert newest(run, "receipt.json")["bad"] == 2


def test_verify_of_a_sound_set_says_so_and_how_much(run: Path) -> None:
    assert main(["extract", "--run", str(run), "--verify"]) == 0
    receipt = newest(run, "receipt.json")
    size = sum(path.stat().st_size for path in output(run).glob("hs_*"))
    assert (receipt["verified"], receipt["samples"], receipt["verified_samples"], receipt["bad"]) == (True, len(ROWS), len(ROWS), 0)
    assert (receipt["tokens"], receipt["bytes"]) == (sum(map(len, ROWS)), size)
    checked = [event for event in events(run) if event["kind"] == VERIFIED]
    assert [(event["files"], event["bad"]) for event in checked] == [(len(ROWS), 0)]


def test_verify_of_half_a_run_names_what_is_missing(llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", llama, ROWS)
    assert main(["extract", "--run", str(run), "--limit", "5"]) == 0
    assert main(["extract", "--run", str(run), "--limit", "5", "--verify"]) == 0
    assert main(["extract", "--run", str(run), "--verify"]) == 1
    assert "BAD hs_5.safetensors: missing" in capsys.readouterr().out
    receipt = newest(run, "receipt.json")
    assert (receipt["bad"], receipt["verified_samples"], receipt["samples"]) == (7, 5, 5)


def test_verify_of_nothing_loads_nothing_and_fails(llama: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", llama, ROWS)
    assert main(["extract", "--run", str(run), "--verify"]) == 1
    assert newest(run, "receipt.json")["bad"] == len(ROWS)


def test_a_normal_run_checks_what_earlier_attempts_left(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path_of(run, 1).unlink()
    flip(path_of(run, 3), 2000)
    assert main(["extract", "--run", str(run)]) == 1
    assert "the first is hs_3.safetensors" in capsys.readouterr().err
    config = manifest(run)
    assert config["complete"] is False and config["totals"] is None


def test_large_sets_get_a_random_share_re_read(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "REREAD_ALL_BELOW_SAMPLES", 10)
    monkeypatch.setattr(stage, "REREAD_ALL_UP_TO_BYTES", 1000)
    monkeypatch.setattr(stage, "REREAD_AT_LEAST", 4)
    assert main(["extract", "--run", str(run)]) == 0
    receipt = newest(run, "receipt.json")
    assert (receipt["verified"], receipt["samples"], receipt["verified_samples"]) == (True, len(ROWS), 4)
    os.truncate(path_of(run, 2), 500)
    settings = settings_module.load(str(run / "settings.toml"))
    plan = preflight.make_plan(settings, str(run), None)
    assert verify.check_headers(plan, read_ledgers(plan.output))[0][0] == "hs_2.safetensors", "headers are checked of every file"


def test_samples_are_cut_and_verified_as_cut(llama: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", llama, ROWS, max_length_tokens=12)
    assert main(["extract", "--run", str(run)]) == 0
    for index, row in enumerate(ROWS):
        file = load_file(path_of(run, index))
        assert file["token_ids"].tolist() == row[:12] and file["hidden_states"].shape == (min(12, len(row)), 4, HIDDEN)
    assert main(["extract", "--run", str(run), "--verify"]) == 0
