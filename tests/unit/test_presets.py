"""Presets, and settings written out whole."""

import tomllib

import msgspec
import pytest

from pipeline import presets, settings
from pipeline.errors import UserError
from pipeline.presets.write_out import explanations, write_out
from pipeline.schema import Settings

FILLED = ["model.path=/models/k25", "generate.prompts=/data/blend"]
SECTIONS = [one for one in msgspec.structs.fields(Settings) if isinstance(one.type, type) and issubclass(one.type, msgspec.Struct)]
KEYS = [(section, field) for section in SECTIONS for field in msgspec.structs.fields(section.type)]


@pytest.mark.parametrize("name", presets.names())
def test_a_preset_is_refused_until_it_is_filled_in_and_then_means_what_it_says(name: str) -> None:
    with pytest.raises(UserError, match=r"still to be filled in: model\.path, generate\.prompts; e\.g\. --set model\.path=VALUE"):
        settings.parse(write_out(presets.text(name), "preset", []), "preset")
    short = settings.parse(presets.text(name), "preset", FILLED)
    assert settings.parse(write_out(presets.text(name), "preset", FILLED), "written out") == short
    for _, values in tomllib.loads(presets.text(name)).items():
        assert isinstance(values, dict), "keys belong to sections"


@pytest.mark.parametrize("name", presets.names())
def test_every_key_stands_in_it_with_its_explanation(name: str) -> None:
    text = write_out(presets.text(name), "preset", FILLED)
    lines = text.splitlines()
    for section, field in KEYS:
        part = text.partition(f"[{section.name}]\n")[2].partition("\n[")[0].splitlines()
        at = next(index for index, line in enumerate(part) if line.removeprefix("#").partition(" =")[0] == field.name)
        if field.name in explanations(section.type):
            assert part[at - 1].startswith("# "), field.name
    assert text.index("\n#retry = 0\n") < text.index("\n["), "what belongs to no section stands before all of them"
    assert "# Left out: all of them.\n" in text, "TOML has no None"
    assert all(len(line) < 200 for line in lines)
    # What stands as a comment is the default: with all of them put in force nothing changes.
    forced = "\n".join(
        line.removeprefix("#") if line[:1] == "#" and line[1:2].isalpha() and not line.endswith(" =") else line for line in lines
    )
    assert settings.parse(forced, "forced") == settings.parse(text, "text")


def test_the_reference_runs_numbers() -> None:
    read = settings.parse(presets.text("kimi-k2.5-8gpu"), "preset", FILLED)
    assert (read.serve.tensor_parallel, read.serve.gpu_memory_utilization, read.serve.reasoning_parser) == (8, 0.85, "kimi_k2")
    assert (read.generate.max_prompts, read.generate.max_response_tokens, read.generate.require_reasoning) == (10_000, 8192, True)
    assert (read.vocab.draft_vocab_size, read.extract.max_length_tokens, read.extract.batch_samples) == (32_000, 4096, 8)
    assert (read.extract.layer_ids, read.extract.convention) == ((3, 31, 59, 61), "vllm")
    assert read.extract.batch_tokens >= read.extract.batch_samples * read.extract.max_length_tokens, "no batch is split"
    assert read.model.trust_remote_code
    sources = [line for line in presets.text("kimi-k2.5-8gpu").splitlines() if " = " in line and not line.startswith("#")]
    assert all("#" in line for line in sources), "each value says where it comes from"


def test_values_of_every_kind_are_written_as_toml() -> None:
    changes = [
        *FILLED,
        'serve.env={A="b \\"c\\""}',
        "generate.chat_template_args.thinking=true",
        "extract.layer_ids=[1, 2]",
        "serve.dtype=x",
    ]
    text = write_out(presets.text("generic"), "preset", changes)
    read = settings.parse(text, "text")
    assert (read.serve.env, read.generate.chat_template_args) == ({"A": 'b "c"'}, {"thinking": True})
    assert (read.extract.layer_ids, read.serve.dtype) == ((1, 2), "x")
    assert 'dtype = "x" # --set' in text


def test_a_wrong_key_is_told_with_the_right_one() -> None:
    with pytest.raises(UserError, match=r"preset: model\.pat: unknown key; did you mean 'path'\?"):
        write_out(presets.text("generic"), "preset", ["model.pat=/m"])
    with pytest.raises(KeyError):
        presets.text("../secrets")
