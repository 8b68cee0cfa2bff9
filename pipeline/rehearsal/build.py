"""``python -m pipeline.rehearsal.build HOME [--steps N]``: make what a rehearsal home needs, once.

Model, tokenizer, prompts, prepared data, settings, simulated GPUs.

Idempotent and safe to interrupt: everything is made in a temporary directory beside its place and renamed, ``built.json`` last.
Built twice on one machine, the set is identical, bit for bit; ``built.json`` holds its fingerprint.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator

from pipeline.contract import rehearsal
from pipeline.contract.files import read_json, write_json
from pipeline.errors import EXIT_FAILED
from pipeline.rehearsal import sim_gpus
from pipeline.rehearsal.faults import LINGER_MS
from pipeline.rehearsal.malloc import keep_memory
from pipeline.rehearsal.run_settings import MODEL, THREADS, choose_port, extract_only_toml, settings_toml
from pipeline.rehearsal.training import STEPS

RECIPE = 2
"""Raised whenever the code here makes another set than before: homes with an older one are built anew."""
PARTS = ("models", "prepared", "prompts.jsonl")


def build(home: str, steps: "int | None" = None) -> "dict[str, object]":
    """Make whatever is missing and return what ``built.json`` says; ``steps`` of training, None: the usual number, and a home that is
    complete is taken with whatever number it was built. Raises OSError."""
    with _locked(os.path.join(home, "build.lock")):
        built = read_json(os.path.join(home, "built.json"))
        if built is None or built.get("recipe") != RECIPE or steps not in (None, built.get("steps")) or not _complete(home, built):
            built = _build(home, STEPS if steps is None else steps)
        settings_file = rehearsal.settings_file(home)
        _write_if_changed(settings_file, settings_toml(home, choose_port(home, settings_file)))
        _write_if_changed(rehearsal.extract_only_settings_file(home), extract_only_toml(home))
        if not os.path.exists(rehearsal.gpus_file(home)):
            sim_gpus.create(rehearsal.gpus_file(home), linger_ms=LINGER_MS)
        return built


def _build(home: str, steps: int) -> "dict[str, object]":
    began = time.monotonic()
    for name in os.listdir(home):
        if name.startswith(".build-"):
            shutil.rmtree(os.path.join(home, name))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(home, "built.json"))
    temporary = tempfile.mkdtemp(prefix=".build-", dir=home)
    try:
        counts = _make(temporary, steps)
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


def _make(directory: str, steps: int) -> "dict[str, object]":
    """Everything below ``directory``; the libraries are imported here, so that a home that is complete costs none of them."""
    # Threads that wait for each other must not spin: on two cores with other work they would only be in each other's way.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    keep_memory()
    _say("loading torch and transformers")
    import torch
    from datasets.utils.logging import disable_progress_bar
    from transformers.utils import logging

    from pipeline.rehearsal import chats
    from pipeline.rehearsal.model import new_model, save_model
    from pipeline.rehearsal.prepared import build_prepared
    from pipeline.rehearsal.tokenizer import build_tokenizer
    from pipeline.rehearsal.training import rendered, train

    torch.set_num_threads(THREADS)
    disable_progress_bar()
    logging.disable_progress_bar()
    model_directory = os.path.join(directory, MODEL)
    os.makedirs(model_directory)
    prompts = chats.write_prompts(os.path.join(directory, "prompts.jsonl"))
    tokenizer = build_tokenizer(model_directory)
    _say(f"tokenizer of {len(tokenizer):,} tokens, {prompts} prompts")
    prepared = build_prepared(os.path.join(directory, "prepared"), tokenizer)
    _say(f"ready-made data for --only extract: {prepared['samples']} samples, {prepared['tokens']:,} tokens")
    learn, unseen = (rendered(tokenizer, part) for part in chats.parts())
    model = new_model()
    _say(f"training the verifier on {len(learn)} chats, about a minute")
    trained = train(model, learn, unseen, steps, _say)
    parameters = save_model(model, model_directory)
    _say(f"verifier of {parameters / 1e6:.1f} M parameters, DeepSeek-V3 shape; {trained['unseen_accuracy']:.0%} of unseen tokens right")
    return {"parameters": parameters, "prompts": prompts, **prepared, **trained}


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
    parser = argparse.ArgumentParser(prog="python -m pipeline.rehearsal.build", description="Make what a rehearsal home needs.")
    parser.add_argument("home", metavar="HOME", help="a directory; made where there is none")
    parser.add_argument("--steps", type=int, metavar="N", help=f"steps of the verifier's training, instead of {STEPS}")
    options = parser.parse_args(arguments)
    if options.steps is not None and options.steps < 1:
        parser.error("--steps is a number from 1 up")
    try:
        os.makedirs(options.home, mode=0o700, exist_ok=True)
    except OSError as error:
        parser.error(f"{options.home} is no directory, and cannot be made one: {error.strerror}")
    try:
        build(os.path.abspath(options.home), options.steps)
    except OSError as error:
        print(f"rehearsal: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
