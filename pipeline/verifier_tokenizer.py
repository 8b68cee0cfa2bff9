"""The verifier's tokenizer: loaded from the model directory, and identified by its files."""

import fnmatch
import hashlib
import os
from typing import Any

from pipeline.contract.source_files import TOKENIZER
from pipeline.errors import UserError
from pipeline.visible import error_line


def load_tokenizer(directory: str, trust_remote_code: bool) -> Any:
    """transformers' tokenizer of a local model directory. Raises UserError."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(directory, trust_remote_code=trust_remote_code, local_files_only=True)
    except Exception as error:  # whatever json, tokenizers, sentencepiece or the model's own code happen to raise
        hint = "" if trust_remote_code else "; if it needs the model's own code, set model.trust_remote_code = true"
        raise UserError(f"model.path: the tokenizer in {directory} cannot be loaded: {error_line(error)}{hint}") from None


def tokenizer_fingerprint(directory: str) -> str:
    """sha256 over the names and contents of the tokenizer's files. Raises UserError where there is none, or one cannot be read."""
    digest = hashlib.sha256()
    try:
        names = sorted(name for name in os.listdir(directory) if any(fnmatch.fnmatchcase(name, pattern) for pattern in TOKENIZER))
        names = [name for name in names if os.path.isfile(os.path.join(directory, name))]
        for name in names:
            with open(os.path.join(directory, name), "rb") as file:
                digest.update(os.fsencode(name) + b"\0" + hashlib.file_digest(file, "sha256").digest())
    except OSError as error:
        raise UserError(f"model.path: {error.filename or directory}: {error.strerror}") from None
    if not names:
        raise UserError(f"model.path: {directory} holds no tokenizer (tokenizer.json, tokenizer_config.json); copy the model again")
    return digest.hexdigest()
