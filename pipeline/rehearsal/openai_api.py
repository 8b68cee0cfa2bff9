"""HTTP side of the rehearsal's server: OpenAI's chat and text completions with vLLM's additions, as vLLM answers them.

vLLM's additions: with ``return_token_ids`` an answer has ``prompt_token_ids``, and each choice ``token_ids``, its end token included; a
message has its reasoning as ``reasoning``, in releases before 0.16 as ``reasoning_content``: here it has both.
"""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from pipeline.rehearsal.cpu_engine import CpuEngine
from pipeline.rehearsal.openai_requests import ApiError, ChatRequest, CompletionRequest, Sampling, parse
from pipeline.rehearsal.openai_text import ChatText
from pipeline.rehearsal.sampling import ABORTED, Request

Endpoint = Callable[[HttpRequest], Awaitable[Response]]


class Api:
    """The endpoints over one engine."""

    def __init__(self, engine: CpuEngine, text: ChatText, names: list[str], root: str):
        self._engine = engine
        self._text = text
        self._names = names
        self._root = root
        self._created = int(time.time())

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/health", self._health),
                Route("/metrics", self._metrics),
                Route("/v1/models", self._models),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/completions", self._complete, methods=["POST"]),
            ],
            exception_handlers={ApiError: _told, HTTPException: _told_http},
        )

    async def _health(self, _request: HttpRequest) -> Response:
        return Response(status_code=200 if self._engine.failure is None else 503)

    async def _models(self, _request: HttpRequest) -> Response:
        length = self._engine.max_model_len
        one = {"object": "model", "created": self._created, "owned_by": "eaglewatch", "root": self._root, "max_model_len": length}
        return JSONResponse({"object": "list", "data": [{"id": name, **one} for name in self._names]})

    async def _metrics(self, _request: HttpRequest) -> Response:
        engine = self._engine
        values = (
            ("num_requests_running", "gauge", engine.running),
            ("num_requests_waiting", "gauge", engine.waiting),
            ("kv_cache_usage_perc", "gauge", engine.cache_usage),
            ("prompt_tokens_total", "counter", engine.prompt_tokens),
            ("generation_tokens_total", "counter", engine.generated_tokens),
        )
        label = f'{{engine="0",model_name={json.dumps(self._names[0], ensure_ascii=False)}}}'
        lines = [f"# TYPE vllm:{name} {kind}\nvllm:{name}{label} {float(value)}\n" for name, kind, value in values]
        return PlainTextResponse("".join(lines), media_type="text/plain; version=0.0.4")

    async def _chat(self, http: HttpRequest) -> Response:
        asked = parse(await http.body(), ChatRequest)
        self._check_model(asked)
        messages = [message.for_template() for message in asked.messages]
        prompt = await self._text.chat_ids(messages, asked.chat_template_kwargs or {})
        limit = asked.max_completion_tokens if asked.max_completion_tokens is not None else asked.max_tokens
        return await self._answer(http, asked, prompt, limit, chat=True)

    async def _complete(self, http: HttpRequest) -> Response:
        asked = parse(await http.body(), CompletionRequest)
        self._check_model(asked)
        prompt = await self._text.prompt_ids(asked.prompt)
        return await self._answer(http, asked, prompt, asked.max_tokens if asked.max_tokens is not None else 16, chat=False)

    def _check_model(self, asked: Sampling) -> None:
        if asked.model is not None and asked.model not in self._names:
            raise ApiError(404, f"there is no model {asked.model!r} here, only {', '.join(self._names)}", "NotFoundError", "model")

    async def _answer(self, http: HttpRequest, asked: Sampling, prompt: list[int], limit: int | None, chat: bool) -> Response:
        room = self._engine.max_model_len - len(prompt)
        if not prompt:
            raise ApiError(400, "the prompt is empty", param="prompt")
        if room < 1 or (limit or 0) > room:
            raise ApiError(
                400,
                f"this model's maximum context length is {self._engine.max_model_len} tokens; the prompt has {len(prompt)} "
                f"and {limit or 1} more are asked for",
                param="messages" if chat else "prompt",
            )
        events: asyncio.Queue[int | str] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def tell(event: int | str) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        temperature, top_p = self._text.defaults
        request = Request(
            prompt=prompt,
            max_tokens=limit or room,
            temperature=temperature if asked.temperature is None else asked.temperature,
            top_p=top_p if asked.top_p is None else asked.top_p,
            seed=asked.seed,
            ignore_eos=asked.ignore_eos,
            on_done=tell,
            on_token=tell if asked.stream else None,
        )
        head = {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": asked.model or self._names[0],
        }
        self._engine.submit(request)
        if asked.stream:
            lines = self._stream(request, events, asked, head, chat)
            return StreamingResponse(lines, media_type="text/event-stream")
        finish = await self._finished(http, request, events)
        if finish == ABORTED:
            raise ApiError(500 if self._engine.failure else 503, "the server is stopping, or its engine has died", "InternalServerError")
        return JSONResponse(await self._whole(request, finish, asked, head, chat))

    async def _finished(self, http: HttpRequest, request: Request, events: "asyncio.Queue[int | str]") -> str:
        """Why the request ended; a client that hangs up first frees its place in the batch."""
        ended = asyncio.ensure_future(events.get())
        gone = asyncio.ensure_future(http.receive())  # the body is read: the next message is that the client has gone
        try:
            await asyncio.wait((ended, gone), return_when=asyncio.FIRST_COMPLETED)
            return str(ended.result()) if ended.done() else ABORTED
        finally:
            self._engine.abort(request)
            ended.cancel()
            gone.cancel()

    async def _whole(self, request: Request, finish: str, asked: Sampling, head: dict[str, Any], chat: bool) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "logprobs": None, "stop_reason": None}
        if chat:
            reasoning, content = await self._text.parts(request.output)
            choice["message"] = {"role": "assistant", "content": content, "reasoning": reasoning, "reasoning_content": reasoning}
        else:
            choice["text"] = await self._text.plain(request.output)
        body = {**head, "object": "chat.completion" if chat else "text_completion", "choices": [choice], "usage": _usage(request)}
        if asked.return_token_ids:
            choice["token_ids"] = request.output
            body["prompt_token_ids"] = request.prompt
        return body

    async def _stream(
        self, request: Request, events: "asyncio.Queue[int | str]", asked: Sampling, head: dict[str, Any], chat: bool
    ) -> AsyncIterator[str]:
        """Server-sent events: one a token, then why it ended, usage if asked for, and ``[DONE]``."""
        kind = {**head, "object": "chat.completion.chunk" if chat else "text_completion"}
        sent = {"reasoning": "", "content": ""}
        first: dict[str, Any] = {"prompt_token_ids": request.prompt} if asked.return_token_ids else {}
        try:
            if chat:
                yield _event({**kind, **first, "choices": [_piece(chat, {"role": "assistant", "content": ""})]})
                first = {}
            ids: list[int] = []
            event: int | str = ""
            while isinstance(event := await events.get(), int):
                ids.append(event)
                delta = await self._text.delta(ids, sent, chat)
                token_ids = {"token_ids": [event]} if asked.return_token_ids else {}
                yield _event({**kind, **first, "choices": [{**_piece(chat, delta), **token_ids}]})
                first = {}
            if event == ABORTED:
                yield _event(ApiError(503, "the server is stopping, or its engine has died", "InternalServerError").body)
                return
            yield _event({**kind, "choices": [{**_piece(chat, {}), "finish_reason": event}]})
            if (asked.stream_options or {}).get("include_usage"):
                yield _event({**kind, "choices": [], "usage": _usage(request)})
            yield "data: [DONE]\n\n"
        finally:
            self._engine.abort(request)


def _piece(chat: bool, delta: dict[str, str]) -> dict[str, Any]:
    return {"index": 0, "finish_reason": None, **({"delta": delta} if chat else {"text": delta.get("content", "")})}


def _event(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"


def _usage(request: Request) -> dict[str, int]:
    prompt, output = len(request.prompt), len(request.output)
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}


async def _told(_request: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return JSONResponse(error.body, status_code=error.status)


async def _told_http(_request: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = "NotFoundError" if error.status_code == 404 else "BadRequestError"
    return JSONResponse(ApiError(error.status_code, error.detail, kind).body, status_code=error.status_code, headers=error.headers)
