"""Whether the files of an input are what they were: by content where that can be afforded, and never better than is known."""

import os
from pathlib import Path

import pytest

from pipeline.contract import source_files
from pipeline.contract.source_files import changed, describe
from pipeline.verifier_tokenizer import tokenizer_fingerprint


def dated(path: Path, text: str) -> None:
    """Write, and set the time back to what it was: only ctime tells."""
    status = path.stat()
    with open(path, "r+") as file:
        file.write(text)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_file_is_compared_by_content_wherever_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text("one\n")
    recorded = describe(str(path))
    assert changed(recorded, str(path)) is None
    dated(path, "two\n")
    assert changed(recorded, str(path)) == f"{path} has another content"
    path.write_text("one\n")
    os.chmod(path, 0o600)
    assert changed(recorded, str(path)) is None
    copy = tmp_path / "copy.jsonl"
    copy.write_text("one\n")
    assert changed(recorded, str(copy)) is None
    copy.write_text("one\nmore\n")
    assert changed(recorded, str(copy)) == f"{copy} had 4 bytes, it has 9 bytes now"
    path.unlink()
    assert changed(recorded, str(path)) == f"{path}: No such file or directory"
    os.mkfifo(path)  # reading it would wait for ever
    assert changed(recorded, str(path)) == f"{path}: not a regular file"


def test_a_directory_by_every_file_in_it_and_a_model_by_the_named_ones(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("state.json", "sub/data.arrow", "cache-1.arrow"):
        (tmp_path / name).write_text(name)
    recorded = describe(str(tmp_path))
    assert set(recorded["files"]) == {"state.json", "sub/data.arrow"}
    (tmp_path / "cache-2.arrow").touch()
    assert changed(recorded, str(tmp_path)) is None
    dated(tmp_path / "sub" / "data.arrow", "SUB")
    assert changed(recorded, str(tmp_path)) == f"{tmp_path} has another content"
    (tmp_path / "sub" / "new.arrow").write_text("x")
    assert changed(recorded, str(tmp_path)) == f"{tmp_path}/sub/new.arrow had no such file, it has 1 bytes now"
    named = describe(str(tmp_path), ["state.json", "chat_template*"])
    (tmp_path / "other").touch()
    assert changed(named, str(tmp_path)) is None
    (tmp_path / "chat_template.jinja").touch()
    assert "chat_template.jinja had no such file" in str(changed(named, str(tmp_path)))


def test_a_large_one_that_was_touched_counts_as_changed_until_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_files, "READ_AT_A_LOOK_BYTES", 3)
    path = tmp_path / "prompts.jsonl"
    path.write_text("one\n")
    recorded = describe(str(path))
    os.chmod(path, 0o600)
    assert changed(recorded, str(path)) is None
    os.utime(path)
    assert "was touched since, and is too large to be read at each look" in str(changed(recorded, str(path)))
    assert changed(recorded, str(path), deep=True) is None
    dated(path, "two\n")
    assert changed(recorded, str(path), deep=True) == f"{path} has another content"


def test_many_files_are_recorded_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_files, "MANY_FILES", 3)
    for number in range(5):
        (tmp_path / f"{number}.jsonl").write_text("x")
    recorded = describe(str(tmp_path))
    assert list(recorded["files"]) == ["*"] and recorded["files"]["*"][0] == 5 and changed(recorded, str(tmp_path)) is None
    (tmp_path / "3.jsonl").write_text("y")
    assert changed(recorded, str(tmp_path)) == f"{tmp_path} has another content"
    (tmp_path / "5.jsonl").write_text("z")
    assert "had 5 bytes, it has 6 bytes now" in str(changed(recorded, str(tmp_path)))


def test_weights_are_compared_by_size_and_time_and_never_read(tmp_path: Path) -> None:
    shard = tmp_path / "model-00001-of-00001.safetensors"
    shard.write_text("weights")
    recorded = describe(str(tmp_path), source_files.WEIGHTS, read=False)
    shard.chmod(0)  # nobody can read it
    assert recorded["sha256"] is None and list(recorded["files"]) == [shard.name] and changed(recorded, str(tmp_path)) is None
    os.utime(shard, ns=(1, 1))
    assert changed(recorded, str(tmp_path)) == f"{shard} was changed, or written again, since"
    assert source_files.changed_content(recorded, str(tmp_path)) is None  # a stage has their fingerprint
    shard.chmod(0o600)
    shard.write_text("other weights")
    for look in (changed, source_files.changed_content):
        assert look(recorded, str(tmp_path)) == f"{shard} had 7 bytes, it has 13 bytes now"
    shard.rename(tmp_path / "model.safetensors")
    assert "it has no such file now" in str(changed(recorded, str(tmp_path)))


@pytest.mark.parametrize("recorded", [None, [], {}, {"files": 1}, {"files": {"": []}, "patterns": None, "path": "x", "sha256": "y"}])
def test_what_is_not_recorded_is_never_the_same(tmp_path: Path, recorded: object) -> None:
    path = tmp_path / "prompts.jsonl"
    path.touch()
    assert changed(recorded, str(path)) is not None


def test_a_models_further_chat_templates_belong_to_it(tmp_path: Path) -> None:
    """transformers 5 saves them to a directory of their own."""
    (tmp_path / "tokenizer.json").write_text("{}")
    for name in ("other", "additional_chat_templates"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool_use.jinja").write_text("one")
    recorded, fingerprint = describe(str(tmp_path), source_files.MODEL), tokenizer_fingerprint(str(tmp_path))
    assert set(recorded["files"]) == {"tokenizer.json", "additional_chat_templates/tool_use.jinja"}
    (tmp_path / "other" / "tool_use.jinja").write_text("two")
    assert changed(recorded, str(tmp_path)) is None and tokenizer_fingerprint(str(tmp_path)) == fingerprint
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("two")
    assert changed(recorded, str(tmp_path)) == f"{tmp_path} has another content"
    assert tokenizer_fingerprint(str(tmp_path)) != fingerprint
    (tmp_path / "additional_chat_templates" / "new.jinja").touch()
    assert "additional_chat_templates/new.jinja had no such file" in str(changed(recorded, str(tmp_path)))
