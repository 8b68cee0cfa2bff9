"""Waiting for a call that blocks, while a signal or the server's end can still cut the wait short."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from pipeline.errors import StageError

T = TypeVar("T")
LOOK_S = 0.1


def patiently(call: Callable[[], T], look: Callable[[], None]) -> T:
    """The result of ``call``, made in a thread. ``look`` is called every tenth of a second; what it raises ends the wait at once."""
    ended = threading.Event()
    outcome = _start(call, ended.set)
    while not ended.wait(LOOK_S):
        look()
    return _result(outcome)


async def awaited(call: Callable[[], T]) -> T:
    """The same in an event loop: cancelling ends the wait at once. (``asyncio.to_thread`` would hold up the loop's end.)"""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        with contextlib.suppress(RuntimeError):  # nobody waits any more, and the loop is closed
            loop.call_soon_threadsafe(ended.set)

    outcome = _start(call, tell)
    await ended.wait()
    return _result(outcome)


def _start(call: Callable[[], Any], ended: Callable[[], None]) -> dict[str, Any]:
    outcome: dict[str, Any] = {}

    def work() -> None:
        try:
            outcome["result"] = call()
        except BaseException as error:
            outcome["error"] = error
        finally:
            ended()

    try:
        threading.Thread(target=work, name="ask-server", daemon=True).start()
    except RuntimeError as error:
        raise StageError(f"no thread can be started: {error}; look at the host's limit on processes") from None
    return outcome


def _result(outcome: dict[str, Any]) -> Any:
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]
