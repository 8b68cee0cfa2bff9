"""Prompts, and the verifier's small files, that are edited where they lie make the answers outdated; putting them back mends that."""

import json
import os
import shutil
from pathlib import Path

import pytest
from generate_runs import generate, make_run, manifest, numbered, refused, write_prompts

from pipeline import settings
from pipeline.__main__ import main
from pipeline.contract import lineage
from tests.fakes.openai_server import FakeServer


def outdated(run: Path) -> str | None:
    return lineage.outdated(str(run), settings.to_json(settings.load(str(run / "settings.toml"))))["generate"]


def test_prompts_edited_in_place(chat_verifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = numbered(4)
    with FakeServer(chat_verifier) as server:
        run = make_run(tmp_path / "run", chat_verifier, server, rows)
        assert generate(run) == 0 and outdated(run) is None
        before = (run / "prompts.jsonl").read_text()
        (run / "prompts.jsonl").write_text(before.replace("colour", "colors"))  # of the same length
        assert "generate.prompts is not what it was: " in str(outdated(run)) and "has another content" in str(outdated(run))
        assert main(["prepare", "--run", str(run)]) == 2
        assert "generate is outdated: generate.prompts is not what it was" in capsys.readouterr().err
        assert "holds answers to other prompts" in refused(run, capsys)

        (run / "prompts.jsonl").write_text(before)  # the same again, at another time
        assert outdated(run) is None
        write_prompts(run / "prompts.jsonl", numbered(6))
        assert f"{run}/prompts.jsonl had {len(before)} bytes, it has " in str(outdated(run))
        assert generate(run) == 0  # asks the two that came
        assert outdated(run) is None and manifest(run)["totals"]["answered"] == 6


def test_the_verifiers_small_files_edited_in_place(chat_verifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = shutil.copytree(chat_verifier, tmp_path / "model")
    with FakeServer(chat_verifier) as server:
        run = make_run(tmp_path / "run", model, server, numbered(3))
        assert generate(run) == 0 and outdated(run) is None
        (model / "README.md").write_text("nobody reads it")
        assert outdated(run) is None
        (model / "generation_config.json").write_text(json.dumps({"temperature": 0.3}))  # what the server samples by
        assert f"model.path is not what it was: {model}/generation_config.json had no such file, it has 20 bytes now" in str(outdated(run))
        error = refused(run, capsys)
        assert "holds answers made otherwise" in error and "or add --override REASON" in error
        assert "generation_config.json" in str(outdated(run)), "a refused start changes nothing"
        assert generate(run, "--override", "only a comment") == 0
        assert outdated(run) is None


def test_weights_written_again_are_seen_and_a_stage_looks_further(chat_verifier: Path, tmp_path: Path) -> None:
    model = shutil.copytree(chat_verifier, tmp_path / "model")
    with FakeServer(chat_verifier) as server:
        run = make_run(tmp_path / "run", model, server, numbered(3))
        weights = model / "model-00001-of-00001.safetensors"
        weights.write_text("seldom read")
        assert generate(run) == 0 and outdated(run) is None
        os.utime(weights, ns=(1, 1))
        assert outdated(run) == f"model.path is not what it was: {weights} was changed, or written again, since"
        assert generate(run) == 0  # it compares fingerprints
        assert outdated(run) is None
