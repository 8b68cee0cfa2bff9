"""``data_config.json`` beside the hidden states: what they are of, so that nobody trains on the wrong ones.

speculators writes no such file any more (0.5 and later), so layer ids, model and versions would be recorded nowhere.
"""

import hashlib
import importlib.metadata
import os
import platform
import shlex
import time
from pathlib import Path
from typing import Any

from pipeline import layers
from pipeline.batches import WINDOW_BATCHES
from pipeline.checks_data import PreparedData
from pipeline.checks_model import ModelInfo
from pipeline.contract.files import read_json, write_json
from pipeline.errors import StageError, UserError
from pipeline.schema import Extract

NAME = "data_config.json"
FORMAT = "eaglewatch hidden states"
FORMAT_VERSION = 1
FILES = "hs_{i}.safetensors, i = dataset row: hidden_states bfloat16 [tokens, layers, hidden], token_ids int64 [tokens]"
LAST_LAYER = "before the final norm"
_PACKAGES = ("torch", "transformers", "safetensors", "datasets", "numpy")
_IDENTITY = (
    ("model", "fingerprint", "another model"),
    ("model", "num_layers", "a model with other layers"),
    ("model", "hidden_size", "another hidden size"),
    ("hidden_states", "vllm_layer_ids", "other layer ids (vllm convention)"),
    ("hidden_states", "dtype", "another dtype"),
    ("hidden_states", "compute_dtype", "another extract.compute_dtype"),
    ("data", "fingerprint", "other prepared data"),
    ("data", "max_length_tokens", "another extract.max_length_tokens"),
)
"""What must be equal for two runs to fill one directory: section, key, and the words when it is not."""


def describe(
    settings: Extract,
    model: ModelInfo,
    data: PreparedData,
    layer_ids: tuple[int, ...],
    convention: str,
    vllm_layer_ids: tuple[int, ...],
    planned_bytes: int,
) -> dict[str, Any]:
    """The manifest of an extraction of all rows, before it starts."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "files": FILES,
        "model": {
            "path": model.path,
            "fingerprint": model.fingerprint,
            "model_type": model.model_type,
            "num_layers": model.num_layers,
            "hidden_size": model.hidden_size,
            "vocab_size": model.vocab_size,
        },
        "hidden_states": {
            "layer_ids": list(layer_ids),
            "convention": convention,
            "vllm_layer_ids": list(vllm_layer_ids),
            "last_layer": LAST_LAYER,
            "dtype": "bfloat16",
            "compute_dtype": settings.compute_dtype,
        },
        "data": {"path": data.path, "fingerprint": data.fingerprint, "max_length_tokens": settings.max_length_tokens},
        "planned": {"samples": len(data), "tokens": sum(data.lengths), "bytes": planned_bytes},
        "created_wall_s": round(time.time(), 3),
        "complete": False,
    }


def made_with(settings: Extract, engine: dict[str, Any]) -> dict[str, Any]:
    """Whatever else may move the last bit of a value; ``engine`` is what the loaded engine says of itself."""
    return {
        **engine,
        "batch_samples": settings.batch_samples,
        "batch_tokens": settings.batch_tokens,
        "window_batches": WINDOW_BATCHES,
        "code": code_hash(),
        "python": platform.python_version(),
        "packages": {name: package_version(name) for name in _PACKAGES},
    }


def load(directory: str) -> dict[str, Any] | None:
    """The directory's manifest; None when there is none. Raises UserError for one that is not ours or damaged."""
    path = os.path.join(directory, NAME)
    if not os.path.lexists(path):
        return None
    value = read_json(path) if os.path.isfile(path) else None
    if value is None or value.get("format") != FORMAT or value.get("format_version") != FORMAT_VERSION:
        raise UserError(
            f"extract.output: {path} is not a manifest of this version; choose another extract.output, or move that directory away"
        )
    return value


def damage(found: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    """What in a directory's manifest contradicts itself, or the model that it names by fingerprint; None when it is sound."""
    if type(found["format_version"]) is not int:
        return f"format_version is {found['format_version']!r}, not {FORMAT_VERSION}"
    for section in ("model", "hidden_states", "data"):
        if not isinstance(found.get(section), dict):
            return f"{section} is {found.get(section)!r}; it must hold names and values"
    model, states = found["model"], found["hidden_states"]
    fixed: list[tuple[str, Any, Any]] = [("files", found.get("files"), FILES), ("last_layer", states.get("last_layer"), LAST_LAYER)]
    if model.get("fingerprint") == wanted["model"]["fingerprint"]:
        fixed += [(key, model.get(key), wanted["model"][key]) for key in ("model_type", "num_layers", "hidden_size", "vocab_size")]
    for key, there, right in fixed:
        if type(there) is not type(right) or there != right:
            return f"{key} is {there!r}, not {right!r}"
    if not isinstance(found.get("continued", []), list):
        return f"continued is {found['continued']!r}, not a list"
    return _layers_damage(states, model.get("num_layers"))


def _layers_damage(states: dict[str, Any], num_layers: Any) -> str | None:
    ids, convention, recorded = (states.get(key) for key in ("layer_ids", "convention", "vllm_layer_ids"))
    if type(num_layers) is not int or not isinstance(ids, list) or not isinstance(convention, str):
        return f"layer_ids {ids!r}, convention {convention!r} and num_layers {num_layers!r} are not what such a file holds"
    try:
        converted = list(layers.convert(ids, convention, "vllm", num_layers))
    except UserError as error:
        return f"its layer ids do not fit its model: {error}"
    if not isinstance(recorded, list) or recorded != converted or not all(type(number) is int for number in recorded):
        return f"layer_ids {ids} of the {convention} convention are {converted} in the vllm convention, but vllm_layer_ids is {recorded!r}"
    return None


def others(directory: str, found: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    """What a directory's manifest is of that is not what is wanted, and the ways out; None when all is the same."""
    differences = []
    for section, key, words in _IDENTITY:
        there, here = _get(found, section, key), _get(wanted, section, key)
        if there != here:
            shown = (
                f"{_shown(found, section)} there, {_shown(wanted, section)} now" if key == "fingerprint" else f"{there} there, {here} now"
            )
            differences.append(f"{words} ({shown})")
    if not differences:
        return None
    aside = f"mv {shlex.quote(directory)} {shlex.quote(f'{directory}.{_begun(found)}')}"
    return (
        f"extract.output: {directory} holds hidden states of {'; '.join(differences)}. Choose another extract.output "
        f"(--set extract.output=PATH), put back what was changed, or move that directory aside: {aside}"
    )


def _shown(value: dict[str, Any], section: str) -> str:
    """What is told of a model or of data, so that two at the same place can be told apart."""
    fingerprint, path = _get(value, section, "fingerprint"), _get(value, section, "path")
    samples, tokens = (_get(value, "planned", key) for key in ("samples", "tokens"))
    counts = f"{samples:,} rows of {tokens:,} tokens, " if section == "data" and type(samples) is int and type(tokens) is int else ""
    return f"{counts}{'fingerprint' if section == 'model' else 'hash'} {str(fingerprint)[:12]}, {path}"


def _begun(found: dict[str, Any]) -> str:
    """A name that no other extraction's directory would get: when it was begun."""
    began = found.get("created_wall_s")
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(began)) if isinstance(began, (int, float)) and 0 <= began < 1 << 33 else "old"


def changes(found: dict[str, Any], now: dict[str, Any]) -> dict[str, list[Any]]:
    """What else differs from the run that began the directory: key to [then, now]. Rounding may differ, meaning does not."""
    before = found.get("made_with")
    before = before if isinstance(before, dict) else {}
    return {key: [before.get(key), value] for key, value in now.items() if before.get(key) != value}


def publish(directory: str, value: dict[str, Any]) -> None:
    """Write the manifest, durably. Raises StageError."""
    try:
        write_json(os.path.join(directory, NAME), value)
    except OSError as error:
        raise StageError(f"{os.path.join(directory, NAME)}: cannot be written: {error.strerror}") from None


def code_hash() -> str:
    """The bundle's hash when the code runs from one, else a hash over the package's source."""
    package = Path(__file__).resolve().parent
    if (package.parent / ".complete").exists():
        return package.parent.name
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package).as_posix()}\0".encode())
        digest.update(path.read_bytes())
    return f"source-{digest.hexdigest()[:16]}"


def _get(value: dict[str, Any], section: str, key: str) -> Any:
    part = value.get(section)
    return part.get(key) if isinstance(part, dict) else None


def package_version(package: str) -> str | None:
    """The installed version; None without one."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
