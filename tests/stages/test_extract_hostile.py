"""Input that somebody made to mislead or to hang: other weights of the same shape, links, FIFOs, names with escape sequences."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from extract_runs import command, environment, extract, make_rows, make_run, manifest, output, samples, save_model

from pipeline import settings as settings_module
from pipeline.__main__ import main
from pipeline.checks_model import check_model
from pipeline.errors import StageError, UserError
from pipeline.store import Store
from pipeline.tensor_files import read_header
from pipeline.visible import visible

ROWS = make_rows(6, 20)


@pytest.fixture(scope="module")
def filled(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = make_run(tmp_path_factory.mktemp("hostile") / "run", llama, ROWS)
    assert main(["extract", "--run", str(run)]) == 0
    return run


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def test_other_weights_of_the_same_shape_are_another_model(filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = shutil.copytree(filled, tmp_path / "run")
    other = save_model(tmp_path / "other", "llama", seed=8)
    (output(run) / "hs_0.safetensors").unlink()
    before = samples(run)
    assert main(["extract", "--run", str(run), "--set", f"model.path={other}"]) == 2
    assert "another model" in capsys.readouterr().err and samples(run) == before


def test_a_copy_elsewhere_is_the_same_model_and_the_last_and_first_bytes_count(llama: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(llama, tmp_path / "copy")
    fingerprint = check_model(str(llama)).fingerprint
    assert check_model(str(copy)).fingerprint == fingerprint
    shard = copy / "model.safetensors"
    for offset in (read_header(str(shard)).data_start, shard.stat().st_size - 1):
        content = bytearray(shard.read_bytes())
        content[offset] ^= 1
        shard.write_bytes(content)
        assert check_model(str(copy)).fingerprint != fingerprint
        content[offset] ^= 1
        shard.write_bytes(content)


@pytest.mark.parametrize("kind", ["link", "file", "foreign directory", "link inside"])
def test_a_partial_directory_that_is_not_ours_is_refused_and_kept(kind: str, llama: Path, tmp_path: Path, capsys: Any) -> None:
    run = make_run(tmp_path / "run", llama, ROWS)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "hs_1.safetensors").write_bytes(b"keep")
    output(run).mkdir()
    partial = output(run) / ".partial"
    if kind == "link":
        partial.symlink_to(precious)
    elif kind == "file":
        partial.write_bytes(b"keep")
    else:
        partial.mkdir()
        (partial / "hs_0.safetensors").write_bytes(b"keep")
        if kind == "link inside":
            (partial / "hs_1.safetensors").symlink_to(precious / "hs_1.safetensors")
        else:
            (partial / "thesis.txt").write_bytes(b"keep")
    before = {path: path.lstat().st_ino for path in [*precious.iterdir(), *partial.parent.glob(".partial/*")]}
    assert main(["extract", "--run", str(run)]) == 2
    error = capsys.readouterr().err
    assert ".partial" in error and error.count("\n") == 1, error
    assert {path: path.lstat().st_ino for path in before} == before


@pytest.mark.parametrize("started", [0, 2])
def test_writers_that_cannot_start_are_one_error_and_no_thread_stays(started: int, tmp_path: Path, monkeypatch: Any) -> None:
    start, calls = threading.Thread.start, []

    def limited(thread: threading.Thread) -> None:
        if thread.name.startswith("writer-"):
            calls.append(thread)
            if len(calls) > started:
                raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(StageError, match=rf"writer thread {started + 1} of 4 cannot start: .*lower extract\.writer_threads"):
        Store(str(tmp_path), (2, 8), 10**6, writer_threads=4)
    assert not any(thread.name.startswith("writer-") for thread in threading.enumerate())


@pytest.mark.parametrize("started", [0, 1])
def test_verifiers_that_cannot_start_are_one_error(started: int, filled: Path, monkeypatch: Any, capsys: Any) -> None:
    start, calls = threading.Thread.start, []

    def limited(thread: threading.Thread) -> None:
        if thread.name.startswith("verify"):
            calls.append(thread)
            if len(calls) > started:
                raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    assert main(["extract", "--run", str(filled), "--verify", "--set", "extract.writer_threads=64"]) == 1
    assert "threads to verify with cannot start" in capsys.readouterr().err


@pytest.mark.parametrize(
    "setting",
    [
        "writer_threads=65",
        "writer_threads=0",
        "threads=100000",
        "batch_samples=1000000",
        "batch_tokens=100000000",
        "max_length_tokens=100000000",
        "min_free_bytes=99999999999999999999",
        'device="cuda:99999999999999999999"',
    ],
)
def test_counts_that_make_no_sense_are_refused(setting: str) -> None:
    with pytest.raises(UserError, match=rf"extract\.{setting.partition('=')[0]}"):
        settings_module.parse('[model]\npath = "m"', "settings.toml", [f"extract.{setting}"])


@pytest.mark.parametrize("key", ["extract.output", "extract.data", "model.path"])
def test_a_nul_in_a_path_is_refused(key: str, llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", llama, ROWS)
    assert main(["extract", "--run", str(run), "--set", f'{key}="a\\u0000b"']) == 2
    assert re.search(rf"{key}: 'a\\x00b' holds a character that no path can hold", capsys.readouterr().err)


@pytest.mark.parametrize("name", ["a\0b.safetensors", "\ud800.safetensors", ""])
def test_a_shard_name_that_no_file_can_have_is_refused(name: str, llama: Path, tmp_path: Path, capsys: Any) -> None:
    model = shutil.copytree(llama, tmp_path / "model")
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": name}}))
    assert main(["extract", "--run", str(make_run(tmp_path / "run", model, ROWS))]) == 2
    assert "which no file can be called" in capsys.readouterr().err


DAMAGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "continued": (lambda value: value.update(continued=5), "continued is 5, not a list"),
    "layer_ids": (lambda value: value["hidden_states"].update(layer_ids=[1, 2, 3, 8]), r"layer_ids \[1, 2, 3, 8\] of the vllm convention"),
    "convention": (lambda value: value["hidden_states"].update(convention="output"), "its layer ids do not fit its model"),
    "vllm_layer_ids": (lambda value: value["hidden_states"].update(vllm_layer_ids=[2, 4, 5, 7]), r"but vllm_layer_ids is \[2, 4, 5, 7\]"),
    "last_layer": (lambda value: value["hidden_states"].update(last_layer="after the final norm"), "last_layer is 'after"),
    "vocab_size": (lambda value: value["model"].update(vocab_size=7), "vocab_size is 7, not 512"),
    "format_version": (lambda value: value.update(format_version=True), "format_version is True"),
    "files": (lambda value: value.update(files="float16"), "files is 'float16'"),
    "no section": (lambda value: value.update(hidden_states=3), "hidden_states is 3"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_manifest_is_refused_and_found_by_verify(case: str, filled: Path, tmp_path: Path, capsys: Any) -> None:
    change, says = DAMAGES[case]
    run = shutil.copytree(filled, tmp_path / "run")
    (output(run) / "hs_0.safetensors").unlink()
    edit(output(run) / "data_config.json", change)
    damaged = manifest(run)
    assert main(["extract", "--run", str(run)]) == 2
    error = capsys.readouterr().err
    assert re.search(rf"data_config\.json is damaged: .*{says}", error) and error.count("\n") == 1, error
    shutil.copy(output(filled) / "hs_0.safetensors", output(run))
    assert main(["extract", "--run", str(run), "--verify"]) == 1
    captured = capsys.readouterr()
    assert re.search(rf"BAD data_config\.json: .*{says}", captured.out) and "data_config.json is damaged" in captured.err, captured
    assert manifest(run) == damaged, "it is left for whoever repairs it"


@pytest.mark.parametrize("where", ["hs_3.safetensors", "ledger-7.jsonl", "data_config.json", "model.safetensors", "config.json"])
def test_a_fifo_never_makes_it_wait(where: str, filled: Path, llama: Path, tmp_path: Path) -> None:
    run = shutil.copytree(filled, tmp_path / "run")
    model = shutil.copytree(llama, tmp_path / "model")
    path = (model if (model / where).exists() else output(run)) / where
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    done = extract(run, "--verify", "--set", f"model.path={model}")
    assert done.returncode == (1 if where.startswith("hs_") else 2), done.stderr
    assert re.search("not a regular file|not a manifest", done.stderr), done.stderr


def test_names_of_a_model_are_made_visible(llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = shutil.copytree(llama, tmp_path / "model")
    name = "\x1b]0;owned\x07\x9b2J\u202egnp.safetensors"
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": name}}))
    assert main(["extract", "--run", str(make_run(tmp_path / "run", model, ROWS))]) == 2
    error = capsys.readouterr().err
    assert r"\x1b]0;owned\x07\x9b2J\u202egnp.safetensors is missing" in error and error.rstrip("\n").isprintable()


def test_log_lines_are_made_visible(llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = shutil.copytree(llama, tmp_path / "mo\x1b[31mdel")
    assert main(["extract", "--run", str(make_run(tmp_path / "run", named, ROWS))]) == 0
    out = capsys.readouterr().out
    assert r"mo\x1b[31mdel" in out and "\x1b" not in out


def test_visible_keeps_what_can_be_seen() -> None:
    assert visible("größe 漢字 🦅 a\tb\nc\x7f\u2066\ud800") == r"größe 漢字 🦅 a\x09b\x0ac\x7f\u2066\ud800"


def test_an_interrupt_while_it_is_imported_is_one_line(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'msgspec':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "import runpy\nsys.argv = ['pipeline', *sys.argv[1:]]\nrunpy.run_module('pipeline', run_name='__main__', alter_sys=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *command(tmp_path)[3:]],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
        cwd=tmp_path,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1) and done.stderr.startswith("eaglewatch: stopped by SIGINT"), done.stderr
