"""One HTTP exchange with the server, bounded in its whole time and in the size of its answer, whatever the server does.

httpx's own timeouts are for a single read, which a server renews with every byte; so each exchange runs in an event loop of its own
thread, where it can be cut off wherever it stands: in a name look-up, in headers that never end, in the body.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from pipeline.errors import StageError, UserError
from pipeline.serving.answers import shown

_SPARE_S = 2.0
"""For a loop that is too busy to keep its own deadline."""
_CLOSE_S = 1.0
PLAIN = {"Accept-Encoding": "identity"}
"""A compressed answer could be a thousand times as large as what was read of it."""


class NotNowError(Exception):
    """It did not answer, or not well; it may later. The message says how."""


class TooLargeError(Exception):
    """The answer goes on beyond the bound."""


class Reply(NamedTuple):
    """A whole answer."""

    status: int
    data: bytes


class Exchange:
    """Requests to one server, from any thread. Redirects are answers like others: nothing is asked of anybody else."""

    def __init__(self, base_url: str, key: str | None):
        """Raises UserError for a key that no header can hold, StageError where no thread can be started."""
        import httpx

        self._base_url = base_url
        self._closed = False
        headers = {**PLAIN, **({"Authorization": f"Bearer {key}"} if key else {})}
        try:
            # A proxy of the environment is for other machines; this one is ours.
            self._client = httpx.AsyncClient(trust_env=False, headers=headers, timeout=None, follow_redirects=False)
        except UnicodeError:
            raise UserError("the server's key holds a character that no HTTP header can hold; look at VLLM_API_KEY") from None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="exchanges", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._loop.close()
            raise StageError(f"no thread can be started: {error}; look at the host's limit on processes") from None

    def ask(self, method: str, path: str, timeout_s: float, most_bytes: int, body: dict[str, Any] | None = None) -> Reply:
        """The whole answer, within ``timeout_s`` from the call to its last byte. Raises NotNowError."""
        import httpx

        if self._closed:
            raise NotNowError("no more is asked of it")
        future = asyncio.run_coroutine_threadsafe(self._ask(method, path, timeout_s, most_bytes, body), self._loop)
        try:
            return future.result(timeout_s + _SPARE_S)
        except TimeoutError:
            future.cancel()
            raise NotNowError(f"{path}: no whole answer within {timeout_s:.0f} s") from None
        except concurrent.futures.CancelledError:
            raise NotNowError("no more is asked of it") from None
        except TooLargeError:
            raise NotNowError(f"{path}: the answer is longer than {most_bytes:,} bytes") from None
        except httpx.ConnectError:
            raise NotNowError("connection refused") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise NotNowError(f"{path}: {shown(str(error) or type(error).__name__)}") from None

    def close(self) -> None:
        """Cut off what is still on its way."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_CLOSE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_S)
        if not self._thread.is_alive():
            self._loop.close()

    async def _ask(self, method: str, path: str, timeout_s: float, most_bytes: int, body: dict[str, Any] | None) -> Reply:
        async with asyncio.timeout(timeout_s), self._client.stream(method, self._base_url + path, json=body) as response:
            refuse_compressed(response.headers)
            return Reply(response.status_code, await read_bounded(response.aiter_raw(), most_bytes))

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.aclose()


def refuse_compressed(headers: Any) -> None:
    """Raise ValueError for a body that is not as it was asked for."""
    coding = str(headers.get("content-encoding", "")).strip().lower()
    if coding not in ("", "identity"):
        raise ValueError(f"the answer is compressed ({coding[:20]}), which was not asked for")


async def read_bounded(parts: AsyncIterator[bytes], most_bytes: int) -> bytes:
    """A body. Raises TooLargeError as soon as it is longer."""
    data = bytearray()
    async for part in parts:
        data += part
        if len(data) > most_bytes:
            raise TooLargeError
    return bytes(data)
