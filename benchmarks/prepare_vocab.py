"""prepare and vocab on synthetic answers of the reference run's size, beside speculators' own commands on the same token ids.

20 M tokens in 10,000 samples, a vocabulary of 163,840 of which some tokens are frequent and most are rare. Times are on the wall, from the
start of a process to its end, imports included; memory is the largest resident size of a process. On a machine that does other work the
processor seconds beside them say more. speculators reads rows that hold token ids and masks and nothing else; ours read the answers as the
generate stage writes them, with their texts, and check what they wrote. ``--tokens`` for another size.
Writes below the working directory and cleans up.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.report import report
from pipeline import output_manifest
from pipeline.checks_model import check_model
from pipeline.generation.fingerprint import Fingerprint

TOKENS, SAMPLE_TOKENS, PROMPT_TOKENS = 20_000_000, 2000, 130
VOCABULARY, DRAFT = 163_840, 32_000
MOST_S, MOST_MIB = 120.0, 4096.0
MIB = 1 << 20
_MAPPING = """
import sys, numpy, torch
from speculators.train.vocab_mapping import build_vocab_mappings_from_distribution
frequencies = torch.load(sys.argv[1] + "/token_freq.pt", weights_only=True)
for name, array in zip(("d2t", "t2d"), build_vocab_mappings_from_distribution(frequencies, int(sys.argv[2]), int(sys.argv[3]))):
    numpy.save(f"{sys.argv[1]}/{name}-{sys.argv[2]}.npy", array.numpy())
"""
"""What its train command does before it trains: it has no command for that alone."""


def main(tokens: int = TOKENS) -> int:
    """Measure, print, and return 1 when a bound is missed."""
    with tempfile.TemporaryDirectory(prefix=".bench-prepare-", dir=os.getcwd()) as base:
        run = Path(base) / "run"
        model = _make_model(Path(base) / "model")
        rows = _make_answers(run, model, tokens // SAMPLE_TOKENS)
        (run / "settings.toml").write_text(f"[model]\npath = {json.dumps(str(model))}\n")
        stage = [sys.executable, "-m", "pipeline"]
        ours = {name: _measure([*stage, name, "--run", str(run)], base) for name in ("prepare", "vocab")}
        theirs_at = f"{base}/theirs"
        command = [sys.executable, "-m", "speculators", "prepare-data", "--model", str(model), "--data", str(rows), "--output", theirs_at]
        theirs = {
            "prepare": _measure([*command, "--no-skip-token-freq", "--seq-length", "4096", "--minimum-valid-tokens", "1"], base),
            "vocab": _measure([sys.executable, "-c", _MAPPING, theirs_at, str(DRAFT), str(VOCABULARY)], base),
        }
        _compare(run, Path(theirs_at))
    seconds, memory_mib, cpu_s = _together(ours)
    their_seconds, their_memory_mib, their_cpu_s = _together(theirs)
    beside = f"speculators {their_seconds:.3g} ({their_seconds / seconds:.2g}x) vs cpu_s {cpu_s:.3g} vs speculators_cpu_s {their_cpu_s:.3g}"
    missed = report("prepare_vocab", seconds, "s", MOST_S, f"{beside} vs tokens {tokens:,}")
    beside = f"speculators {their_memory_mib:.4g} ({their_memory_mib / memory_mib:.2g}x)"
    return missed | report("prepare_vocab_memory", memory_mib, "MiB", MOST_MIB, beside)


def _together(measured: dict[str, tuple[float, float, float]]) -> tuple[float, float, float]:
    """(seconds of both, MiB of the larger, processor seconds of both)."""
    seconds, mib, cpu_s = zip(*measured.values(), strict=True)
    return sum(seconds), max(mib), sum(cpu_s)


def _make_model(directory: Path) -> Path:
    """The reference run's sizes in config.json, a tokenizer of one word a token, and no weights worth the name."""
    import torch
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    directory.mkdir()
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": 7168}
    config |= {"num_hidden_layers": 61, "num_attention_heads": 56, "max_position_embeddings": 262_144, "eos_token_id": VOCABULARY - 1}
    (directory / "config.json").write_text(json.dumps(config))
    save_file({"nothing": torch.zeros(1)}, directory / "model.safetensors")
    words = {**{f"w{number:x}": number for number in range(VOCABULARY - 1)}, "<|end|>": VOCABULARY - 1}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="w0")), eos_token="<|end|>")
    tokenizer.save_pretrained(directory)
    return directory


def _make_answers(run: Path, model: Path, samples: int) -> Path:
    """generate's files below ``run``, and the same token ids as rows for speculators; returns the latter's path."""
    import msgspec
    import numpy

    chance = numpy.random.default_rng(7)
    weights = numpy.cumsum(1 / numpy.arange(1, VOCABULARY) ** 1.1)
    encode = msgspec.json.encode
    generated = run / "data" / "generated"
    generated.mkdir(parents=True)
    rows = run.parent / "rows.jsonl"
    fingerprint = Fingerprint()
    with open(generated / "responses.jsonl", "wb") as answers, open(rows, "wb") as plain:
        for number in range(samples):
            length = int(chance.integers(SAMPLE_TOKENS // 2, SAMPLE_TOKENS * 3 // 2))
            ids: list[int] = numpy.searchsorted(weights, chance.random(length) * weights[-1]).tolist()
            ids[-1] = VOCABULARY - 1
            prompt, response = ids[:PROMPT_TOKENS], ids[PROMPT_TOKENS:]
            text = " ".join(f"w{token:x}" for token in response[:-1])
            asked = " ".join(f"w{token:x}" for token in prompt)
            line: dict[str, Any] = {"id": f"p{number}", "messages": [{"role": "user", "content": asked}], "split": "train"}
            line |= {"prompt_token_ids": prompt, "response_token_ids": response, "reasoning": None, "content": text}
            line |= {"finish_reason": "stop", "ids_match": True, "view": [["prompt", asked], ["response", text]]}
            answers.write(encode(line) + b"\n")
            fingerprint.add(line["id"], "train", encode(line))
            plain.write(encode({"input_ids": ids, "loss_mask": [0] * len(prompt) + [1] * len(response)}) + b"\n")
    inputs: dict[str, str | None] = {"model": check_model(str(model)).fingerprint}
    totals = {"samples": samples, "answered": samples}
    output_manifest.publish(
        str(generated), "generate", "bench", complete=True, fingerprint=fingerprint.hex(), inputs=inputs, settings={}, totals=totals
    )
    return rows


def _measure(command: list[str], base: str) -> tuple[float, float, float]:
    """(seconds, MiB, processor seconds) of a process that must end well; what it prints is shown only when it does not."""
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "HF_HOME": f"{base}/cache", "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryFile() as log:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            log.seek(0)
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {log.read()[-2000:].decode(errors='replace')}")
    return seconds, used.ru_maxrss * 1024 / MIB, used.ru_utime + used.ru_stime


def _compare(run: Path, theirs: Path) -> None:
    """Both counted the same tokens and chose the same, but for the special token that ours force in and theirs found frequent."""
    import numpy
    import torch

    ours = run / "data" / "vocab"
    counted = [torch.load(directory / "token_freq.pt", weights_only=True) for directory in (ours, theirs)]
    if counted[0] != counted[1]:
        raise RuntimeError("the two counted other tokens")
    mappings = [numpy.load(directory / f"d2t-{DRAFT}.npy") for directory in (ours, theirs)]
    if not numpy.array_equal(*mappings):
        raise RuntimeError("the two chose other vocabularies")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=TOKENS, help=f"in all ({TOKENS:,})")
    sys.exit(main(parser.parse_args().tokens))
