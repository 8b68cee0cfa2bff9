"""Outputs that would harm the model, the prompts, the run or each other are refused, before anything is made."""

import json
import os
import re
from pathlib import Path

import pytest

from pipeline import places, presets, settings
from pipeline.__main__ import main
from pipeline.errors import UserError


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run in a data directory, with a model and prompts beside it, a foreign dataset, and a second disk."""
    for name in ("model/sub", "dataset", "given", "disk", "home", "data/runs/r/stages/prepare", "data/code", "data/control"):
        (tmp_path / name).mkdir(parents=True)
    run = tmp_path / "data" / "runs" / "r"
    (run / "settings.toml").write_text(f"[model]\npath = {json.dumps(str(tmp_path / 'model'))}\n")
    return run


def check(run: Path, *changes: str) -> None:
    places.check(settings.load(str(run / "settings.toml"), list(changes)), str(run))


def everything(directory: Path) -> list[str]:
    return sorted(str(path) for path in directory.rglob("*"))


@pytest.mark.parametrize("stage", ["generate", "prepare", "vocab", "extract"])
@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("BASE/model", "is the same directory as model.path"),
        ("BASE/model/sub/new", "lies in model.path"),
        ("BASE/link/new", "lies in model.path"),
        ("BASE", "holds the run's own directory"),
        (".", "is the run's own directory"),
        ("", "is empty"),
        (" ", "is empty"),
        ("data/..", "is the run's own directory"),
        ("/", "holds"),
        ("~", "is your home directory"),
        ("BASE/home/..", "holds"),
        ("stages", "the run's own directory"),
        ("stages/prepare/new", "lies in the run's own directory"),
        ("settings.toml", "one of the run's own files"),
        ("provenance.json", "one of the run's own files"),
        ("BASE/data/code", "eaglewatch's own directory"),
        ("BASE/data/control/new", "lies in eaglewatch's own directory"),
        ("BASE/given/sub", "lies in extract.data"),
        ("BASE/file", "is a file, not a directory"),
        ("BASE/file/new", "is a file, not a directory"),
        ("BASE/gone", "is a symbolic link to BASE/unmounted, which is not there"),
        ("BASE/gone/new", "is a symbolic link to BASE/unmounted, which is not there"),
    ],
)
def test_an_output_that_would_do_harm_is_refused_and_nothing_is_made(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, output: str, says: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "file").touch()
    os.symlink(tmp_path / "model" / "sub", tmp_path / "link")
    os.symlink(tmp_path / "unmounted", tmp_path / "gone")
    before = everything(tmp_path)
    place = output.replace("BASE", str(tmp_path))
    with pytest.raises(UserError) as caught:
        check(run, f"{stage}.output={json.dumps(place)}", f"extract.data={json.dumps(str(tmp_path / 'given'))}")
    assert str(caught.value).startswith(f"{stage}.output") and says.replace("BASE", str(tmp_path)) in str(caught.value)
    assert caught.value.exit_code == 2 and everything(tmp_path) == before


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (["extract.output=data/prepared/states"], r"extract\.output: .* lies in prepare\.output"),
        (["vocab.output=data/prepared/holdout"], r"vocab\.output: .* lies in prepare\.output"),
        (["prepare.output=data/vocab"], r"vocab\.output: .* is the same directory as prepare\.output"),
        (["generate.output=data"], r"prepare\.output: .* lies in generate\.output"),
        (["prepare.output=data/hidden_states/rows"], r"extract\.output: .* holds (extract\.data|prepare\.output)"),
        (["generate.prompts=BASE/dataset", "vocab.output=BASE/dataset/vocab"], "lies in"),
        (["generate.prompts=data/vocab/p.jsonl"], r"generate\.prompts: "),
        (["generate.prompts=."], r"generate\.prompts: .* holds the run itself"),
    ],
)
def test_outputs_in_each_other_and_among_the_prompts_are_refused(run: Path, tmp_path: Path, changes: list[str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        check(run, *(change.replace("BASE", str(tmp_path)) for change in changes))


def test_other_places_and_links_to_them_are_taken(run: Path, tmp_path: Path) -> None:
    check(run)
    os.symlink(tmp_path / "disk", run / "data")
    check(run)
    check(run, f"extract.output={tmp_path}/disk/states", f"extract.data={tmp_path}/given", f"generate.prompts={tmp_path}/dataset")
    check(run, f"model.path={tmp_path}/model-2", "generate.output=model", "prepare.output=../shared/prepared")
    for name in presets.names():
        text = presets.text(name)
        fill = [f"{key}={tmp_path}/{key}" for key in settings.unfilled(settings.parse_tree(text, name))]
        places.check(settings.parse(text, name, fill), str(run))


@pytest.mark.parametrize("stage", ["serve", "generate", "prepare", "vocab", "extract"])
def test_every_stage_looks_before_it_makes_anything(run: Path, capsys: pytest.CaptureFixture[str], stage: str) -> None:
    before = everything(run)
    assert main([stage, "--run", str(run), "--set", "vocab.output=."]) == 2
    error = capsys.readouterr().err
    assert f"eaglewatch {stage}: vocab.output: {run} is the run's own directory" in error and error.count("\n") == 1
    assert everything(run) == before


def test_an_output_that_cannot_be_written_to_is_the_users_error(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extract", "--run", str(run), "--set", "extract.output=/sys/kernel"]) == 2  # the kernel takes no files, of root either
    error = capsys.readouterr().err
    assert "output directory /sys/kernel cannot be written to: " in error and "choose another place" in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ('prepare.output="a\\u0000b"', r"prepare\.output: 'a\\x00b' holds a character that no path can hold"),
        ('model.path="a\\u0000b"', r"model\.path: 'a\\x00b' holds a character"),
        ('extract.data="a\\u0000b"', r"extract\.data: 'a\\x00b' holds a character"),
        (f"prepare.output={'a/' * 3000}", r"prepare\.output: a/a/.* is too long"),
        (f"vocab.output={'a/' * 900}", r"vocab\.output: a/a/.* is too long"),
        (f"generate.output={'a' * 256}", r"generate\.output: aaa.* is too long"),
        ("model.path=", r"model\.path is empty"),
        ("extract.data=", r"extract\.data is empty"),
        ("generate.prompts=", r"generate\.prompts is empty"),
        (
            "prepare.output=~nobody9/x",
            r"prepare\.output: ~nobody9/x: there is no home directory for ~nobody9; write it out, or \./~nobody9",
        ),
    ],
)
def test_what_is_no_path_is_told_in_one_line_and_nothing_is_made(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str, says: str
) -> None:
    before = everything(run)
    assert main(["prepare", "--run", str(run), "--set", f"generate.prompts={tmp_path}/dataset", "--set", change]) == 2
    error = capsys.readouterr().err
    assert re.search(says, error) and error.count("\n") == 1 and everything(run) == before
    check(run, "prepare.output=./~nobody9/x")


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("prepare", "holdout"),
        ("prepare", ".building"),
        ("prepare", ".eaglewatch.rows.lock"),
        ("vocab", ".building"),
        ("vocab", ".eaglewatch.lock"),
        ("generate", "responses.jsonl"),
        ("generate", "holdout.jsonl"),
        ("generate", "failed.jsonl"),
        ("extract", "ledger-0.jsonl"),
    ],
)
def test_a_link_in_an_output_is_never_written_through(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], stage: str, name: str
) -> None:
    """In a directory that the stage makes files in, or as a file that it opens and writes to."""
    output = run / "out"
    output.mkdir()
    link = output / name
    before = everything(tmp_path / "model")
    for target in (tmp_path / "model", tmp_path / "model" / "config.json"):  # the second one is not there yet
        link.symlink_to(target)
        assert main([stage, "--run", str(run), "--set", f"{stage}.output=out"]) == 2
        error = capsys.readouterr().err
        assert f"{stage}.output: {link} is a symbolic link to {target}: {stage} would write" in error and error.count("\n") == 1
        assert everything(tmp_path / "model") == before and os.readlink(link) == str(target) and os.listdir(output) == [name]
        link.unlink()
    if name in ("holdout", ".building"):
        link.touch()
        with pytest.raises(UserError, match=f"{name} is a file, where {stage} makes a directory; move it away"):
            check(run, f"{stage}.output=out")
