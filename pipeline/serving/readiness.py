"""Whether the server is ready, shown by what it does: it says that it is well, and it gives one token under the right name."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from pipeline.errors import StageError
from pipeline.serving.answers import shown
from pipeline.serving.api import Api, NotNowError, RefusedError, Token
from pipeline.serving.patience import LOOK_S, patiently

ASK_EVERY_S = 0.5
PROOF_S = 300.0
"""A server that says that it is well has so long to give a token: the first one may be compiled for."""


class Ready(NamedTuple):
    """The proof."""

    seconds: float
    token: Token

    def told(self) -> dict[str, Any]:
        """As the receipt has it."""
        return {
            "load_s": round(self.seconds, 3),
            "model": self.token.model,
            "first_token": self.token.text,
            "first_token_id": self.token.token_id,
            "gives_token_ids": self.token.token_id is not None,
        }


def await_ready(api: Api, model: str, timeout_s: float, look: Callable[[], None], say: Callable[[str], None]) -> Ready:
    """Wait until the server is ready, ``timeout_s`` at most. ``look`` raises what ends the wait: a stop, the server's end.

    Raises StageError.
    """
    began = time.monotonic()
    deadline = began + timeout_s
    last = _until_well(api, deadline, look)
    if last is not None:
        raise StageError(f"the server did not get ready within serve.ready_timeout_s ({timeout_s:.0f} s): {last}; see the log")
    say("it says that it is well; asking it for one token")
    token = _prove(api, model, min(deadline, time.monotonic() + PROOF_S), look, say)
    return Ready(time.monotonic() - began, token)


def _prove(api: Api, model: str, deadline: float, look: Callable[[], None], say: Callable[[str], None]) -> Token:
    """One token, asked for until the deadline."""
    while True:
        try:
            return _ask(api, model, max(1.0, deadline - time.monotonic()), look)
        except NotNowError as error:
            if time.monotonic() >= deadline:
                raise StageError(f"the server says that it is well, but gave no token: {error}") from None
            say(f"no token yet: {error}")
        except RefusedError as error:
            raise StageError(f"the server says that it is well, but refused to give a token: {error}") from None
        _pause(ASK_EVERY_S * 4, look)


def _ask(api: Api, model: str, timeout_s: float, look: Callable[[], None]) -> Token:
    names = [one.id for one in patiently(api.models, look)]
    if model not in names:
        there = ", ".join(repr(shown(name)) for name in names[:5]) or "none"
        raise StageError(f"the server has the models {there}, not {model!r}; look at serve.served_model_name")
    token = patiently(lambda: api.one_token(model, timeout_s), look)
    if token.model != model:
        raise StageError(f"asked for {model!r}, the server answered as {token.model and shown(token.model)!r}")
    return token


def _until_well(api: Api, deadline: float, look: Callable[[], None]) -> str | None:
    """None once it is well; else the last that was heard of it when the time is over."""
    while True:
        try:
            patiently(api.health, look)
            return None
        except NotNowError as error:
            if time.monotonic() >= deadline:
                return str(error)
        _pause(ASK_EVERY_S, look)


def _pause(seconds: float, look: Callable[[], None]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        look()
        time.sleep(min(LOOK_S, seconds))
