"""Questions to the server over HTTP: is it well, which models has it, one token, its metrics. Any OpenAI-compatible server can answer."""

import time
from typing import Any, NamedTuple

from pipeline.serving import answers, metrics
from pipeline.serving.answers import AnswerError
from pipeline.serving.exchange import Exchange, NotNowError, Reply

HEALTH_TIMEOUT_S = 10.0
METRICS_TIMEOUT_S = 5.0
_MOST_BYTES = 8 << 20
"""Of an answer."""
_TOKEN_CHARACTERS = 200
_PASSING = (408, 425, 429)
"""Client errors that say "later"; 5xx do too."""

__all__ = ["Api", "NotNowError", "RefusedError", "Token"]


class RefusedError(Exception):
    """It answered that this will never work. The message is its own."""


class Token(NamedTuple):
    """The answer to a one-token request."""

    text: str
    token_id: int | None
    """None: the server gives no token ids."""
    model: str | None


class Api:
    """One server. Calls block, each with a deadline over all of it and a bound on what is read."""

    def __init__(self, base_url: str, key: str | None):
        """Raises UserError for a key that no header can hold, StageError."""
        self.base_url = base_url
        self._exchange = Exchange(base_url, key)
        self._health = "/health"

    def close(self) -> None:
        """What is still asked in another thread ends with NotNowError."""
        self._exchange.close()

    def health(self) -> float:
        """Milliseconds that it took to say that it is well. Raises NotNowError."""
        began = time.monotonic()
        reply = self._get(self._health, HEALTH_TIMEOUT_S)
        if reply.status in (404, 405) and self._health == "/health":
            self._health = "/v1/models"
            reply = self._get(self._health, HEALTH_TIMEOUT_S)
        if reply.status != 200:
            raise NotNowError(f"{self._health} answers {reply.status}")
        return (time.monotonic() - began) * 1000

    def models(self) -> list[answers.Model]:
        """What it serves. Raises NotNowError, RefusedError."""
        path = "/v1/models"
        reply = self._get(path, HEALTH_TIMEOUT_S)
        self._check(reply, path)
        try:
            return answers.read(reply.data, answers.Models).data
        except AnswerError as error:
            raise RefusedError(f"{path} answers no list of models; is it an OpenAI-compatible server? {error}") from None

    def one_token(self, model: str, timeout_s: float) -> Token:
        """Ask for one token. Raises NotNowError, RefusedError."""
        path = "/v1/chat/completions"
        deadline = time.monotonic() + timeout_s
        body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1, "temperature": 0}
        reply = self._exchange.ask("POST", path, timeout_s, _MOST_BYTES, {**body, "return_token_ids": True})
        if reply.status in (400, 422):  # return_token_ids is vLLM's own; a strict server refuses it
            reply = self._exchange.ask("POST", path, max(1.0, deadline - time.monotonic()), _MOST_BYTES, body)
        self._check(reply, path)
        try:
            return _token(answers.read(reply.data, answers.Completion))
        except AnswerError as error:
            raise RefusedError(f"{path} answers no completion: {error}") from None
        except ValueError:
            raise RefusedError(f"{path} answers without a token: {answers.error_text(reply.data)}") from None

    def metrics(self) -> metrics.Reading | None:
        """None where it has no /metrics. Raises NotNowError."""
        reply = self._get("/metrics", METRICS_TIMEOUT_S)
        if reply.status == 404:
            return None
        if reply.status != 200:
            raise NotNowError(f"/metrics answers {reply.status}")
        return metrics.read(reply.data.decode(errors="replace"))

    def _get(self, path: str, timeout_s: float) -> Reply:
        return self._exchange.ask("GET", path, timeout_s, _MOST_BYTES)

    @staticmethod
    def _check(reply: Reply, path: str) -> None:
        code = reply.status
        if code in _PASSING or code >= 500:
            raise NotNowError(f"{path} answers {code}: {answers.error_text(reply.data)}")
        if code != 200:
            hint = "; give the key as VLLM_API_KEY, in the environment or in serve.env of the settings file" if code in (401, 403) else ""
            raise RefusedError(f"{path} answers {code}: {answers.error_text(reply.data)}{hint}")


def _token(completion: answers.Completion) -> Token:
    """Raises ValueError for an answer without a token."""
    choice = next(iter(completion.choices), answers.Choice())
    message: Any = choice.message or answers.Message()
    ids, count = choice.token_ids or [], completion.usage.completion_tokens if completion.usage else None
    text = "".join(filter(None, (message.reasoning, message.reasoning_content, message.content)))
    if not (ids or text or count):
        raise ValueError
    known = bool(ids) and 0 <= ids[0] < 1 << 31
    return Token(text[:_TOKEN_CHARACTERS], ids[0] if known else None, completion.model)
