"""The model directory, looked at with the standard library before anything heavy is imported."""

import hashlib
import json
import os
import re
import zipfile
from dataclasses import dataclass
from typing import Any

from pipeline.checks_config import check_causal, check_counts, max_positions, number
from pipeline.errors import UserError
from pipeline.paths import unusable
from pipeline.tensor_files import TensorFileError, open_regular, read_header, sample_digest

_TEXT_CONFIGS = ("text_config", "llm_config", "language_config")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_SINGLES = ("model.safetensors", "pytorch_model.bin")
_EMBEDDING = re.compile(r"(?:^|\.)(?:embed_tokens|wte)\.weight\Z")
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block|layer)\.([0-9]{1,6})\.")


@dataclass(frozen=True)
class ModelInfo:
    """What config.json and the weight files say."""

    path: str
    model_type: str
    num_layers: int
    hidden_size: int
    vocab_size: int
    weight_files: int
    weight_bytes: int
    fingerprint: str
    """sha256 over config.json and every weight file's name, size, header and sampled blocks of its tensors' bytes (see
    pipeline.tensor_files.sample_digest): changes with the model and its weights, takes no full read."""
    max_positions: int | None
    """Longest sample that it is made for, in tokens; None when config.json does not say."""
    surely_causal: bool
    """Whether its class's name shows a causal model; else the engine asks transformers."""


@dataclass(frozen=True)
class _Shard:
    size: int
    identity: list[str]
    shapes: dict[str, Any]
    """Tensor name to shape; empty where only a full read could tell."""


def check_model(path: str) -> ModelInfo:
    """Look at a Hugging Face model directory. Raises UserError: what is missing, cut off or damaged, and where."""
    if not os.path.isdir(path):
        raise UserError(f"model.path: no such directory: {path} (a local directory is needed; hub names are not downloaded)")
    config_path = os.path.join(path, "config.json")
    config, config_raw = _read_json(config_path, "model.path")
    text = next((config[key] for key in _TEXT_CONFIGS if isinstance(config.get(key), dict)), config)
    surely_causal = check_causal(config, text, config_path)
    check_counts(text, config_path)
    num_layers = number(text, _LAYERS, config_path)
    hidden_size = number(text, _HIDDEN, config_path)
    vocab_size = number(text, ("vocab_size",), config_path)
    digest = hashlib.sha256(config_raw)
    total = 0
    shapes: dict[str, Any] = {}
    shards = _weight_files(path)
    for name, tensors in shards.items():
        shard = _check_shard(path, name, tensors)
        total += shard.size
        shapes |= shard.shapes
        digest.update(json.dumps([name, shard.size, *shard.identity]).encode())
    _check_shapes(shapes, num_layers, hidden_size, vocab_size, config_path)
    return ModelInfo(
        path=path,
        model_type=str(config.get("model_type", "unknown")),
        num_layers=num_layers,
        hidden_size=hidden_size,
        vocab_size=vocab_size,
        weight_files=len(shards),
        weight_bytes=total,
        fingerprint=digest.hexdigest(),
        max_positions=max_positions(text),
        surely_causal=surely_causal,
    )


def _check_shapes(shapes: dict[str, Any], num_layers: int, hidden_size: int, vocab_size: int, config_path: str) -> None:
    """config.json against the tensors, where their names tell: an embedding may be padded, more layers may follow, never fewer."""
    tables = {
        name: shape[0]
        for name, shape in shapes.items()
        if _EMBEDDING.search(name) and isinstance(shape, list) and len(shape) == 2 and shape[1] == hidden_size
    }
    if tables and max(tables.values()) < vocab_size:
        name = max(tables, key=lambda key: tables[key])
        raise UserError(
            f"{config_path}: vocab_size is {vocab_size}, but the token embedding {name} has {tables[name]} rows; "
            "config.json and weights do not belong together: copy the model again"
        )
    layers = {int(match[1]) for name in shapes for match in [_LAYER.search(name)] if match}
    if layers and max(layers) + 1 < num_layers:
        raise UserError(
            f"{config_path}: {num_layers} decoder layers, but the weights hold layers 0 to {max(layers)} only: layer {max(layers) + 1} "
            "is lacking; config.json and weights do not belong together: copy the model again"
        )


def _read_json(path: str, what: str) -> tuple[dict[str, Any], bytes]:
    try:
        with open_regular(path) as file:
            raw = file.read()
        value = json.loads(raw)
    except FileNotFoundError:
        raise UserError(f"{what}: no {os.path.basename(path)} in {os.path.dirname(path)}; is it a Hugging Face model directory?") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: a JSON object is expected")
    return value, raw


def _weight_files(path: str) -> dict[str, set[str]]:
    """Shard name to the tensors that the index says it holds (empty: no index)."""
    for index in _INDEXES:
        index_path = os.path.join(path, index)
        if os.path.exists(index_path):
            value, _ = _read_json(index_path, "model.path")
            weights = value.get("weight_map")
            if not isinstance(weights, dict) or not weights or not all(isinstance(name, str) for name in weights.values()):
                raise UserError(f"{index_path}: no weight_map")
            for name in weights.values():
                if not name or unusable(name):
                    raise UserError(f"{index_path}: weight_map names the file {name!r}, which no file can be called; copy it again")
            shards: dict[str, set[str]] = {}
            for tensor, name in weights.items():
                shards.setdefault(name, set()).add(tensor)
            return dict(sorted(shards.items()))
    for name in _SINGLES:
        if os.path.exists(os.path.join(path, name)):
            return {name: set()}
    raise UserError(f"model.path: no weights in {path} ({', '.join(_INDEXES[:1] + _SINGLES[:1])} expected)")


def _check_shard(directory: str, name: str, tensors: set[str]) -> _Shard:
    """Look at one weight file. Raises UserError."""
    path = os.path.join(directory, name)
    try:
        size = os.stat(path).st_size
        if name.endswith(".safetensors"):
            header = read_header(path)
            absent = tensors - header.tensors.keys()
            if absent:
                raise UserError(f"model weights: {path} lacks the tensor {min(absent)}, which the index places there; copy the model again")
            identity = [hashlib.sha256(header.raw).hexdigest(), sample_digest(path, header.data_start)]
            return _Shard(size, identity, {tensor: entry.get("shape") for tensor, entry in header.tensors.items()})
        # A torch archive is a zip file: its directory stands at the end, so that a truncated one has none.
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            return _Shard(size, [json.dumps([[entry.filename, entry.file_size, entry.CRC] for entry in archive.infolist()])], {})
    except FileNotFoundError:
        raise UserError(f"model weights: {path} is missing; the index names it; copy it again") from None
    except OSError as error:
        raise UserError(f"model weights: {path}: {error.strerror}") from None
    except TensorFileError as error:
        raise UserError(f"model weights: {path}: {error}; copy it again") from None
    except zipfile.BadZipFile:
        raise UserError(f"model weights: {path}: truncated, or not a torch archive; copy it again, or convert it to safetensors") from None
