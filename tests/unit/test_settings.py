"""Strict settings: what is wrong, where, and what was meant."""

from pathlib import Path

import pytest

from pipeline import settings
from pipeline.errors import UserError

MINIMAL = '[model]\npath = "/models/k2"\n'


def test_defaults_and_what_the_file_says() -> None:
    read = settings.parse(MINIMAL + "[extract]\nlayer_ids = [3, 31, 59, 61]\n", "run.toml")
    assert read.model.path == "/models/k2"
    assert read.extract.layer_ids == (3, 31, 59, 61)
    assert (read.extract.convention, read.extract.max_length_tokens, read.extract.batch_samples) == ("vllm", 4096, 8)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("extract.thread=1", r"run\.toml: extract\.thread: unknown key; did you mean 'threads'\?"),
        ("extrct.data=x", r"run\.toml: extrct: unknown key; did you mean 'extract'\?"),
        ("model.shards=3", r"model\.shards: unknown key; valid here: path, trust_remote_code"),
        ("extract.data=4", r"extract\.data: Expected `str`, got `int`"),
        ("extract.layer_ids=[1, true]", r"extract\.layer_ids\[1\]: Expected `int`, got `bool`"),
        ("extract.layer_ids=[1.5]", r"extract\.layer_ids\[0\]: Expected `int`, got `float`"),
        ("extract.batch_samples=0", r"extract\.batch_samples: Expected `int` >= 1"),
        ("extract.min_free_bytes=-1", r"extract\.min_free_bytes: Expected `int` >= 0"),
        ("extract.device=gpu", r"extract\.device: .*auto\|cpu\|cuda"),
        ("extract.convention=eagle", r"extract\.convention: 'eagle' is none of hf, output, sglang, vllm"),
        ("extract.compute_dtype=int8", r"extract\.compute_dtype: 'int8' is none of bfloat16, float16, float32, model"),
        ("vocab.coverage_sizes=[16000, 0]", r"vocab\.coverage_sizes\[1\]: Expected `int` >= 2"),
        ("vocab.coverage_sizes=[4194305]", r"vocab\.coverage_sizes\[0\]: Expected `int` <= 4194304"),
        ("generate.model=", r"generate\.model: Expected `str` of length >= 1"),
        ("serve.served_model_name=", r"serve\.served_model_name: Expected `str` of length >= 1"),
        ("model.path.x=1", r"model\.path: Expected `str`|path is a value"),
        ("extract", "section.key=value"),
    ],
)
def test_a_wrong_setting_names_file_key_and_what_is_valid(override: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        settings.parse(MINIMAL, "run.toml", [override])
    assert caught.value.exit_code == 2 and "\n" not in str(caught.value)


def test_overrides_are_toml_values_and_bare_words() -> None:
    read = settings.parse(MINIMAL, "run.toml", ["extract.output=/big/disk", "extract.layer_ids=[1, 8]", "extract.device=cuda:1"])
    assert (read.extract.output, read.extract.layer_ids, read.extract.device) == ("/big/disk", (1, 8), "cuda:1")


def test_a_file_that_is_missing_no_text_or_no_toml(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.toml: No such file"):
        settings.load(str(tmp_path / "absent.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not UTF-8"):
        settings.load(str(tmp_path / "binary.toml"))
    (tmp_path / "torn.toml").write_text("[model\npath=")
    with pytest.raises(UserError, match="not valid TOML"):
        settings.load(str(tmp_path / "torn.toml"))


def test_no_model_is_an_error_that_names_it() -> None:
    with pytest.raises(UserError, match="missing required field `model`"):
        settings.parse("", "run.toml")


def test_resolved_settings_are_plain_json_that_reads_back_the_same() -> None:
    read = settings.parse(MINIMAL, "run.toml")
    assert settings.convert(settings.to_json(read), settings.Settings, "resolved") == read
