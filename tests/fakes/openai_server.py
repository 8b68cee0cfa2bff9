"""An OpenAI-compatible server for tests that answers like vLLM, and misbehaves as told: a thread with an event loop and raw sockets.

Its answers depend on the prompt alone, and their token ids are what the chat template of ``save_verifier`` gives.
"""

import asyncio
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fakes.chat_verifier import BEGIN, END, THINK, THOUGHT, WORDS

MODEL = "verifier"
DRIP = b" "
_LONG = b" X\r\nContent-Length: 100000\r\n\r\n"
STARTS = {"drip": b"HTTP/1.1 200" + _LONG, "drip head": b"HTTP/1.1 200 X\r\nX-A: ", "drip error": b"HTTP/1.1 500" + _LONG}

Fault = Callable[[str, int], "str | None"]
"""(last user text, how many times it was asked before) to the name of a fault, or None for a good answer."""


class FakeServer:
    """``with FakeServer(directory) as server``: ``server.endpoint`` answers until the block ends."""

    def __init__(self, directory: Path, fault: Fault = lambda _text, _before: None):
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self.fault = fault
        self.change: Callable[[str, dict[str, Any]], Any] = lambda _text, answer: answer
        """(last user text, a good answer) to what is answered instead."""
        self.healthy: bool | str | None = True
        """None: /health is never answered; ``drip``: never to the end."""
        self.generated: int | None = 0
        """The counter in /metrics; None: there are no metrics."""
        self.moves = 0
        """Added to the counter at every look."""
        self.models = [MODEL]
        self.room = 1 << 20
        """max_model_len."""
        self.asked: Counter[str] = Counter()
        """By last user text; the probe is not counted."""
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        """Authorization headers."""
        self.in_flight = self.most_in_flight = 0
        self.answer_s = 0.0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-openai", daemon=True)
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> "FakeServer":
        self._thread.start()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def start(self) -> None:
        """Listen; the second time on the same port."""
        self._run(self._start())

    def die(self) -> None:
        """Close the port, and every connection in mid-answer."""
        self._run(self._die())

    def _run(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    async def _start(self) -> None:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def _die(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self._listener = None
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, path, *_ = head.split()
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:])}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.keys.append(headers.get("authorization"))
        if path == "/health":
            if self.healthy is None:
                await asyncio.sleep(600)
            if self.healthy == "drip":
                await self._drip(writer, "drip")
            return await self._send(writer, 200 if self.healthy else 503, b"")
        if path == "/v1/models":
            listed = [{"id": name, "object": "model", "max_model_len": self.room} for name in self.models]
            return await self._json(writer, 200, {"object": "list", "data": listed})
        if path == "/metrics" and self.generated is not None:
            self.generated += self.moves
            return await self._send(writer, 200, f'vllm:generation_tokens_total{{engine="0"}} {self.generated}\n'.encode())
        if path == "/v1/chat/completions" and method == "POST":
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            try:
                return await self._complete(writer, json.loads(body))
            finally:
                self.in_flight -= 1
        return await self._json(writer, 404, {"error": {"message": "Not Found"}})

    async def _complete(self, writer: asyncio.StreamWriter, request: dict[str, Any]) -> bool:
        text = request["messages"][-1]["content"]
        probe = request["max_tokens"] == 1
        before = self.asked[text]
        if not probe:
            self.asked[text] += 1
            self.requests.append(request)
            await asyncio.sleep(self.answer_s)
        fault = self.fault("" if probe else text, before)
        if fault is not None and fault.isdigit():
            return await self._error(writer, int(fault))
        if fault == "hang":
            await asyncio.sleep(600)
        if fault == "close":
            return False
        if fault == "die":
            asyncio.get_running_loop().create_task(self._die())
            await asyncio.sleep(600)
        answer = self.change("" if probe else text, self.answer(request, fault))
        data = json.dumps(answer).encode()
        if fault == "no json":
            data = b"<html>\xff busy</html>"
        if fault == "cut":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data) + data[: len(data) // 2])
            await writer.drain()
            return False
        if fault in STARTS:
            await self._drip(writer, fault)
        return await self._send(writer, 200, data)

    async def _drip(self, writer: asyncio.StreamWriter, what: str) -> None:
        writer.write(STARTS[what])
        while True:
            writer.write(DRIP)
            await writer.drain()
            await asyncio.sleep(0.05)

    def answer(self, request: dict[str, Any], fault: str | None = None) -> dict[str, Any]:
        """The completion for a request, without its transport."""
        turns = request["messages"]
        prompt = BEGIN + "".join(f"<|{turn['role']}|>{turn['content']}{END}" for turn in turns) + "<|assistant|>"
        number = int.from_bytes(hashlib.sha256(json.dumps(turns).encode()).digest()[:8], "big")
        words = [WORDS[number >> shift & 7] for shift in range(0, 40, 2)]
        reasoning: str | None = "I think about " + " ".join(words[:8])
        content: str | None = " ".join(words[8:]) + "." + ("" if request.get("temperature") == 0 else f" {request.get('seed', 0) % 97}")
        if fault == "no reasoning":
            reasoning = None
        text = (f"{THINK}{reasoning}{THOUGHT}" if reasoning else "") + f"{content}{END}"
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        finish = "stop"
        if fault == "odd ids":  # the same text, letter by letter
            ids = [one for letter in content or "" for one in self._tokenizer.encode(letter, add_special_tokens=False).ids] + ids[-1:]
            reasoning = None
        if fault == "outside":
            ids = [99_999, *ids]
        if len(ids) > request["max_tokens"]:
            ids, finish = ids[: request["max_tokens"]], "length"
            content = self._tokenizer.decode(ids)
            if reasoning is not None:
                reasoning, _, content = self._tokenizer.decode(ids, skip_special_tokens=False).removeprefix(THINK).partition(THOUGHT)
        prompt_ids = self._tokenizer.encode(prompt, add_special_tokens=False).ids
        if fault == "other template":
            prompt_ids = [*prompt_ids[:3], prompt_ids[3] + 1, *prompt_ids[4:]]
        if fault == "other text":
            content = "something else"
        if fault == "empty":
            ids, content, reasoning = [], "", None
        if fault in ("abort", "unfinished"):
            finish = "abort" if fault == "abort" else None  # type: ignore[assignment]
        self.generated = None if self.generated is None else self.generated + len(ids)
        with_ids = request.get("return_token_ids") and fault != "no ids"
        message = {"role": "assistant", "content": content, "reasoning": reasoning}
        choice = {"index": 0, "message": message, "finish_reason": finish, "token_ids": ids if with_ids else None}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": request["model"],
            "choices": [] if fault == "no choices" else [choice],
            "prompt_token_ids": prompt_ids if with_ids else None,
            "usage": {"prompt_tokens": len(prompt_ids), "completion_tokens": len(ids), "total_tokens": len(prompt_ids) + len(ids)},
        }

    async def _error(self, writer: asyncio.StreamWriter, code: int) -> bool:
        messages = {400: "This model's maximum context length is 1024 tokens\x1b[31m, the prompt is longer", 422: "cannot be understood"}
        extra = {429: b"Retry-After: 0.3\r\n", 503: b"Retry-After: 0.3\r\n", 302: b"Location: http://u:pw@127.0.0.1:1/v1\r\n"}.get(
            code, b""
        )
        value = {"error": {"message": messages.get(code, f"error {code}"), "type": "x", "code": code}}
        return await self._send(writer, code, json.dumps(value).encode(), extra)

    async def _json(self, writer: asyncio.StreamWriter, code: int, value: Any) -> bool:
        return await self._send(writer, code, json.dumps(value).encode())

    async def _send(self, writer: asyncio.StreamWriter, code: int, data: bytes, extra: bytes = b"") -> bool:
        writer.write(b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n" % (code, extra, len(data)) + data)
        await writer.drain()
        return True
