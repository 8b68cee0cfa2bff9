"""Questions to the server over HTTP: is it well, which models has it, one token, its metrics. Any OpenAI-compatible server can answer."""

import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.serving import metrics
from pipeline.visible import visible

if TYPE_CHECKING:  # imported when it is used, so that an interpreter without it is told so in one line
    import httpx

HEALTH_TIMEOUT_S = 10.0
_MOST_METRICS_BYTES = 16 << 20
_SHOWN = 300
_PASSING = (408, 425, 429)
"""Client errors that say "later"; 5xx do too."""


class NotNowError(Exception):
    """It did not answer, or not well; it may later. The message says how."""


class RefusedError(Exception):
    """It answered that this will never work. The message is its own."""


class Token(NamedTuple):
    """The answer to a one-token request."""

    text: str
    token_id: int | None
    """None: the server gives no token ids."""
    model: str | None


class Api:
    """One server. Calls block, each with a deadline."""

    def __init__(self, base_url: str, key: str | None):
        self.base_url = base_url
        import httpx

        # A proxy of the environment is for other machines; this one is ours.
        self._client = httpx.Client(trust_env=False, headers={"Authorization": f"Bearer {key}"} if key else {})
        self._health = "/health"

    def close(self) -> None:
        self._client.close()

    def health(self) -> float:
        """Milliseconds that it took to say that it is well. Raises NotNowError."""
        began = time.monotonic()
        reply = self._get(self._health)
        if reply.status_code in (404, 405) and self._health == "/health":
            self._health = "/v1/models"
            reply = self._get(self._health)
        if reply.status_code != 200:
            raise NotNowError(f"{self._health} answers {reply.status_code}")
        return (time.monotonic() - began) * 1000

    def models(self) -> list[str]:
        """Names that it serves. Raises NotNowError, RefusedError."""
        reply = self._get("/v1/models")
        self._check(reply, "/v1/models")
        try:
            return [str(one["id"]) for one in reply.json()["data"]]
        except (ValueError, KeyError, TypeError):
            raise RefusedError("/v1/models answers no list of models; is it an OpenAI-compatible server?") from None

    def one_token(self, model: str, timeout_s: float) -> Token:
        """Ask for one token. Raises NotNowError, RefusedError."""
        path = "/v1/chat/completions"
        body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1, "temperature": 0}
        reply = self._request("POST", path, timeout_s, {**body, "return_token_ids": True})
        if reply.status_code in (400, 422):
            reply = self._request("POST", path, timeout_s, body)  # vLLM's own field; a strict server refuses it
        self._check(reply, path)
        try:
            answer = reply.json()
            choice = answer["choices"][0]
            message = choice.get("message") or {}
            usage = answer.get("usage") or {}
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            raise RefusedError(f"{path} answers no completion: {_shown(reply.text)}") from None
        ids = choice.get("token_ids") or []
        text = "".join(one for one in (message.get(key) for key in ("reasoning", "reasoning_content", "content")) if isinstance(one, str))
        if not (ids or text or usage.get("completion_tokens")):
            raise RefusedError(f"{path} answers without a token: {_shown(reply.text)}")
        return Token(text, ids[0] if ids and isinstance(ids[0], int) else None, answer.get("model"))

    def metrics(self) -> metrics.Reading | None:
        """None where it has no /metrics. Raises NotNowError."""
        reply = self._get("/metrics")
        if reply.status_code == 404:
            return None
        if reply.status_code != 200:
            raise NotNowError(f"/metrics answers {reply.status_code}")
        return metrics.read(reply.text[:_MOST_METRICS_BYTES])

    def _get(self, path: str) -> "httpx.Response":
        return self._request("GET", path, HEALTH_TIMEOUT_S, None)

    def _request(self, method: str, path: str, timeout_s: float, body: dict[str, Any] | None) -> "httpx.Response":
        import httpx

        try:
            return self._client.request(method, self.base_url + path, json=body, timeout=timeout_s)
        except httpx.TimeoutException:
            raise NotNowError(f"{path}: no answer within {timeout_s:.0f} s") from None
        except httpx.ConnectError:
            raise NotNowError("connection refused") from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise NotNowError(f"{path}: {_shown(str(error) or type(error).__name__)}") from None

    @staticmethod
    def _check(reply: "httpx.Response", path: str) -> None:
        code = reply.status_code
        if code in _PASSING or code >= 500:
            raise NotNowError(f"{path} answers {code}: {_shown(_message(reply))}")
        if code != 200:
            hint = "; give the key as serve.env.VLLM_API_KEY" if code in (401, 403) else ""
            raise RefusedError(f"{path} answers {code}: {_shown(_message(reply))}{hint}")


def _message(reply: "httpx.Response") -> str:
    """The text of OpenAI's error object, or whatever came."""
    try:
        value = json.loads(reply.text)
        error = value.get("error", value)
        return str(error.get("message") or error) if isinstance(error, dict) else str(error)
    except (ValueError, AttributeError):
        return reply.text


def _shown(text: str) -> str:
    return visible(" ".join(text.split()))[:_SHOWN]
