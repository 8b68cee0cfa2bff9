"""The verifier's server, found and proven before the first prompt is asked: it answers, it has the model, it gives token ids."""

import asyncio
from collections.abc import Callable

import msgspec

from pipeline.errors import StageError, UserError
from pipeline.generation import failures
from pipeline.generation.client import Client
from pipeline.generation.failures import RequestError
from pipeline.generation.records import Answer
from pipeline.generation.tokens import Tokens
from pipeline.log import say
from pipeline.schema import Settings
from pipeline.serving import command
from pipeline.serving.api import Api, NotNowError, RefusedError
from pipeline.serving.patience import patiently

PROBE = ({"role": "user", "content": "Hello"},)
PROBE_S = 300.0
"""A server that is asked for the first time may compile before it answers."""
_USERS = (
    failures.NO_IDS,
    failures.DENIED,
    failures.NOT_FOUND,
    failures.REDIRECTED,
    failures.OTHER_MODEL,
    failures.REJECTED,
    failures.TOO_LONG,
    failures.OUTSIDE,
    failures.REFUSED,
)
_SHOWN_MODELS = 5


class Server:
    """Where and as what the verifier is asked."""

    def __init__(self, settings: Settings, vocab_size: int):
        """Raises UserError for a key that no header can hold."""
        self.endpoint = (settings.generate.endpoint or command.base_url(settings.serve) + "/v1").rstrip("/")
        self.key = command.api_key(settings.serve)
        self.api = Api(self.endpoint.removesuffix("/v1"), self.key)
        self.model = ""
        # One token has no reasoning, and need not wait as long as a whole answer.
        timeout_s = min(PROBE_S, settings.generate.request_timeout_s)
        self._probing = msgspec.structs.replace(settings.generate, require_reasoning=False, request_timeout_s=timeout_s, concurrency=1)
        self._vocab_size = vocab_size

    async def one_token(self) -> Answer:
        """Raises RequestError."""
        client = Client(self.endpoint, self.key, self.model, self._probing, self._vocab_size)
        try:
            return await client.ask(list(PROBE), seed=0, greedy=True, max_tokens=1)
        finally:
            await client.close()

    def close(self) -> None:
        self.api.close()


def find_server(settings: Settings, tokens: Tokens, vocab_size: int, look: Callable[[], None]) -> Server:
    """``look`` raises what ends the wait. Raises UserError: no server, not this model, no token ids; StageError for one that is broken."""
    server, proven = Server(settings, vocab_size), False
    try:
        patiently(server.api.health, look)
        listed = patiently(server.api.models, look)
        server.model = _choose_model(settings, [one.id for one in listed])
        _check_room(settings, next(one.max_model_len for one in listed if one.id == server.model))
        answer = patiently(lambda: asyncio.run(server.one_token()), look)
        _compare(answer, tokens)
        proven = True
    except NotNowError as error:
        raise UserError(f"no server at {server.endpoint}: {error}; start serve and wait until it is up, or set generate.endpoint") from None
    except RefusedError as error:
        raise UserError(f"the server at {server.endpoint} refused: {error}") from None
    except RequestError as error:
        kind = UserError if error.kind in _USERS else StageError
        raise kind(
            f"the server at {server.endpoint} has {server.model!r}, but one token was not to be had: {error}; {error.kind.hint}"
        ) from None
    finally:
        if not proven:
            server.close()
    say(f"asking {server.model} at {server.endpoint}; it gives token ids")
    return server


def _choose_model(settings: Settings, there: list[str]) -> str:
    wanted = settings.generate.model
    shown = ", ".join(repr(failures.shown(name)) for name in there[:_SHOWN_MODELS]) or "none"
    if wanted is not None:
        if wanted not in there:
            raise UserError(f"generate.model: the server has no model {wanted!r}; it has {shown}")
        return wanted
    named = command.served_name(settings)
    if named in there:
        return named
    if len(there) == 1:
        say(f"note: the server calls its model {failures.shown(there[0])!r}, not {named!r}; it is the only one")
        return there[0]
    raise UserError(f"the server has no model {named!r}; it has {shown}; set generate.model to one of them")


def _check_room(settings: Settings, room: int | None) -> None:
    """``room``: tokens of prompt and answer together, at most; None where the server does not say, as vLLM does.

    vLLM refuses a prompt that, with all the answer it may get, would not fit.
    """
    wanted = settings.generate.max_response_tokens
    if room is not None and 0 < room <= wanted:
        raise UserError(
            f"generate.max_response_tokens is {wanted:,}, and the server takes {room:,} tokens of prompt and answer together: it would "
            "refuse every prompt; lower it, or raise serve.max_model_len_tokens"
        )


def _compare(answer: Answer, tokens: Tokens) -> None:
    """Say where the server's template leaves ours: then every sample will be marked."""
    try:
        mismatch = tokens.compare_prompt(list(PROBE), answer.prompt_token_ids)
    except Exception as error:  # a template may refuse a conversation with an error of its own making
        say(f"note: the chat template of model.path cannot render a prompt: {failures.shown(str(error))}; samples are not compared with it")
        return
    if mismatch is not None:
        say(
            "note: the server's prompt ids are not what the chat template of model.path gives: at position "
            f"{mismatch.position} of the probe {mismatch.server_id} there, {mismatch.template_id} here; every sample will be marked. "
            "Has the server another template, or other arguments?"
        )
