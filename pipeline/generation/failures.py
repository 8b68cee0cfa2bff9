"""Errors of a request, by kind: what is worth another try, whose fault it is, and what the operator is told."""

import email.utils
import re
import time
from typing import Any, NamedTuple

from pipeline.redaction import without_secrets
from pipeline.serving.answers import error_text, shown

ALL, ONCE, NEVER = "all", "once", "never"
"""Further tries: up to generate.max_retries, one, none."""
_MOST_RETRY_AFTER_S = 300.0
_TOO_LONG = re.compile(r"too long|context length|max_model_len|maximum.{0,20}length|longer than|exceed", re.IGNORECASE)


class Kind(NamedTuple):
    """One kind of failure."""

    name: str
    retries: str
    server: bool
    """Speaks against the server, not the prompt: so many in a row end the stage, and a prompt is not listed for it while no other one
    has been answered since."""
    ask_health: bool = False
    """The server may be gone: look before the prompt's tries are spent."""
    hint: str = "look at the server's log"


REFUSED = Kind("connection refused", ALL, True, True, "is the serve stage up?")
CLOSED = Kind("connection closed before the whole answer", ALL, True, True)
TIMED_OUT = Kind("timed out", ALL, True, True, "generate.request_timeout_s may be too short for the longest answers")
BUSY = Kind("server busy", ALL, True, False, "lower generate.concurrency")
SERVER_ERROR = Kind("server error", ALL, True, True)
ABORTED = Kind("aborted by the server", ALL, True, True)
DENIED = Kind("access denied", NEVER, True, False, "set VLLM_API_KEY to the server's key")
NOT_FOUND = Kind("not found", NEVER, True, False, "does the server still have this model?")
REDIRECTED = Kind("redirected elsewhere", NEVER, True, False, "set generate.endpoint to where the server answers itself")
TOO_LONG = Kind("too long", NEVER, False)
REJECTED = Kind("rejected by the server", NEVER, False)
NOT_JSON = Kind("answer is no JSON", ONCE, True)
NO_CHOICES = Kind("answer without choices", ONCE, True)
STRANGE = Kind("answer is no chat completion", ONCE, True)
UNFINISHED = Kind("answer without a finish reason", ONCE, True)
TOO_LARGE = Kind("answer is too large", ONCE, True)
NO_IDS = Kind("answer without token ids", ONCE, True, False, "token ids need vLLM 0.10.2 or later (return_token_ids)")
EMPTY = Kind("answer without tokens", ONCE, True)
OUTSIDE = Kind("token ids outside the vocabulary", ONCE, True, False, "is it the model of model.path that is served?")
TOO_MANY = Kind("more tokens than asked for", ONCE, True)
OTHER_MODEL = Kind("answered by another model", ONCE, True, False, "set generate.model to the name that the server answers by")
NO_REASONING = Kind(
    "answer without reasoning",
    ONCE,
    True,
    False,
    "start the server with its reasoning parser (serve.reasoning_parser), or set generate.require_reasoning = false",
)


class RequestError(Exception):
    """One request failed."""

    def __init__(self, kind: Kind, detail: str, retry_after_s: float | None = None):
        super().__init__(f"{kind.name}: {detail}")
        self.kind = kind
        self.detail = detail
        self.retry_after_s = retry_after_s


def from_openai(error: Exception, timeout_s: float) -> RequestError | None:
    """What an exception of the openai client means; None when it is none of its."""
    import openai

    if isinstance(error, (openai.APITimeoutError, TimeoutError)):
        return RequestError(TIMED_OUT, f"no whole answer within {timeout_s:g} s")
    if isinstance(error, openai.APIConnectionError):
        return from_transport(error.__cause__ or error)
    return RequestError(STRANGE, shown(str(error))) if isinstance(error, openai.OpenAIError) else None


def from_transport(error: BaseException) -> RequestError:
    """What an exception of the HTTP library means."""
    name = type(error).__name__  # by name: the openai package has moved from httpx to httpx2
    if name == "ConnectError":
        return RequestError(REFUSED, shown(str(error) or name))
    if "Timeout" in name:
        return RequestError(TIMED_OUT, shown(str(error) or name))
    return RequestError(CLOSED, shown(str(error) or name))


def from_status(code: int, headers: Any, data: bytes) -> RequestError:
    """What an answer that is none means."""
    text = error_text(data)
    detail = f"HTTP {code}: {text}" if text else f"HTTP {code}"
    if code in (429, 503):
        return RequestError(SERVER_ERROR if code == 503 else BUSY, detail, _retry_after_s(headers.get("retry-after")))
    if code >= 500 or code in (408, 409, 425):
        return RequestError(SERVER_ERROR, detail)
    if code in (401, 403):
        return RequestError(DENIED, detail)
    if 300 <= code < 400:
        return RequestError(REDIRECTED, f"HTTP {code} to {shown(without_secrets(headers.get('location', 'nowhere')))}")
    if code < 300:
        return RequestError(STRANGE, detail)
    if code in (404, 405):
        return RequestError(NOT_FOUND, detail)
    if code == 413 or _TOO_LONG.search(text):
        return RequestError(TOO_LONG, detail)
    return RequestError(REJECTED, detail)


def _retry_after_s(value: str | None) -> float | None:
    """Seconds, or a date; bounded, because a server may say anything."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError):
            return None
    return min(max(seconds, 0.0), _MOST_RETRY_AFTER_S) if seconds == seconds else None
