"""One request to the verifier's server: exactly what is asked, and the answer checked for what it must have."""

import asyncio
import contextlib
import resource
import socket
from typing import Any

from pipeline.generation import failures
from pipeline.generation.choice import stable_number
from pipeline.generation.failures import RequestError
from pipeline.generation.prompts import Message
from pipeline.generation.records import Answer
from pipeline.schema import Generate
from pipeline.serving import answers
from pipeline.serving.answers import AnswerError, NotJsonError
from pipeline.serving.exchange import PLAIN, TooLargeError, read_bounded, refuse_compressed

_CONNECT_S = 20.0
_MOST_ANSWER_BYTES = 1 << 20
_MOST_ERROR_BYTES = 64 << 10
_MOST_BYTES_A_TOKEN, _MOST_BYTES_A_PROMPT_BYTE = 1 << 10, 32
"""Beside that, an answer has an id and the text of each token it may have, and the prompt's ids."""
_PROMPT_TOKENS, _PROMPT_TOKENS_A_BYTE = 1 << 16, 4
"""More than any template makes of a prompt."""
_SEED_BITS = 31
"""Other servers than vLLM take no more."""
_KEEP_ALIVE_S = 4.0
"""Below uvicorn's 5 s, so that the client is the one that closes an idle connection."""
_SPARE_FILES = 256


class Client:
    """The server, as the openai package reaches it. Use it within one event loop."""

    def __init__(self, endpoint: str, key: str | None, model: str, settings: Generate, vocab_size: int):
        import httpx
        import openai

        self._settings = settings
        self._model = model
        self._endpoint, self._key = endpoint, key or "none"
        self._vocab_size = vocab_size
        _allow_files(settings.concurrency)
        transport = httpx.AsyncHTTPTransport(
            trust_env=False,  # a proxy of the environment is for other machines
            limits=httpx.Limits(max_connections=settings.concurrency + 1, keepalive_expiry=_KEEP_ALIVE_S),
            socket_options=_KEEP_ALIVE,
        )
        timeout: Any = httpx.Timeout(settings.request_timeout_s, connect=min(_CONNECT_S, settings.request_timeout_s))
        self._http: Any = httpx.AsyncClient(
            transport=transport,
            timeout=timeout,
            trust_env=False,
            follow_redirects=False,
            headers=PLAIN,
            event_hooks={"response": [_only_good]},
        )
        self._openai = openai.AsyncOpenAI(
            base_url=endpoint, api_key=self._key, organization="", project="", max_retries=0, http_client=self._http, timeout=timeout
        )

    async def close(self) -> None:
        await self._http.aclose()

    def seed(self, prompt_id: str, again: int = 0) -> int:
        """The sampling seed of a prompt. ``again``: answers that were thrown away, because another one is wanted."""
        return stable_number(self._settings.seed, f"sample\0{prompt_id}\0{again}") >> (63 - _SEED_BITS)

    async def ask(self, messages: list[Message], seed: int, greedy: bool, max_tokens: int | None = None) -> Answer:
        """Raises RequestError."""
        timeout_s, most_tokens = self._settings.request_timeout_s, max_tokens or self._settings.max_response_tokens
        try:
            async with asyncio.timeout(timeout_s):  # httpx's own ones are for a single read, which a slow dripping server renews
                data = await self._send(messages, seed, greedy, most_tokens)
        except RequestError:
            raise
        except Exception as error:
            known = failures.from_openai(error, timeout_s)
            if known is None:
                raise
            raise known from None
        return self._parse(data, messages, most_tokens)

    async def _send(self, messages: list[Message], seed: int, greedy: bool, max_tokens: int) -> bytes:
        import httpx

        settings = self._settings
        sampling: dict[str, Any] = {"temperature": 0.0} if greedy else {"temperature": settings.temperature, "top_p": settings.top_p}
        extra: dict[str, Any] = {"return_token_ids": True}
        if settings.chat_template_args:
            extra["chat_template_kwargs"] = settings.chat_template_args
        request: Any = self._openai.chat.completions.with_streaming_response.create(
            model=self._model,
            messages=messages,  # type: ignore[arg-type] - plain dicts, as JSON has them
            max_tokens=max_tokens,
            seed=seed,
            extra_body=extra,
            **{name: value for name, value in sampling.items() if value is not None},
        )
        most = _MOST_ANSWER_BYTES + _MOST_BYTES_A_TOKEN * max_tokens + _MOST_BYTES_A_PROMPT_BYTE * _size_bytes(messages)
        async with request as response:
            try:
                return await read_bounded(response.iter_bytes(), most)
            except TooLargeError:
                raise RequestError(failures.TOO_LARGE, f"more than {most:,} bytes") from None
            except httpx.HTTPError as error:
                raise failures.from_transport(error) from None

    def _parse(self, data: bytes, messages: list[Message], max_tokens: int) -> Answer:
        try:
            completion = answers.read(data, answers.Completion)
        except NotJsonError as error:
            raise RequestError(failures.NOT_JSON, str(error)) from None
        except AnswerError as error:
            raise RequestError(failures.STRANGE, str(error)) from None
        if not completion.choices:
            raise RequestError(failures.NO_CHOICES, failures.shown(data[:200].decode(errors="replace")))
        if completion.model is not None and completion.model != self._model:
            raise RequestError(failures.OTHER_MODEL, f"{failures.shown(completion.model)!r}, asked for {self._model!r}")
        choice = completion.choices[0]
        prompt_ids, response_ids = completion.prompt_token_ids, choice.token_ids
        if prompt_ids is None or response_ids is None:
            raise RequestError(failures.NO_IDS, f"{'prompt_token_ids' if prompt_ids is None else 'choices[0].token_ids'} is lacking")
        if choice.finish_reason is None:
            raise RequestError(failures.UNFINISHED, "finish_reason is null")
        if choice.finish_reason in ("abort", "error"):
            raise RequestError(failures.ABORTED, f"finish_reason is {choice.finish_reason}, after {len(response_ids)} tokens")
        if not prompt_ids or not response_ids:
            raise RequestError(failures.EMPTY, f"{len(prompt_ids)} prompt tokens, {len(response_ids)} response tokens")
        for part, ids in (("prompt", prompt_ids), ("response", response_ids)):
            if min(ids) < 0 or max(ids) >= self._vocab_size:
                at = next(at for at, token in enumerate(ids) if not 0 <= token < self._vocab_size)
                wrong = failures.shown(str(ids[at]) if abs(ids[at]) < 1 << 64 else "a number of more than 64 bits")
                raise RequestError(failures.OUTSIDE, f"{wrong} at position {at} of the {part}; the vocabulary has {self._vocab_size}")
        most_prompt = _PROMPT_TOKENS + _PROMPT_TOKENS_A_BYTE * _size_bytes(messages)
        for part, ids, most in (("prompt", prompt_ids, most_prompt), ("response", response_ids, max_tokens)):
            if len(ids) > most:
                raise RequestError(failures.TOO_MANY, f"{len(ids):,} of the {part}, {most:,} at most were to be expected")
        message = choice.message
        if message is None:
            raise RequestError(failures.STRANGE, "choices[0].message is lacking")
        reasoning = message.reasoning if message.reasoning is not None else message.reasoning_content
        if self._settings.require_reasoning and not (reasoning or "").strip():
            raise RequestError(failures.NO_REASONING, f"{len(response_ids)} tokens, finish_reason {choice.finish_reason}")
        return Answer(prompt_ids, response_ids, reasoning or None, message.content, choice.finish_reason)


def _size_bytes(messages: list[Message]) -> int:
    return sum(len(turn["content"].encode()) for turn in messages)


async def _only_good(response: Any) -> None:
    """Whatever is no answer becomes an error here, before the openai package reads all of it. Raises RequestError."""
    if response.status_code != 200:
        data = bytearray()
        async for part in response.aiter_raw():
            data += part
            if len(data) > _MOST_ERROR_BYTES:
                break
        raise failures.from_status(response.status_code, response.headers, bytes(data[:_MOST_ERROR_BYTES]))
    try:
        refuse_compressed(response.headers)
    except ValueError as error:
        raise RequestError(failures.STRANGE, str(error)) from None


_KEEP_ALIVE = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
"""So that a peer that vanished is noticed while an answer of an hour is awaited: after about 2.5 minutes where the times can be set."""
for _name, _value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 6)):
    if hasattr(socket, _name):
        _KEEP_ALIVE.append((socket.IPPROTO_TCP, getattr(socket, _name), _value))


def _allow_files(concurrency: int) -> None:
    """Each request needs a descriptor; many systems start with 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = concurrency + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
