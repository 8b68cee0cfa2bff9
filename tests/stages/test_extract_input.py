"""Bad input: one clear line, exit code 2, before any model loads, and nothing written."""

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bad_input import CASES, ROWS, Break, output_without_manifest, replace_data, truncated_shard
from extract_runs import ROOT, VOCABULARY, environment, make_run, newest, output, samples, save_model, save_rows

from pipeline.__main__ import main
from pipeline.stages import extract as stage


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in several shards with an index."""
    model = save_model(tmp_path_factory.mktemp("sharded") / "model", "llama", shards="400kB")
    assert len(list(model.glob("*.safetensors"))) > 2
    return model


def refused(run: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the stage, which must end with 2 before an engine is made; returns its one line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "make_engine", lambda *_: pytest.fail("a model would have been loaded"))
        code = main(["extract", "--run", str(run), *arguments])
    error = capsys.readouterr().err
    assert code == 2, error
    assert error.startswith("eaglewatch extract: ") and error.count("\n") == 1, error
    return error


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_clear_line_before_a_model_loads(
    case: str, sharded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    break_it, says = CASES[case]
    model = shutil.copytree(sharded, tmp_path / "model")
    run = make_run(tmp_path / "run", model, ROWS)
    arguments = break_it(run, model)
    error = refused(run, capsys, *arguments)
    assert re.search(says, error), error
    assert not (output(run) / "data_config.json").exists()


def test_no_run_directory_and_no_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such run directory" in refused(tmp_path / "absent", capsys)
    assert "settings.toml: No such file" in refused(tmp_path, capsys)


@pytest.mark.parametrize("arguments", [["--limit", "0"], ["--limit", "two"], ["--limit", "-3"], ["--every"], []])
def test_wrong_usage_is_exit_2(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["extract", *(["--run", str(tmp_path)] if arguments else []), *arguments])
    assert caught.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.fixture(scope="module")
def filled(sharded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose output directory is complete."""
    run = make_run(tmp_path_factory.mktemp("filled") / "run", sharded, ROWS)
    assert main(["extract", "--run", str(run)]) == 0
    return run


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["extract.layer_ids=[2, 5, 8]"], r"other layer ids \(vllm convention\) \(\[2, 4, 5, 8\] there, \[2, 5, 8\] now\)"),
        (["extract.max_length_tokens=9"], r"another extract\.max_length_tokens \(4096 there, 9 now\)"),
        (["extract.compute_dtype=bfloat16"], r"another extract\.compute_dtype \(model there, bfloat16 now\)"),
    ],
)
def test_an_output_directory_of_other_settings_is_refused(
    arguments: list[str], says: str, filled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = samples(filled)
    error = refused(filled, capsys, *[part for argument in arguments for part in ("--set", argument)])
    assert re.search(says, error) and "Choose another extract.output" in error, error
    assert samples(filled) == before


def test_an_output_directory_of_another_model_or_other_data_is_refused(
    filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = save_model(tmp_path / "other", "llama", seed=8, shards="400kB", rms_norm_eps=1e-5)
    told = json.loads((output(filled) / "data_config.json").read_text())
    error = refused(filled, capsys, "--set", f"model.path={other}")
    assert f"another model (fingerprint {told['model']['fingerprint'][:12]}, {told['model']['path']} there, fingerprint " in error, error
    assert f", {other} now)" in error


def test_other_data_at_the_same_place_are_told_apart_with_the_way_out(
    filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(filled, tmp_path / "run")
    shutil.rmtree(run / "data" / "prepared")
    save_rows(run / "data" / "prepared", [*ROWS[:-1], [1, 2, 3], [4]])
    told = json.loads((output(run) / "data_config.json").read_text())
    before = samples(run)
    error = refused(run, capsys)
    tokens = sum(map(len, ROWS))
    there = f"other prepared data ({len(ROWS)} rows of {tokens} tokens, hash {told['data']['fingerprint'][:12]}, "
    assert there in error and f"{len(ROWS) + 1} rows of {tokens - len(ROWS[-1]) + 4} tokens, hash " in error, error
    assert "--set extract.output=PATH" in error and samples(run) == before

    # --verify reads them all the same, and says both.
    error = refused(run, capsys, "--verify")
    assert f"{len(ROWS)} files re-read, 0 bad, all as they were written; but extract.output: " in error and there in error
    receipt = newest(run, "receipt.json")
    assert (receipt["verified"], receipt["verified_samples"], receipt["bad"]) == (False, len(ROWS), 0)
    data = bytearray((output(run) / "hs_1.safetensors").read_bytes())
    data[-1] ^= 1
    (output(run) / "hs_1.safetensors").write_bytes(data)
    assert main(["extract", "--run", str(run), "--verify"]) == 1
    assert "1 bad, the first: hs_1.safetensors: holds other bytes than were written" in capsys.readouterr().err

    # The command that it gives makes room, and the stage goes on.
    (way,) = re.findall(r"move that directory aside: (mv .*)", error)
    subprocess.run(shlex.split(way), check=True)
    assert main(["extract", "--run", str(run)]) == 0


def test_a_manifest_that_is_not_ours_is_refused(filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = shutil.copytree(filled, tmp_path / "run")
    (output(run) / "data_config.json").write_text('{"version": "2.0"}')
    assert "is not a manifest of this version" in refused(run, capsys)


def test_a_manifest_without_samples_binds_nobody(sharded: Path, filled: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", sharded, ROWS)
    output(run).mkdir()
    shutil.copy(output(filled) / "data_config.json", output(run))
    assert main(["extract", "--run", str(run), "--set", "extract.layer_ids=[3, 8]"]) == 0
    assert json.loads((output(run) / "data_config.json").read_text())["hidden_states"]["vllm_layer_ids"] == [3, 8]


def test_the_refusal_is_in_the_attempts_events_and_exit(filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = shutil.copytree(filled, tmp_path / "run")
    refused(run, capsys, "--set", "extract.layer_ids=[2, 99]")
    assert newest(run, "exit.json")["code"] == 2


def test_an_interpreter_that_lacks_a_package_is_told_and_leaves_the_last_attempt_standing(
    filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = shutil.copytree(filled, tmp_path / "run")
    before = sorted((run / "stages" / "extract").iterdir())
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "datasets" else found(name, *rest))
    assert "lacks datasets; install" in refused(run, capsys, "--verify")
    assert sorted((run / "stages" / "extract").iterdir()) == before


@pytest.mark.parametrize("spoil", [truncated_shard, lambda run, model: replace_data(run, [[VOCABULARY]]), output_without_manifest])
def test_the_refusal_comes_without_torch(spoil: Break, sharded: Path, tmp_path: Path) -> None:
    model = shutil.copytree(sharded, tmp_path / "model")
    run = make_run(tmp_path / "run", model, ROWS)
    spoil(run, model)
    program = (
        "import sys\nfrom pipeline.__main__ import main\n"
        f"code = main(['extract', '--run', {str(run)!r}])\n"
        "assert not {'torch', 'transformers'} & sys.modules.keys(), 'torch was loaded'\nsys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environment(), cwd=ROOT, check=False
    )
    assert done.returncode == 2 and done.stderr.startswith("eaglewatch extract: "), done.stderr


def unknown_architecture(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "model_type": "kimi_k99"}))


def wrong_shape(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "intermediate_size": 64}))


def fewer_weights(model: Path) -> None:
    """A checkpoint whose index is honest, but which lacks a layer's weights: transformers would make them up."""
    index = model / "model.safetensors.index.json"
    value = json.loads(index.read_text())
    del value["weight_map"]["model.layers.3.mlp.up_proj.weight"]
    index.write_text(json.dumps(value))
    from safetensors.torch import load_file, save_file

    for shard in model.glob("*.safetensors"):
        tensors = load_file(shard)
        if tensors.pop("model.layers.3.mlp.up_proj.weight", None) is not None:
            save_file(tensors, shard, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (unknown_architecture, "kimi_k99"),
        (wrong_shape, "size mismatch|mismatch"),
        (fewer_weights, r"lacks 1 weights of the decoder, .*up_proj"),
    ],
)
def test_a_model_that_does_not_load_is_one_line_and_exit_1(
    spoil: Callable[[Path], None], says: str, sharded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = shutil.copytree(sharded, tmp_path / "model")
    spoil(model)
    run = make_run(tmp_path / "run", model, ROWS)
    assert main(["extract", "--run", str(run)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("eaglewatch extract: ") and error.count("\n") == 1 and re.search(says, error), error
    assert samples(run) == {} and not (output(run) / "data_config.json").exists()


def test_a_gpu_that_is_not_there_is_refused(sharded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", sharded, ROWS, device="cuda:99")
    assert main(["extract", "--run", str(run)]) == 2
    assert "extract.device: cuda:99 is asked for, but torch sees" in capsys.readouterr().err
