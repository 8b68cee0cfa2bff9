"""Settings of the rehearsal's runs, as TOML; the only place where they are written."""

import contextlib
import json
import os
import random
import socket
import tomllib

from pipeline.rehearsal.tokenizer import VOCABULARY

MODEL = os.path.join("models", "tiny-verifier")
THREADS = 2
MIN_FREE_BYTES = 500_000_000
"""What the extraction keeps free on its disk."""
STALL_SCALE = 0.25
"""Of the floors of a real run: a stall is called in less than a minute, and a machine that builds and tests beside it calls none."""
_PORTS = range(20_000, 30_000)
"""Below those that the system gives to outgoing connections."""


def settings_toml(home: str, port: int) -> str:
    """Of the whole run; paths are absolute, because model and prompts are made once for all runs."""
    return f"""\
# The rehearsal's run: a tiny model on the CPU, and SIMULATED GPUs. A run keeps its own copy of these settings on the host.
[model]
path = {_quoted(os.path.join(home, MODEL))}

[serve]
program = ["python", "-m", "pipeline.rehearsal.openai_server"]
port = {port}
served_model_name = "tiny-verifier"
max_model_len_tokens = 2048
max_num_seqs = 32
reasoning_parser = "deepseek_r1"
ready_timeout_s = 300.0

[generate]
prompts = {_quoted(os.path.join(home, "prompts.jsonl"))}
greedy_holdout = 16
max_response_tokens = 400
temperature = 0.8
concurrency = 32
request_timeout_s = 300.0

[prepare]
max_length_tokens = 2048

[vocab]
draft_vocab_size = {VOCABULARY // 2}
coverage_sizes = [{VOCABULARY // 8}, {VOCABULARY // 4}, {VOCABULARY // 2}]

{_extract("data/prepared")}"""


def extract_only_toml(home: str) -> str:
    """Of an extraction alone, on the ready-made data."""
    return f"""\
# The rehearsal's extraction alone: a tiny model on the CPU, ready-made data, and SIMULATED GPUs.
[model]
path = {_quoted(os.path.join(home, MODEL))}

{_extract(os.path.join(home, "prepared"))}"""


def _extract(data: str) -> str:
    return f"""\
[extract]
data = {_quoted(data)}
device = "cpu"
max_length_tokens = 2048
batch_samples = 8
batch_tokens = 2048
threads = {THREADS}
writer_threads = 2
buffer_bytes = 268_435_456
min_free_bytes = {MIN_FREE_BYTES}

[watch]
stall_scale = {STALL_SCALE}
"""


def _quoted(path: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's, but for surrogate pairs."""
    return json.dumps(path, ensure_ascii=False)


def choose_port(home: str, settings_file: str) -> int:
    """The port that this home's settings name already, or one that is free now. Raises OSError when none is."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError), open(settings_file, "rb") as file:
        told = tomllib.load(file)
        if told["model"]["path"] == os.path.join(home, MODEL):  # else these are a copied home's
            return int(told["serve"]["port"])
    for port in random.sample(_PORTS, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("no free port was found for the rehearsal's inference server")
