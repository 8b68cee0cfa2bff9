"""Waiting for a call that blocks, while a signal or the server's end can still cut the wait short."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from pipeline.errors import StageError

T = TypeVar("T")
LOOK_S = 0.1


def patiently(call: Callable[[], T], look: Callable[[], None]) -> T:
    """The result of ``call``, made in a thread. ``look`` is called every tenth of a second; what it raises ends the wait at once."""
    ended = threading.Event()
    outcome: dict[str, Any] = {}

    def work() -> None:
        try:
            outcome["result"] = call()
        except BaseException as error:
            outcome["error"] = error
        finally:
            ended.set()

    try:
        threading.Thread(target=work, name="ask-server", daemon=True).start()
    except RuntimeError as error:
        raise StageError(f"no thread can be started: {error}; look at the host's limit on processes") from None
    while not ended.wait(LOOK_S):
        look()
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]
