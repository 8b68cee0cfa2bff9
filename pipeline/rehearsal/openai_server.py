"""``python -m pipeline.rehearsal.openai_server --model DIR``: the rehearsal's stand-in for ``vllm serve``, a real model on the CPU.

Takes vLLM's long options; those that mean nothing on a CPU are accepted and ignored, unknown ones are refused. Ours, because the server
that transformers brings (``transformers serve``, 5.19) answers without token ids, which the generate stage needs exactly.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import sys
import time
from typing import Any

from pipeline.errors import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from pipeline.rehearsal.malloc import keep_memory
from pipeline.rehearsal.openai_text import REASONING_PARSERS

THREADS = 1
"""The model's matrices are too small for more: two threads would mostly wait for each other, and the other core is for the clients."""
_IGNORED = (
    "--tensor-parallel-size",
    "--pipeline-parallel-size",
    "--gpu-memory-utilization",
    "--max-num-batched-tokens",
    "--block-size",
    "--swap-space",
    "--kv-cache-dtype",
    "--load-format",
    "--tokenizer-mode",
    "--uvicorn-log-level",
)
_IGNORED_FLAGS = (
    "--enforce-eager",
    "--trust-remote-code",
    "--enable-prefix-caching",
    "--no-enable-prefix-caching",
    "--disable-log-requests",
    "--disable-log-stats",
    "--enable-log-requests",
)


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code."""
    options = _parser().parse_args(argv)
    config_path = os.path.join(options.model, "config.json")
    try:
        with open(config_path, encoding="utf-8") as file:
            longest = int(json.load(file)["max_position_embeddings"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return _refuse(f"{config_path}: no readable configuration of a model ({error}); --model names a Hugging Face model directory")
    if options.max_model_len is not None and options.max_model_len > longest:
        return _refuse(f"--max-model-len {options.max_model_len}: the model is made for {longest} tokens; give that or less")
    listener = socket.socket(socket.AF_INET6 if ":" in options.host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((options.host, options.port))  # before the model is loaded: loading may take long
    except OSError as error:
        return _refuse(f"{options.host}:{options.port}: {error.strerror or error}; choose another --port", EXIT_FAILED)
    try:
        return asyncio.run(_serve(options, listener, options.max_model_len or longest))
    except (OSError, ValueError, ImportError) as error:
        return _refuse(f"{options.model}: the model cannot be loaded: {' '.join(str(error).split())[:500]}", EXIT_FAILED)


async def _serve(options: argparse.Namespace, listener: socket.socket, max_model_len: int) -> int:
    keep_memory()
    import uvicorn

    from pipeline.rehearsal.cpu_engine import CpuEngine
    from pipeline.rehearsal.openai_api import Api
    from pipeline.rehearsal.openai_text import ChatText

    model, tokenizer = _load(options.model, options.dtype)
    config = model.generation_config
    defaults = (1.0 if config.temperature is None else config.temperature, 1.0 if config.top_p is None else config.top_p)
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    engine = CpuEngine(model, frozenset(ends), options.max_num_seqs, max_model_len, THREADS)
    text = ChatText(tokenizer, options.reasoning_parser is not None, defaults)
    api = Api(engine, text, options.served_model_name or [options.model], options.model)

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            """Requests on their way are answered with an error instead of being waited for. A second SIGINT waits for nothing."""
            print(f"{signal.Signals(sig).name}: shutting down", flush=True)
            self.force_exit = self.should_exit and sig == signal.SIGINT
            self.should_exit = True
            engine.stop()

    server = Server(uvicorn.Config(api.app(), log_level="warning", timeout_graceful_shutdown=10))

    def died() -> None:
        server.should_exit = True

    engine.start(died)
    room = options.max_num_seqs * max_model_len
    print(f"CPU KV cache size: {room:,} tokens", flush=True)
    print(f"Maximum concurrency for {max_model_len:,} tokens per request: {options.max_num_seqs:.2f}x", flush=True)
    print(f"serving on http://{options.host}:{options.port}", flush=True)
    await server.serve([listener])
    engine.stop()
    engine.join(10.0)
    return EXIT_DONE if engine.failure is None else EXIT_FAILED


def _load(path: str, dtype: str) -> tuple[Any, Any]:
    """Model and tokenizer, shard by shard with vLLM's progress lines. Raises OSError, ValueError."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, AutoTokenizer, GenerationConfig
    from transformers.utils import logging

    logging.disable_progress_bar()
    shards = sorted(name for name in os.listdir(path) if name.endswith(".safetensors"))
    if not shards:
        raise OSError("there are no safetensors files in it")
    state: dict[str, Any] = {}
    began = time.monotonic()
    for number, name in enumerate(shards, 1):
        try:
            state.update(load_file(os.path.join(path, name)))
        except SafetensorError as error:
            raise OSError(f"{name}: {error}") from None
        share, taken = number * 100 // len(shards), max(time.monotonic() - began, 1e-3)
        left = taken / number * (len(shards) - number)
        times = f"[{_clock(taken)}<{_clock(left)}, {number / taken:5.2f}it/s]"
        print(f"Loading safetensors checkpoint shards: {share:3d}% Completed | {number}/{len(shards)} {times}", flush=True)
    # float32 is no slower than bfloat16 on most CPUs, and its rounding is too small for the batch to change an answer.
    kind = torch.float32 if dtype == "auto" else getattr(torch, dtype)
    config = AutoConfig.from_pretrained(path)
    made: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    loaded: Any = made.from_pretrained(None, config=config, state_dict=state, dtype=kind, output_loading_info=True)
    model, report = loaded
    if report["missing_keys"]:
        raise ValueError(f"the checkpoint lacks {len(report['missing_keys'])} weights, e.g. {min(report['missing_keys'])}")
    model.generation_config = GenerationConfig.from_pretrained(path)
    return model.eval(), AutoTokenizer.from_pretrained(path)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pipeline.rehearsal.openai_server", description=__doc__, allow_abbrev=False)
    parser.add_argument("--model", required=True, metavar="DIR", help="Hugging Face model directory")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name", nargs="+", metavar="NAME", help="what clients may call the model (default: DIR)")
    parser.add_argument("--max-model-len", type=_positive, metavar="TOKENS", help="longest prompt and answer together")
    parser.add_argument("--max-num-seqs", type=_positive, default=32, metavar="N", help="requests in one batch, at most")
    parser.add_argument("--dtype", choices=("auto", "float32", "bfloat16", "float16"), default="auto", help="auto: float32")
    parser.add_argument("--reasoning-parser", choices=REASONING_PARSERS, help="part <think>...</think> from the answer")
    for name in _IGNORED:
        parser.add_argument(name, help=argparse.SUPPRESS)
    for name in _IGNORED_FLAGS:
        parser.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _refuse(what: str, code: int = EXIT_USAGE) -> int:
    print(f"openai_server: {what}", file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
