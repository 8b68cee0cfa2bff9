"""Ask every prompt once: so many requests at a time, tries by the kind of error, answers checked and written as they come."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pipeline.attempt import Attempt
from pipeline.errors import StageError
from pipeline.generation import failures
from pipeline.generation.choice import HOLDOUT, Ask, Chosen
from pipeline.generation.client import Client
from pipeline.generation.failures import RequestError
from pipeline.generation.meter import Meter
from pipeline.generation.prompts import Message, beginning
from pipeline.generation.records import Answer, AppendFile, Failure, Record
from pipeline.generation.tokens import Tokens
from pipeline.generation.watch import Watch
from pipeline.schema import Generate

BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 60.0
"""Before the second try, and at most; doubled from try to try, and up to as much as the first one more by chance."""
SYNC_EVERY_S = 1.0
SYNC_EVERY_RECORDS = 64
STOP_LOOK_S = 0.2


class Files:
    """Where answers and failures go. Used by one thread at a time."""

    def __init__(self, train: AppendFile, holdout: AppendFile, failed: AppendFile):
        self.train, self.holdout, self.failed = train, holdout, failed

    def add(self, record: Record) -> None:
        file = self.holdout if record.split == HOLDOUT else self.train
        if file.append(record) >= SYNC_EVERY_RECORDS:
            file.sync()

    def sync(self) -> None:
        for file in (self.train, self.holdout, self.failed):
            file.sync()

    def close(self) -> None:
        for file in (self.train, self.holdout, self.failed):
            file.close()


class Asking:
    """One attempt's requests."""

    def __init__(
        self,
        attempt: Attempt,
        settings: Generate,
        model: str,
        chosen: Chosen,
        client: Client,
        tokens: Tokens,
        watch: Watch,
        files: Files,
        meter: Meter,
    ):
        self._attempt, self._settings, self._model = attempt, settings, model
        self._chosen, self._client, self._tokens, self._watch = chosen, client, tokens, watch
        self._files, self._meter = files, meter
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="answers")  # tokenizers are not for two threads at once
        self._held_back: list[tuple[float, Failure]] = []
        """(when, failure) of those that speak against the server, until a prompt that was asked later is answered."""

    async def run(self, asks: list[Ask]) -> None:
        """Answer these, or list them as failed. Raises StageError, Interrupted; what is answered is written even so."""
        try:
            async with asyncio.TaskGroup() as group:
                around = [
                    group.create_task(one) for one in (self._until_stopped(), self._watch.await_return(), self._watch.guard(), self._tick())
                ]
                waiting = iter(asks)
                async with asyncio.TaskGroup() as workers:
                    for _ in range(min(self._settings.concurrency, len(asks))):
                        workers.create_task(self._work(waiting))
                for task in around:
                    task.cancel()
            await self._list_held_back(float("inf"))
        except BaseExceptionGroup as group:
            raise _first(group) from None
        finally:
            with self._thread:
                self._thread.submit(self._files.sync).result()

    async def _work(self, waiting: Iterator[Ask]) -> None:
        for ask in waiting:
            await self._one(ask, self._chosen.messages(ask))

    async def _one(self, ask: Ask, messages: list[Message]) -> None:
        began = time.monotonic()
        tries = _Tries()
        try:
            answer = await self._tried(ask, messages, tries)
        except RequestError as error:
            await self._give_up(ask, messages, error, tries.count)
            return
        record = await self._in_thread(self._write, ask, messages, answer, tries.again, time.monotonic() - began)
        self._watch.answered()
        self._meter.answered(record)
        if self._held_back:
            await self._list_held_back(tries.sent_s)

    async def _tried(self, ask: Ask, messages: list[Message], tries: "_Tries") -> Answer:
        import tenacity

        backoff = tenacity.wait_exponential(BACKOFF_S, max=LONGEST_BACKOFF_S) + tenacity.wait_random(0, BACKOFF_S)

        def wait(state: Any) -> float:
            error = state.outcome.exception()
            self._meter.retried(error.kind.name)
            return backoff(state) if error.retry_after_s is None else error.retry_after_s + backoff(state) / 2

        retrying = tenacity.AsyncRetrying(
            stop=lambda state: state.attempt_number > self._retries(state.outcome.exception() if state.outcome else None),
            wait=wait,
            retry=tenacity.retry_if_exception_type(RequestError),
            reraise=True,
        )
        return await retrying(self._try, ask, messages, tries)

    async def _try(self, ask: Ask, messages: list[Message], tries: "_Tries") -> Answer:
        """One try; one that was lost because the server went away is no try, up to as many times as there are tries."""
        greedy = self._chosen.split(ask.id) == HOLDOUT
        tries.count += 1
        while True:
            await self._watch.admit()
            self._watch.sent()
            tries.sent_s = time.monotonic()
            try:
                return await self._client.ask(messages, self._client.seed(ask.id, tries.again), greedy)
            except RequestError as error:
                if await self._watch.is_gone(error) and tries.outages < self._settings.max_retries + 1:
                    tries.outages += 1
                    continue
                if error.kind == failures.TIMED_OUT:
                    self._watch.failed(error)  # each cost a whole generate.request_timeout_s
                if error.kind == failures.NO_REASONING:
                    tries.again += 1  # the same seed would give the same answer
                raise
            finally:
                self._watch.returned()

    def _retries(self, error: Any) -> int:
        most = self._settings.max_retries
        kind = error.kind if isinstance(error, RequestError) else None
        return 0 if kind is None or kind.retries == failures.NEVER else min(1, most) if kind.retries == failures.ONCE else most

    async def _give_up(self, ask: Ask, messages: list[Message], error: RequestError, tries: int) -> None:
        failure = Failure(
            id=ask.id,
            reason=error.kind.name,
            detail=error.detail,
            tries=tries,
            wall_s=round(time.time(), 3),
            split=self._chosen.split(ask.id),
            permanent=not error.kind.server,
            prompt_sha256=ask.digest,
            messages=beginning(messages),
        )
        if error.kind.server:
            self._held_back.append((time.monotonic(), failure))
            if error.kind != failures.TIMED_OUT:  # those were counted as they came
                self._watch.failed(error)
        else:
            await self._in_thread(self._list, [failure])

    def _write(self, ask: Ask, messages: list[Message], answer: Answer, again: int, latency_s: float) -> Record:
        settings, split = self._settings, self._chosen.split(ask.id)
        verdict = self._tokens.judge(messages, answer)
        record = Record(
            id=ask.id,
            messages=messages,
            split=split,
            prompt_token_ids=answer.prompt_token_ids,
            response_token_ids=answer.response_token_ids,
            reasoning=self._tokens.within(answer.response_token_ids, answer.reasoning),
            content=self._tokens.within(answer.response_token_ids, answer.content),
            finish_reason=answer.finish_reason,
            **verdict._asdict(),
            temperature=0.0 if split == HOLDOUT else settings.temperature,
            seed=self._client.seed(ask.id, again),
            model=self._model,
            latency_s=round(latency_s, 3),
            wall_s=round(time.time(), 3),
            attempt=self._attempt.id,
        )
        self._files.add(record)
        return record

    async def _list_held_back(self, before_s: float) -> None:
        """Those that failed before a request was sent that was answered well: it was not the server."""
        listed = [failure for failed_s, failure in self._held_back if failed_s < before_s]
        self._held_back = [one for one in self._held_back if one[0] >= before_s]
        if listed:
            await self._in_thread(self._list, listed)

    def _list(self, listed: Iterable[Failure]) -> None:
        for failure in listed:
            self._files.failed.append(failure)
            self._meter.failed(failure)

    async def _in_thread(self, function: Any, *arguments: Any) -> Any:
        """Shielded: an answer that has come is written, even when the stage is stopped meanwhile."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments))

    async def _until_stopped(self) -> None:
        while True:
            self._attempt.raise_if_stopped()
            await asyncio.sleep(STOP_LOOK_S)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(SYNC_EVERY_S)
            self._meter.tell(self._watch)
            await self._in_thread(self._files.sync)


class _Tries:
    """Of one prompt."""

    def __init__(self) -> None:
        self.count = 0
        self.again = 0
        """Answers that were thrown away because another one is wanted."""
        self.outages = 0
        self.sent_s = 0.0
        """When the last try was sent."""


def _first(group: BaseExceptionGroup) -> BaseException:
    """Of what ended the tasks, the stage's own error where there is one."""
    leaves = list(_leaves(group))
    return next((leaf for leaf in leaves if isinstance(leaf, StageError)), leaves[0])


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
