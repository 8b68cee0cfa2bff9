"""A small inference server for the tests of the serve stage: vLLM's options, output and paths, no model, and bad manners on request.

``python -m tests.fakes.serve_fake OPTIONS``; its manners are JSON in the environment variable ``FAKE``: ``load_s``, ``workers`` (children
that outlive it), ``stubborn`` (they ignore SIGTERM), ``die`` (``loading``, or ``loaded``: SIGKILL after the first token), ``ignore_term``,
``token`` (``hang``, ``500``, ``none``, ``other-model``, ``strict``: refuses unknown fields), ``no_health``, ``silent``.
It notes its pid, its workers' and every SIGTERM in the file ``NOTES``, and answers 503 while the file ``SICK`` is there; with ``drip``
a byte now and then, without end.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MANNERS: dict[str, Any] = json.loads(os.environ.get("FAKE", "{}"))
OUT_OF_MEMORY = """\
(EngineCore pid=7) ERROR 11-30 03:00:00 [core.py:936] Traceback (most recent call last):
(EngineCore pid=7) ERROR 11-30 03:00:00 [core.py:936]   File "core.py", line 1, in run
(EngineCore pid=7) ERROR 11-30 03:00:00 [core.py:936] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.75 GiB.
Traceback (most recent call last):
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
METRICS = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.125
vllm:generation_tokens_total{engine="0",model_name="m"} %f
vllm:prompt_tokens_total{engine="0",model_name="m"} 7.0
"""


def note(text: str) -> None:
    with open(os.environ["NOTES"], "a") as file:
        file.write(text + "\n")


class Handler(BaseHTTPRequestHandler):
    name = ""

    def do_GET(self) -> None:
        if os.path.exists(os.environ["SICK"]):
            if MANNERS.get("drip"):
                return self.drip()
            return self.answer(503, {"error": {"message": "sick"}})
        if self.path == "/health":
            return self.answer(404, {}) if MANNERS.get("no_health") else self.answer(200, None)
        if self.path == "/v1/models":
            return self.answer(200, {"object": "list", "data": [{"id": self.name}]})
        if self.path == "/metrics" and not MANNERS.get("no_health"):
            return self.answer(200, METRICS % (time.monotonic() * 1000))
        return self.answer(404, {})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        manner = MANNERS.get("token")
        if manner == "hang":
            time.sleep(600)
        if manner == "500":
            return self.answer(500, {"error": {"message": "the engine is broken"}})
        if manner == "strict" and "return_token_ids" in asked:
            return self.answer(422, {"detail": "unexpected field"})
        choice: dict[str, Any] = {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi"},
            "finish_reason": "length",
            "token_ids": [42],
        }
        answer = {"model": "other" if manner == "other-model" else asked["model"], "choices": [choice], "usage": {"completion_tokens": 1}}
        if manner == "none":
            choice.update(message={"role": "assistant", "content": ""}, token_ids=[])
            answer["usage"] = {"completion_tokens": 0}
        if manner == "strict":
            choice.pop("token_ids")
        self.answer(200, answer)
        if MANNERS.get("die") == "loaded":
            self.wfile.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    def drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        while True:
            self.wfile.write(b" ")
            time.sleep(0.5)

    def answer(self, code: int, value: Any) -> None:
        body = b"" if value is None else json.dumps(value).encode() if not isinstance(value, str) else value.encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name for it
        pass


def load() -> None:
    """The output of vLLM's start."""
    say("INFO 11-30 03:00:00 [cpu_model_runner.py:68] Starting to load model m...\n")
    for done in range(5):
        say(f"\rLoading safetensors checkpoint shards: {done * 25:3}% Completed | {done}/4 [00:0{done}<00:01,  1.00s/it]", sys.stderr)
        time.sleep(MANNERS.get("load_s", 0) / 5)
    if MANNERS.get("die") == "loading":
        say("\n" + OUT_OF_MEMORY)
        sys.exit(1)
    say("\n", sys.stderr)
    say("INFO 11-30 03:00:00 [kv_cache_utils.py:1] GPU KV cache size: 1,234,567 tokens, Maximum concurrency for 4,096 tokens: 301.41x\n")
    say("\x1b[31mhostile\x1b[0m \x1b]0;title\x07 line\n")


def say(text: str, file: Any = sys.stdout) -> None:
    if not MANNERS.get("silent"):
        print(text, end="", file=file, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for option in ("model", "host", "served-model-name", "tensor-parallel-size", "gpu-memory-utilization", "dtype", "max-model-len"):
        parser.add_argument(f"--{option}")
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    Handler.name = options.served_model_name
    stop = threading.Event()

    def on_term(*_: Any) -> None:
        note("term")
        if not MANNERS.get("ignore_term"):
            stop.set()

    signal.signal(signal.SIGTERM, on_term)
    signal.signal(signal.SIGINT, lambda *_: note("int"))
    note(f"pid {os.getpid()}")
    for _ in range(MANNERS.get("workers", 0)):
        trap = "trap '' TERM; " if MANNERS.get("stubborn") else ""
        worker = subprocess.Popen(["/bin/sh", "-c", f"{trap}exec sleep 600"], start_new_session=True)
        note(f"worker {worker.pid}")
    thread = threading.Thread(target=load)
    thread.start()
    while thread.is_alive() and not stop.is_set():
        stop.wait(0.02)
    if stop.is_set() or MANNERS.get("die") == "loading":
        os._exit(1 if MANNERS.get("die") else 0)
    server = ThreadingHTTPServer((options.host, options.port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while not stop.wait(0.1):  # after a freeze another thread may get the signal, and Python calls the handler in this one
        pass
    say("INFO [shutdown] API server: shutdown triggered\n")


if __name__ == "__main__":
    main()
