"""Ways to spoil the input of an extraction, and what its one line must say."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import datasets
from extract_runs import VOCABULARY, make_rows, output, save_rows

ROWS = make_rows(6, 20)
Break = Callable[[Path, Path], list[str]]
"""Given the run and its own copy of the model (in several shards): spoil something, return arguments."""


def no_model(run: Path, model: Path) -> list[str]:
    return ["--set", f"model.path={model}-absent"]


def no_config(run: Path, model: Path) -> list[str]:
    (model / "config.json").unlink()
    return []


def torn_config(run: Path, model: Path) -> list[str]:
    (model / "config.json").write_text('{"model_type": "llama",')
    return []


def no_layer_count(run: Path, model: Path) -> list[str]:
    config = json.loads((model / "config.json").read_text())
    del config["num_hidden_layers"]
    (model / "config.json").write_text(json.dumps(config))
    return []


def encoder_decoder(run: Path, model: Path) -> list[str]:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "is_encoder_decoder": True}))
    return []


def missing_shard(run: Path, model: Path) -> list[str]:
    sorted(model.glob("*.safetensors"))[1].unlink()
    return []


def truncated_shard(run: Path, model: Path) -> list[str]:
    shard = sorted(model.glob("*.safetensors"))[1]
    os.truncate(shard, shard.stat().st_size - 1)
    return []


def shard_cut_in_its_header(run: Path, model: Path) -> list[str]:
    os.truncate(sorted(model.glob("*.safetensors"))[1], 100)
    return []


def shard_of_zeros(run: Path, model: Path) -> list[str]:
    shard = sorted(model.glob("*.safetensors"))[1]
    shard.write_bytes(bytes(shard.stat().st_size))
    return []


def index_with_more(run: Path, model: Path) -> list[str]:
    index = model / "model.safetensors.index.json"
    value = json.loads(index.read_text())
    value["weight_map"]["model.layers.99.mlp"] = sorted(model.glob("*.safetensors"))[0].name
    index.write_text(json.dumps(value))
    return []


def no_weights(run: Path, model: Path) -> list[str]:
    for path in [*model.glob("*.safetensors"), model / "model.safetensors.index.json"]:
        path.unlink()
    return []


def replace_data(run: Path, rows: list, **columns: object) -> list[str]:
    shutil.rmtree(run / "data" / "prepared")
    save_rows(run / "data" / "prepared", rows, **columns)
    return []


def no_data(run: Path, model: Path) -> list[str]:
    shutil.rmtree(run / "data" / "prepared")
    return []


def data_that_is_no_dataset(run: Path, model: Path) -> list[str]:
    (run / "data" / "prepared" / "state.json").unlink()
    return []


def torn_dataset(run: Path, model: Path) -> list[str]:
    os.truncate(next((run / "data" / "prepared").glob("*.arrow")), 300)
    return []


def several_splits(run: Path, model: Path) -> list[str]:
    shutil.rmtree(run / "data" / "prepared")
    datasets.DatasetDict({"train": datasets.Dataset.from_dict({"input_ids": [[1]]})}).save_to_disk(str(run / "data" / "prepared"))
    return []


def no_rows(run: Path, model: Path) -> list[str]:
    features = datasets.Features({"input_ids": datasets.List(datasets.Value("int64"))})
    shutil.rmtree(run / "data" / "prepared")
    datasets.Dataset.from_dict({"input_ids": []}, features=features).save_to_disk(str(run / "data" / "prepared"))
    return []


def wrong_key(run: Path, model: Path) -> list[str]:
    shutil.rmtree(run / "data" / "prepared")
    datasets.Dataset.from_dict({"tokens": ROWS}).save_to_disk(str(run / "data" / "prepared"))
    return []


def output_without_manifest(run: Path, model: Path) -> list[str]:
    output(run).mkdir(parents=True)
    (output(run) / "hs_0.safetensors").write_bytes(b"x")
    return []


def output_is_a_file(run: Path, model: Path) -> list[str]:
    output(run).write_bytes(b"")
    return []


CASES: dict[str, tuple[Break, str]] = {
    "no model directory": (no_model, r"model\.path: no such directory: .*-absent"),
    "no config.json": (no_config, r"no config\.json in .*Hugging Face model directory"),
    "torn config.json": (torn_config, r"config\.json: not valid JSON"),
    "config.json without a layer count": (no_layer_count, r"config\.json: no num_hidden_layers"),
    "encoder-decoder": (encoder_decoder, "decoder-only"),
    "missing shard": (missing_shard, r"model-00002-of-\d+\.safetensors is missing"),
    "truncated shard": (truncated_shard, r"model-00002-of-\d+\.safetensors: truncated: \d+ of \d+ bytes"),
    "shard cut in its header": (shard_cut_in_its_header, r"model-00002-of-\d+\.safetensors: .*header is cut off \(100 bytes\)"),
    "shard of zeros": (shard_of_zeros, r"model-00002-of-\d+\.safetensors: its header is damaged"),
    "index names a tensor that no shard has": (index_with_more, r"lacks the tensor model\.layers\.99\.mlp"),
    "no weights": (no_weights, r"no weights in .*model\.safetensors"),
    "no prepared data": (no_data, r"extract\.data: no such directory"),
    "prepared data is no dataset": (data_that_is_no_dataset, "is not an Arrow dataset"),
    "torn dataset": (torn_dataset, "cannot be read as an Arrow dataset"),
    "several splits": (several_splits, r"several splits \(train\)"),
    "no rows": (no_rows, "has no rows"),
    "wrong key": (wrong_key, "has no column input_ids; it has tokens"),
    "text instead of ids": (lambda run, _: replace_data(run, ["a"], loss_mask=None), "column input_ids must hold lists of whole numbers"),
    "empty sample": (lambda run, _: replace_data(run, [[1], [2, 3], []]), "sample 2 is empty"),
    "token id beyond the vocabulary": (
        lambda run, _: replace_data(run, [[1], [2, 3, VOCABULARY]]),
        rf"sample 1, position 2: token id {VOCABULARY} is outside the model's vocabulary of {VOCABULARY}",
    ),
    "negative token id": (lambda run, _: replace_data(run, [[1, 2], [-1]]), "sample 1, position 0: token id -1"),
    "loss mask of another length": (
        lambda run, _: replace_data(run, [[1, 2], [3, 4]], loss_mask=[[1, 1], [1]]),
        "sample 1 has 2 input_ids, but its loss_mask says 1",
    ),
    "seq_len that does not fit": (
        lambda run, _: replace_data(run, [[1, 2], [3, 4]], seq_len=[2, 3]),
        "sample 1 has 2 input_ids, but its seq_len says 3",
    ),
    "layer id out of range": (lambda *_: ["--set", "extract.layer_ids=[2, 4, 9]"], r"9 is out of range; the model has 8 decoder layers"),
    "last but one as last": (lambda *_: ["--set", "extract.layer_ids=[2, 4, 5, 7]"], r'"last" only in the output convention'),
    "layer ids out of order": (lambda *_: ["--set", "extract.layer_ids=[4, 2, 8]"], "must increase strictly"),
    "last layer by its hf index": (
        lambda *_: ["--set", "extract.layer_ids=[2, 8]", "--set", "extract.convention=hf"],
        "8 in the hf convention is the state after the final norm",
    ),
    "output holds files of nobody knows what": (output_without_manifest, r"holds 1 hs_\*\.safetensors but no data_config\.json"),
    "output is a file": (output_is_a_file, "is a file, not a directory"),
    "disk too small": (lambda *_: ["--set", f"extract.min_free_bytes={10**18}"], r"free and the extraction needs .*1e\+03 PB kept free"),
    "unknown setting": (lambda *_: ["--set", "extract.layers=[2]"], r"extract\.layers: unknown key; did you mean 'layer_ids'"),
}
