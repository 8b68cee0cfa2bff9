"""The verifier's tokenizer: loaded from the model directory, and identified by its files."""

import hashlib
import json
import os
from typing import Any

from pipeline.contract.files import read_json
from pipeline.contract.source_files import TOKENIZER, named_files
from pipeline.errors import UserError
from pipeline.tensor_files import open_regular
from pipeline.visible import error_line

_CONFIGS = ("tokenizer_config.json", "config.json")
"""Their ``auto_map`` names the model's own code."""
_JSON = ("tokenizer.json", *_CONFIGS, "special_tokens_map.json", "added_tokens.json")


def load_tokenizer(directory: str, trust_remote_code: bool) -> Any:
    """transformers' tokenizer of a local model directory. Raises UserError."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(directory, trust_remote_code=trust_remote_code, local_files_only=True)
    except Exception as error:  # whatever json, tokenizers, sentencepiece or the model's own code happen to raise
        damaged = _damaged(directory)
        own_code = not trust_remote_code and any("auto_map" in (read_json(os.path.join(directory, name)) or {}) for name in _CONFIGS)
        hint = "; if it needs the model's own code, set model.trust_remote_code = true" if own_code and not damaged else ""
        raise UserError(f"model.path: the tokenizer in {directory} cannot be loaded: {damaged or error_line(error)}{hint}") from None


def _damaged(directory: str) -> str | None:
    """The first of the tokenizer's JSON files that is none, and why: the libraries often do not say which."""
    for name in _JSON:
        try:
            with open_regular(os.path.join(directory, name)) as file:
                json.load(file)
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{name}: {error.strerror}"
        except (ValueError, RecursionError) as error:
            return f"{name} is not valid JSON ({error_line(error)}); copy the model again"
    return None


def tokenizer_fingerprint(directory: str) -> str:
    """sha256 over the names and contents of the tokenizer's files. Raises UserError where there is none, or one cannot be read."""
    digest = hashlib.sha256()
    try:
        names = named_files(directory, TOKENIZER)
        for name in names:
            with open(os.path.join(directory, name), "rb") as file:
                digest.update(os.fsencode(name) + b"\0" + hashlib.file_digest(file, "sha256").digest())
    except OSError as error:
        raise UserError(f"model.path: {error.filename or directory}: {error.strerror}") from None
    if not names:
        raise UserError(f"model.path: {directory} holds no tokenizer (tokenizer.json, tokenizer_config.json); copy the model again")
    return digest.hexdigest()
