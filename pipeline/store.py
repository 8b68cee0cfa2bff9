"""Writes hidden states: a bounded buffer, writer threads, files published by rename.

A sample is saved in ``OUTPUT/.partial/``, made durable, and renamed to ``OUTPUT/hs_{i}.safetensors``; once the directory is durable
too, its ledger line is appended. One directory sync and one ledger write serve all samples that wait for them at that moment. So a
kill at any point leaves whole files only, and a file without a ledger line is simply made again.
"""

import errno
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from pipeline import hidden_states
from pipeline.contract.files import sync_directory
from pipeline.errors import StageError
from pipeline.ledger import Ledger
from pipeline.partial import PARTIAL, clean_up
from pipeline.sizes import size

_FULL = (errno.ENOSPC, errno.EDQUOT)
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


class Store:
    """Publishes samples of one output directory. ``put`` from one thread; close it in any case.

    Raises StageError when the directory cannot be written. ``on_published(index, published)`` is called from writer threads, once a
    sample is durable and in the ledger.
    """

    def __init__(
        self,
        directory: str,
        layer_ids: Sequence[int],
        planned_bytes: int,
        writer_threads: int = 4,
        buffer_bytes: int = 2 << 30,
        min_free_bytes: int = 0,
        on_published: Callable[[int, hidden_states.Published], None] = lambda index, published: None,
    ):
        self._directory = directory
        self._layer_ids = layer_ids
        self._left_bytes = planned_bytes
        self._buffer_bytes = buffer_bytes
        self._min_free_bytes = min_free_bytes
        self._on_published = on_published
        self._partial = os.path.join(directory, PARTIAL)
        clean_up(directory)
        try:
            self._ledger = Ledger(directory)
        except OSError as error:
            raise StageError(f"{error.filename or directory}: cannot be written: {error.strerror}") from None
        self._state = threading.Condition()
        self._queue: deque[tuple[int, Any, Any]] = deque()
        self._held_bytes = 0
        self._closing = False
        self._error: BaseException | None = None
        self._commit_lock = threading.Lock()
        self._commit_error: Exception | None = None
        self._renamed: list[tuple[int, hidden_states.Published]] = []
        self._threads: list[threading.Thread] = []
        self._start(writer_threads)

    def put(self, index: int, token_ids: Any, states: Any) -> None:
        """Hand over one sample: int64 [tokens] and contiguous bfloat16 [tokens, layers, hidden], both on the CPU and not changed later.

        Waits while the buffer is full. Raises StageError as soon as any writer has failed.
        """
        count = states.numel() * states.element_size() + token_ids.numel() * token_ids.element_size()
        with self._state:
            self._state.wait_for(lambda: self._error or not self._held_bytes or self._held_bytes + count <= self._buffer_bytes)
            self._raise()
            self._held_bytes += count
            self._queue.append((index, token_ids, states))
            self._state.notify_all()

    def flush(self) -> None:
        """Wait until all that was put is published. Raises StageError."""
        with self._state:
            self._state.wait_for(lambda: self._error or not self._held_bytes)
            self._raise()

    def close(self) -> None:
        """Publish what was put, unless a writer has failed, and end the threads. Raises nothing: ``flush`` tells of errors."""
        with self._state:
            if self._closing:
                return
            self._closing = True
            self._state.notify_all()
        for thread in self._threads:
            thread.join()
        self._ledger.close()

    def _start(self, count: int) -> None:
        """All writers, or none and StageError: a half-built store has nobody who would close it."""
        for number in range(count):
            thread = threading.Thread(target=self._work, name=f"writer-{number}")
            try:
                thread.start()
            except RuntimeError as error:  # the limit on processes, or no memory for another stack
                self.close()
                raise StageError(f"writer thread {number + 1} of {count} cannot start: {error}; lower extract.writer_threads") from None
            self._threads.append(thread)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._error or self._queue or self._closing)
                if self._error or not self._queue:
                    return
                index, token_ids, states = self._queue.popleft()
            count = states.numel() * states.element_size() + token_ids.numel() * token_ids.element_size()
            try:
                published = self._save(index, token_ids, states)
                self._commit(index, published)
                self._on_published(index, published)
            except BaseException as error:
                with self._state:
                    self._error = self._error or error
                    self._state.notify_all()
                return
            del token_ids, states
            with self._state:
                self._held_bytes -= count
                self._left_bytes -= published.file_bytes
                self._state.notify_all()

    def _save(self, index: int, token_ids: Any, states: Any) -> hidden_states.Published:
        statistics = hidden_states.statistics(hidden_states.as_bits(states))
        if statistics.problem is not None:
            layer, what = statistics.problem
            raise StageError(
                f"sample {index}: layer id {self._layer_ids[layer]} (vllm convention) {what}; not written. "
                "The model, or the engine's dtype, does not work for this sample"
            )
        name = hidden_states.file_name(index)
        temporary = os.path.join(self._partial, name)
        count = hidden_states.file_bytes(*states.shape)
        stat = os.statvfs(self._directory)
        free = stat.f_bavail * stat.f_frsize
        if free - count < self._min_free_bytes:
            raise self._full(index, "its file would leave less than is to be kept free")
        try:
            file_bytes, crc32 = hidden_states.save(temporary, token_ids, states)
            os.replace(temporary, os.path.join(self._directory, name))
        except Exception as error:
            with suppress(OSError):
                os.unlink(temporary)
            raise self._explain(index, error) from error
        return hidden_states.Published(len(token_ids), file_bytes, crc32, statistics)

    def _commit(self, index: int, published: hidden_states.Published) -> None:
        """Return once the sample is durable under its name and in the ledger. Whoever gets the lock serves all that wait."""
        with self._state:
            self._renamed.append((index, published))
        with self._commit_lock:
            with self._state:
                samples, self._renamed = self._renamed, []
            try:
                if samples and self._commit_error is None:
                    sync_directory(self._directory)
                    self._ledger.append(samples)
            except OSError as error:
                self._commit_error = self._explain(index, error)
            if self._commit_error is not None:  # those who waited for the failed commit are not published either
                raise self._commit_error

    def _explain(self, index: int, error: Exception) -> StageError:
        number = error.errno if isinstance(error, OSError) else None
        if number is None and (match := _OS_ERROR.search(str(error))):  # safetensors raises its own type with the number in the text
            number = int(match.group(1))
        if number in _FULL:
            return self._full(index, (error.strerror if isinstance(error, OSError) else None) or os.strerror(number))
        if number is not None:
            return StageError(f"writing sample {index} to {self._directory} failed: {os.strerror(number)}")
        return StageError(f"writing sample {index} to {self._directory} failed: {type(error).__name__}: {error}")

    def _full(self, index: int, reason: str) -> StageError:
        stat = os.statvfs(self._directory)
        free = stat.f_bavail * stat.f_frsize
        need = self._left_bytes + self._min_free_bytes
        todo = f"free {size(need - free)}" if need > free else "that should be enough: look for a quota, or for who else fills it"
        return StageError(
            f"disk full at sample {index}: {reason}; {self._directory} has {size(free)} free and needs {size(need)} "
            f"({size(self._left_bytes)} still to write, {size(self._min_free_bytes)} kept free); {todo}; "
            "start the stage again then, it goes on from here"
        )
