"""The model directory, looked at with the standard library before anything heavy is imported."""

import hashlib
import json
import os
import zipfile
from dataclasses import dataclass
from typing import Any

from pipeline.errors import UserError
from pipeline.tensor_files import TensorFileError, read_header

_TEXT_CONFIGS = ("text_config", "llm_config", "language_config")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_SINGLES = ("model.safetensors", "pytorch_model.bin")


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
    """sha256 over config.json and every weight file's name, size and header: changes with the model, takes no full read."""


def check_model(path: str) -> ModelInfo:
    """Look at a Hugging Face model directory. Raises UserError: what is missing, cut off or damaged, and where."""
    if not os.path.isdir(path):
        raise UserError(f"model.path: no such directory: {path} (a local directory is needed; hub names are not downloaded)")
    config_path = os.path.join(path, "config.json")
    config, config_raw = _read_json(config_path, "model.path")
    text = next((config[key] for key in _TEXT_CONFIGS if isinstance(config.get(key), dict)), config)
    if config.get("is_encoder_decoder") or text.get("is_encoder_decoder"):
        raise UserError(f"{config_path}: an encoder-decoder model; the verifier must be a decoder-only (causal) one")
    digest = hashlib.sha256(config_raw)
    total = 0
    shards = _weight_files(path)
    for name, tensors in shards.items():
        size, header = _check_shard(path, name, tensors)
        total += size
        digest.update(json.dumps([name, size, hashlib.sha256(header).hexdigest()]).encode())
    return ModelInfo(
        path=path,
        model_type=str(config.get("model_type", "unknown")),
        num_layers=_number(text, _LAYERS, config_path),
        hidden_size=_number(text, _HIDDEN, config_path),
        vocab_size=_number(text, ("vocab_size",), config_path),
        weight_files=len(shards),
        weight_bytes=total,
        fingerprint=digest.hexdigest(),
    )


def _read_json(path: str, what: str) -> tuple[dict[str, Any], bytes]:
    try:
        with open(path, "rb") as file:
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


def _number(config: dict[str, Any], keys: tuple[str, ...], path: str) -> int:
    for key in keys:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    raise UserError(f"{path}: no {keys[0]}; the model's shape cannot be told")


def _weight_files(path: str) -> dict[str, set[str]]:
    """Shard name to the tensors that the index says it holds (empty: no index)."""
    for index in _INDEXES:
        index_path = os.path.join(path, index)
        if os.path.exists(index_path):
            value, _ = _read_json(index_path, "model.path")
            weights = value.get("weight_map")
            if not isinstance(weights, dict) or not weights or not all(isinstance(name, str) for name in weights.values()):
                raise UserError(f"{index_path}: no weight_map")
            shards: dict[str, set[str]] = {}
            for tensor, name in weights.items():
                shards.setdefault(name, set()).add(tensor)
            return dict(sorted(shards.items()))
    for name in _SINGLES:
        if os.path.exists(os.path.join(path, name)):
            return {name: set()}
    raise UserError(f"model.path: no weights in {path} ({', '.join(_INDEXES[:1] + _SINGLES[:1])} expected)")


def _check_shard(directory: str, name: str, tensors: set[str]) -> tuple[int, bytes]:
    """Size and identifying bytes of one weight file. Raises UserError."""
    path = os.path.join(directory, name)
    try:
        size = os.stat(path).st_size
        if name.endswith(".safetensors"):
            header = read_header(path)
            absent = tensors - header.tensors.keys()
            if absent:
                raise UserError(f"model weights: {path} lacks the tensor {min(absent)}, which the index places there; copy the model again")
            return size, header.raw
        # A torch archive is a zip file: its directory stands at the end, so that a truncated one has none.
        with zipfile.ZipFile(path) as archive:
            return size, json.dumps([[entry.filename, entry.file_size, entry.CRC] for entry in archive.infolist()]).encode()
    except FileNotFoundError:
        raise UserError(f"model weights: {path} is missing; the index names it; copy it again") from None
    except OSError as error:
        raise UserError(f"model weights: {path}: {error.strerror}") from None
    except TensorFileError as error:
        raise UserError(f"model weights: {path}: {error}; copy it again") from None
    except zipfile.BadZipFile:
        raise UserError(f"model weights: {path}: truncated, or not a torch archive; copy it again, or convert it to safetensors") from None
