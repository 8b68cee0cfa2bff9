"""``python -m pipeline.rehearsal.build HOME``: make what a rehearsal home needs, once: model, tokenizer, prompts, prepared data, GPUs.

Idempotent and safe to interrupt: everything is made in a temporary directory beside its place and renamed, ``built.json`` last.
Built twice on one machine, the set is identical, bit for bit; ``built.json`` holds its fingerprint.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator

from pipeline.contract import rehearsal
from pipeline.contract.files import read_json, write_json
from pipeline.errors import EXIT_FAILED, EXIT_USAGE
from pipeline.rehearsal import sim_gpus
from pipeline.rehearsal.faults import LINGER_MS

RECIPE = 1
"""Raised whenever the code here makes another set than before: homes with an older one are built anew."""
MODEL = os.path.join("models", "tiny-verifier")
PARTS = ("models", "prepared", "prompts.jsonl")
THREADS = 2


def settings_toml(home: str) -> str:
    """Settings of the rehearsal's run; paths are absolute, because the data is made once for all runs."""
    return f"""\
# The rehearsal's run: a tiny model on the CPU, and SIMULATED GPUs. A run keeps its own copy of these settings on the host.
[model]
path = {_quoted(os.path.join(home, MODEL))}

[extract]
data = {_quoted(os.path.join(home, "prepared"))}
device = "cpu"
max_length_tokens = 2048
batch_samples = 8
batch_tokens = 2048
threads = {THREADS}
writer_threads = 2
buffer_bytes = 268_435_456
min_free_bytes = 500_000_000
"""


def _quoted(path: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's, but for surrogate pairs."""
    return json.dumps(path, ensure_ascii=False)


def build(home: str) -> "dict[str, object]":
    """Make whatever is missing and return what ``built.json`` says. Raises OSError."""
    with _locked(os.path.join(home, "build.lock")):
        built = read_json(os.path.join(home, "built.json"))
        if built is None or built.get("recipe") != RECIPE or not _complete(home, built):
            built = _build(home)
        _write_if_changed(rehearsal.settings_file(home), settings_toml(home))
        if not os.path.exists(rehearsal.gpus_file(home)):
            sim_gpus.create(rehearsal.gpus_file(home), linger_ms=LINGER_MS)
        return built


def _build(home: str) -> "dict[str, object]":
    began = time.monotonic()
    for name in os.listdir(home):
        if name.startswith(".build-"):
            shutil.rmtree(os.path.join(home, name))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(home, "built.json"))
    temporary = tempfile.mkdtemp(prefix=".build-", dir=home)
    try:
        counts = _make(temporary)
        files = _files(temporary)
        for part in PARTS:
            target = os.path.join(home, part)
            if os.path.lexists(target):
                os.rename(target, os.path.join(temporary, "old-" + part))
            os.rename(os.path.join(temporary, part), target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    digest = hashlib.sha256("".join(f"{name} {one['sha256']}\n" for name, one in sorted(files.items())).encode()).hexdigest()
    built = {"recipe": RECIPE, "fingerprint": digest, "files": files, **counts, "seconds": round(time.monotonic() - began, 1)}
    write_json(os.path.join(home, "built.json"), built)
    _say(f"built in {built['seconds']:.0f} s")
    return built


def _make(directory: str) -> "dict[str, int]":
    """Everything below ``directory``; the libraries are imported here, so that a home that is complete costs none of them."""
    _say("loading torch and transformers")
    from datasets.utils.logging import disable_progress_bar
    from transformers.utils import logging

    from pipeline.rehearsal.model import build_model
    from pipeline.rehearsal.prepared import build_prepared
    from pipeline.rehearsal.prompts import write_prompts
    from pipeline.rehearsal.tokenizer import build_tokenizer

    disable_progress_bar()
    logging.disable_progress_bar()
    model = os.path.join(directory, MODEL)
    os.makedirs(model)
    prompts = write_prompts(os.path.join(directory, "prompts.jsonl"))
    tokenizer = build_tokenizer(model)
    _say(f"tokenizer of {len(tokenizer):,} tokens, {prompts} prompts")
    parameters = build_model(model)
    _say(f"verifier of {parameters / 1e6:.1f} M parameters, DeepSeek-V3 shape")
    prepared = build_prepared(os.path.join(directory, "prepared"), tokenizer)
    _say(f"prepared data: {prepared['samples']} samples, {prepared['tokens']:,} tokens")
    return {"parameters": parameters, "prompts": prompts, **prepared}


def _files(directory: str) -> "dict[str, dict[str, object]]":
    found = {}
    for part in PARTS:
        path = os.path.join(directory, part)
        names = [os.path.join(root, name) for root, _, names in os.walk(path) for name in names] if os.path.isdir(path) else [path]
        for name in names:
            with open(name, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[os.path.relpath(name, directory)] = {"bytes": os.path.getsize(name), "sha256": digest}
    return found


def _complete(home: str, built: "dict") -> bool:
    """Whether every file is there with its size: the content was hashed when it was made, and is read by the stages' own checks."""
    try:
        return all(os.path.getsize(os.path.join(home, name)) == one["bytes"] for name, one in built["files"].items())
    except (OSError, KeyError, TypeError, AttributeError):
        return False


def _write_if_changed(path: str, text: str) -> None:
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
        if file.read() == text:
            return
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    temporary = path + ".new"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(text, flush=True)


def main(arguments: "list[str]") -> int:
    if len(arguments) != 1 or not os.path.isdir(arguments[0]):
        print("usage: python -m pipeline.rehearsal.build HOME (a directory)", file=sys.stderr)
        return EXIT_USAGE
    try:
        build(os.path.abspath(arguments[0]))
    except OSError as error:
        print(f"rehearsal: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
