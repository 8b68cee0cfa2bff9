"""generate goes on only in answers, and with a verifier, that are what its manifest says; a look at them changes nothing."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from generate_runs import answered, as_if_killed, generate, lines, make_run, manifest, newest, numbered, output, refused, write_prompts

from pipeline.__main__ import main
from tests.fakes.openai_server import FakeServer


@pytest.fixture
def server(chat_verifier: Path) -> Iterator[FakeServer]:
    with FakeServer(chat_verifier) as running:
        yield running


def edit(run: Path, **changed: Any) -> None:
    first, *others = lines(run)
    text = "".join(json.dumps(line) + "\n" for line in ({**first, **changed}, *others))
    (output(run) / "responses.jsonl").write_text(text)


def test_edited_answers_are_not_made_generates_own(chat_verifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(chat_verifier) as server:
        run = make_run(tmp_path / "runs" / "run", chat_verifier, server, numbered(30))
        assert generate(run) == 0
        before, content = manifest(run), (output(run) / "responses.jsonl").read_bytes()
        for changed in ({"response_token_ids": [5, 6, 7]}, {"ids_match": None}, {"content": "edited"}):
            edit(run, **changed)
            said = refused(run, capsys)
            assert (
                "30 answers with the fingerprint" in said
                and "put the files back, or choose another generate.output, or add --override" in said
            )
            refused(run, capsys, "--verify", code=1)
            receipt = newest(run, "receipt.json")
            assert not receipt["verified"] and any("are not those that generate checked" in one for one in receipt["problems"])
            assert manifest(run) == before
        (output(run) / "responses.jsonl").write_bytes(b"".join(content.splitlines(keepends=True)[1:]))
        assert "29 answers with the fingerprint" in refused(run, capsys) and manifest(run) == before
        write_prompts(run / "prompts.jsonl", numbered(31))
        asked = server.asked.total()
        assert "29 answers with the fingerprint" in refused(run, capsys) and server.asked.total() == asked
        assert generate(run, "--override", "the disk ate one") == 0
        assert "29 answers with the fingerprint" in newest(run, "receipt.json")["overridden"]["what"][0]
        (audited,) = (json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines())
        assert (audited["stage"], audited["reason"]) == ("generate", "the disk ate one")
        assert manifest(run)["totals"]["answered"] == 31 and generate(run) == 0 and generate(run, "--verify") == 0


@pytest.mark.parametrize("fingerprint", ["0" * 64, None, 5])
def test_a_look_finds_an_edited_manifest_and_leaves_it(
    chat_verifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], fingerprint: Any
) -> None:
    with FakeServer(chat_verifier) as server:
        run = make_run(tmp_path / "run", chat_verifier, server, numbered(3))
        assert generate(run) == 0
    path = output(run) / "eaglewatch.json"
    path.write_text(json.dumps({**manifest(run), "fingerprint": fingerprint}))
    there = path.read_bytes()
    assert "are not those that generate checked" in refused(run, capsys, "--verify", code=1) and path.read_bytes() == there
    assert "are not those that generate checked" in refused(run, capsys) and path.read_bytes() == there
    as_if_killed(run)
    there = path.read_bytes()
    assert generate(run, "--verify") == 0 and path.read_bytes() == there, "a look makes nothing"
    assert generate(run) == 0 and manifest(run)["complete"] is True


def test_a_verifier_that_was_known_stays_so(chat_verifier: Path, llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = shutil.copytree(chat_verifier, tmp_path / "model")
    for path in (llama / "config.json", *llama.glob("*.safetensors*")):
        shutil.copy(path, model)
    shard = next(model.glob("*.safetensors"))
    with FakeServer(chat_verifier) as server:
        run = make_run(tmp_path / "run", model, server, numbered(3))
        assert generate(run) == 0
        known = manifest(run)["inputs"]["model"]
        assert len(known) == 64
        weights = shard.read_bytes()
        shard.unlink()
        assert f"the verifier had the fingerprint {known[:16]} there, it cannot be told of the one in {model} now" in refused(run, capsys)
        assert generate(run, "--override", "the weights are on another disk") == 0
        assert manifest(run)["inputs"]["model"] == known
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 0.5}))
        shard.write_bytes(weights)
        assert f"the verifier had the fingerprint {known[:16]} there, it has" in refused(run, capsys)
        assert main(["prepare", "--run", str(run)]) == 2
        assert "the answers are of another verifier" in capsys.readouterr().err


def test_answers_of_a_verifier_that_was_not_known_are_not_the_present_ones(
    chat_verifier: Path, llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = shutil.copytree(chat_verifier, tmp_path / "model")
    with FakeServer(chat_verifier) as server:
        run = make_run(tmp_path / "run", model, server, numbered(3))
        assert generate(run) == 0 and manifest(run)["inputs"]["model"] is None
        for path in (llama / "config.json", *llama.glob("*.safetensors*")):
            shutil.copy(path, model)
        assert generate(run, "--override", "config.json came") == 0 and manifest(run)["inputs"]["model"] is None
        capsys.readouterr()
        assert main(["prepare", "--run", str(run)]) == 2
        assert "cannot tell which verifier gave the answers" in capsys.readouterr().err


def test_torn_and_damaged_lines(chat_verifier: Path, server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", chat_verifier, server, numbered(6))
    assert generate(run) == 0
    path = output(run) / "responses.jsonl"
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:5]) + whole[5][:-1])
    assert "is cut off" in refused(run, capsys, "--verify", code=1) and path.read_bytes()[-1:] != b"\n", "a look changes nothing"
    assert "line 6: it is cut off" in refused(run, capsys, code=1) and path.read_bytes()[-1:] != b"\n", "no attempt was writing it"
    as_if_killed(run)
    assert generate(run) == 0
    assert len(answered(run)) == 6 and sorted(server.asked.values()) == [1] * 5 + [2]
    assert "bytes are cut off" in capsys.readouterr().out
    path.write_bytes(b"".join([*whole[:2], b"\0" * 40 + b"\n", *whole[3:]]))
    assert "line 3: " in refused(run, capsys, code=1)
    path.write_bytes(b"".join([*whole, whole[1]]))
    assert "line 7 is a second answer" in refused(run, capsys, code=1)
    assert "answered twice" in refused(run, capsys, "--verify", code=1)
    path.write_bytes(b"".join([whole[0].replace(b'"response_token_ids":[', b'"response_token_ids":[99999,'), *whole[1:]]))
    as_if_killed(run)
    assert "outside the vocabulary" in refused(run, capsys, code=1)
    assert manifest(run)["complete"] is False and newest(run, "receipt.json")["verified"] is False
    path.write_bytes(b"".join([whole[0].replace(b'"ids_match":true', b'"ids_match":false'), *whole[1:]]))
    assert "ids_match is False, judged again it is True" in refused(run, capsys, code=1)
    path.write_bytes(b"".join(whole))
    assert generate(run) == 0 and manifest(run)["complete"] is True
    (output(run) / "eaglewatch.json").unlink()
    assert "holds responses.jsonl but no eaglewatch.json" in refused(run, capsys)
