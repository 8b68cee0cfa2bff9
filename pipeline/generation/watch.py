"""Whether the server is worth asking: pauses while it is gone, stops when it is broken or hangs, so that no prompt pays for it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pipeline.errors import StageError
from pipeline.generation import failures
from pipeline.generation.failures import RequestError
from pipeline.serving.api import Api, NotNowError
from pipeline.serving.patience import awaited

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
GUARD_EVERY_S = 10.0
QUIET_S = 60.0
"""Without an answer for so long, the server's own counter is asked."""
STUCK_S = 600.0
"""With requests on their way, but no token and no answer for so long, it hangs."""
UP = "up"


class Watch:
    """What is known of the server. Everything runs in one event loop; ``Api`` blocks, until its deadline at most, so threads ask it."""

    def __init__(
        self,
        api: Api,
        one_token: Callable[[], Awaitable[Any]],
        most_in_a_row: int,
        gone_at_most_s: float,
        say: Callable[[str], None],
    ):
        """``one_token`` proves that the server works, and raises RequestError. ``gone_at_most_s``: then the stage ends."""
        self._api, self._one_token = api, one_token
        self._most_in_a_row, self._gone_at_most_s = most_in_a_row, gone_at_most_s
        self._say = say
        self._changed = asyncio.Event()
        self._gone_since: float | None = None
        self._gone_why = ""
        self._in_a_row = 0
        self._looked_s = float("-inf")
        self._problem: str | None = None
        self._look_lock = asyncio.Lock()
        self._sign_s = time.monotonic()
        self._counter: float | None = None
        self.in_flight = 0
        self.state, self.well = UP, True
        """In words, and whether that is good."""

    async def admit(self) -> None:
        """Wait until the server can be asked."""
        while self._gone_since is not None:
            await self._changed.wait()

    def answered(self) -> None:
        """A prompt was answered."""
        self._in_a_row = 0
        self._sign()

    def sent(self) -> None:
        if self.in_flight == 0:
            self._sign()
        self.in_flight += 1

    def returned(self) -> None:
        self.in_flight -= 1

    async def is_gone(self, error: RequestError) -> bool:
        """Whether a failure is because the server is gone; from then on everybody waits."""
        if self._gone_since is None and error.kind.ask_health:
            problem = await self._health()
            if problem is not None and self._gone_since is None:
                self._gone_since, self._gone_why = time.monotonic(), problem
                self._changed.clear()
                self._tell_gone()
                self._say(f"the server is gone: {problem} (a request: {error}); waiting for it, {self._gone_at_most_s:.0f} s at most")
        return self._gone_since is not None

    def failed(self, error: RequestError) -> None:
        """A prompt was given up, or waited in vain for the whole request timeout. Raises StageError when that is too many in a row."""
        self._in_a_row += 1
        if self._in_a_row >= self._most_in_a_row:
            raise StageError(
                f"{self._in_a_row} failures in a row and no answer between them (generate.breaker_failures), the last: {error}; "
                f"{error.kind.hint}. What is answered is kept, and no prompt is listed as failed for this: mend it and start again"
            )

    async def await_return(self) -> None:
        """For ever: when the server is gone, look until it gives a token again. Raises StageError when it stays away."""
        pause_s = FIRST_PAUSE_S
        while True:
            await asyncio.sleep(pause_s)
            if self._gone_since is None:
                pause_s = FIRST_PAUSE_S
                continue
            problem = await self._health()
            if problem is None:
                try:
                    await self._one_token()
                except RequestError as error:
                    problem = str(error)
            gone_s = time.monotonic() - self._gone_since
            if problem is None:
                self._say(f"the server is back after {gone_s:.0f} s")
                self._gone_since = None
                self.state, self.well = UP, True
                self._sign()
                self._changed.set()
                continue
            self._gone_why = problem
            self._tell_gone()
            if gone_s > self._gone_at_most_s:
                raise StageError(
                    f"the server has been gone for {gone_s:.0f} s (serve.ready_timeout_s): {problem}. What is answered is kept, and no "
                    "prompt is listed as failed for this: start serve again, then this stage"
                )
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def guard(self) -> None:
        """For ever: notice a server that takes requests and does nothing. Raises StageError."""
        while True:
            await asyncio.sleep(GUARD_EVERY_S)
            quiet_s = time.monotonic() - self._sign_s
            if self._gone_since is not None or self.in_flight == 0 or quiet_s < QUIET_S:
                continue
            counter = await self._generated()
            if counter is not None and counter != self._counter:
                self._counter = counter
                self._sign()
                continue
            problem = await self._health()
            if problem is None and counter is None:
                self.state = f"up; no answer for {quiet_s:.0f} s, and it has no counter of tokens"  # generate.request_timeout_s will tell
                continue
            what = f"its counter of tokens stands at {counter:,.0f}" if counter is not None else "it does not say what it does"
            health = f"/health: {problem}" if problem else "/health answers"
            self.state, self.well = f"no token for {quiet_s:.0f} s: {what}; {health}", False
            if quiet_s > STUCK_S:
                raise StageError(
                    f"the server hangs: no answer and no token for {quiet_s:.0f} s with {self.in_flight} requests on their way; {what}; "
                    f"{health}. What is answered is kept: restart the server, then this stage"
                )

    def _sign(self) -> None:
        """It lives."""
        self._sign_s = time.monotonic()
        if self._gone_since is None:
            self.state, self.well = UP, True

    def _tell_gone(self) -> None:
        gone_s = time.monotonic() - (self._gone_since or time.monotonic())
        self.state, self.well = f"gone for {gone_s:.0f} s: {failures.shown(self._gone_why)}", False

    async def _health(self) -> str | None:
        """None when it says that it is well, else what is wrong. One look serves everybody who asked before it began."""
        asked_s = time.monotonic()
        async with self._look_lock:
            if self._looked_s < asked_s:
                self._looked_s = time.monotonic()
                try:
                    await awaited(self._api.health)
                    self._problem = None
                except NotNowError as error:
                    self._problem = str(error)
            return self._problem

    async def _generated(self) -> float | None:
        try:
            reading = await awaited(self._api.metrics)
        except NotNowError:
            return None
        return reading.generated if reading else None
