"""A model of transformers answering many requests at once on the CPU, by continuous batching: requests join and leave at every step.

Written here because transformers' own batching (5.19, ``generate_batch``) fails on a DeepSeek-V3-shaped model: its paged cache is laid out
for whole keys and the model caches compressed ones.

Shapes: B running requests, T cached tokens of the longest one; shorter ones are padded on the left.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from pipeline.rehearsal.sampling import ABORTED, LENGTH, STOP, Request, sample

PREFILL_TOKENS = 4096
"""Padded prompt tokens in one forward pass, at most, unless a single prompt has more."""


class CpuEngine:
    """Owns the model. One thread computes; everything public may be called from any other."""

    def __init__(self, model: Any, end_ids: frozenset[int], max_num_seqs: int, max_model_len: int, threads: int):
        self.max_model_len = max_model_len
        self.prompt_tokens = 0
        self.generated_tokens = 0
        self.failure: BaseException | None = None
        """Why the engine is dead."""
        self._model = model
        self._end_ids = end_ids
        self._max_num_seqs = max_num_seqs
        self._threads = threads
        self._waiting: deque[Request] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._running: list[Request] = []
        self._cache: Any = None
        self._mask: Any = None
        """bool [B, T]: which cached tokens are real."""
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._on_death: Callable[[], None] = lambda: None

    def start(self, on_death: Callable[[], None]) -> None:
        self._on_death = on_death
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Queue a request; when the engine has stopped it is aborted at once."""
        with self._changed:
            if not self._stopping:
                self._waiting.append(request)
                self._changed.notify()
                return
        request.on_done(ABORTED)

    def abort(self, request: Request) -> None:
        """Drop a request whose client has gone."""
        request.aborted = True

    def stop(self) -> None:
        """Abort everything at the next step and end the thread. Does not wait: it is called by a signal handler."""
        self._stopping = True
        if self._changed.acquire(blocking=False):  # else the thread that holds it looks at the flag
            self._changed.notify()
            self._changed.release()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def cache_usage(self) -> float:
        """Cached tokens as a share of what the largest batch of the longest requests would take, 0 to 1."""
        mask = self._mask
        return 0.0 if mask is None else mask.numel() / (self._max_num_seqs * self.max_model_len)

    def _work(self) -> None:
        import torch

        torch.set_num_threads(self._threads)  # OpenMP keeps this number a thread
        try:
            with torch.inference_mode():
                while self._wait():
                    self._step()
        except BaseException as error:
            self.failure = error
            raise
        finally:
            with self._changed:
                self._stopping = True
                left = [*self._running, *self._waiting]
                self._running, self._mask = [], None
                self._waiting.clear()
            for request in left:
                with contextlib.suppress(Exception):  # its client's loop may be closed
                    request.on_done(ABORTED)
            if self.failure is not None:
                self._on_death()

    def _wait(self) -> bool:
        """Wait for something to do; False when the engine is to end."""
        with self._changed:
            while not (self._stopping or self._waiting or self._running):
                self._changed.wait(1.0)  # a signal handler may not have been able to notify
            return not self._stopping

    def _step(self) -> None:
        """One more token for everyone: decode who runs, then let in who waits."""
        import torch

        if self._running:
            last = torch.tensor([[request.output[-1]] for request in self._running])
            positions = self._mask.sum(1, keepdim=True)
            self._mask = torch.nn.functional.pad(self._mask, (0, 1), value=True)
            logits = self._forward(last, self._mask, positions, self._cache)
            self._advance(self._running, logits)
            self._compact()
        admitted = self._admit()
        if admitted:
            self._prefill(admitted)
            self._compact()

    def _admit(self) -> list[Request]:
        admitted: list[Request] = []
        longest = 0
        with self._changed:
            while self._waiting and len(self._running) + len(admitted) < self._max_num_seqs:
                if self._waiting[0].aborted:
                    self._waiting.popleft().on_done(ABORTED)
                    continue
                longest = max(longest, len(self._waiting[0].prompt))
                if admitted and longest * (len(admitted) + 1) > PREFILL_TOKENS:
                    break
                admitted.append(self._waiting.popleft())
        return admitted

    def _prefill(self, admitted: list[Request]) -> None:
        import torch
        from transformers import DynamicCache

        width = max(len(request.prompt) for request in admitted)
        ids = torch.zeros((len(admitted), width), dtype=torch.int64)
        mask = torch.zeros((len(admitted), width), dtype=torch.bool)
        for row, request in enumerate(admitted):
            ids[row, width - len(request.prompt) :] = torch.tensor(request.prompt)
            mask[row, width - len(request.prompt) :] = True
            self.prompt_tokens += len(request.prompt)
        cache = DynamicCache(config=self._model.config)
        logits = self._forward(ids, mask, (mask.cumsum(1) - 1).clamp(min=0), cache)
        self._advance(admitted, logits)
        if self._running:
            self._mask = _stack(self._mask, mask, 1)
            layers: Any = zip(self._cache.layers, cache.layers, strict=True)
            for kept, new in layers:
                kept.keys, kept.values = _stack(kept.keys, new.keys, 2), _stack(kept.values, new.values, 2)
        else:
            self._mask, self._cache = mask, cache
        self._running = [*self._running, *admitted]

    def _forward(self, ids: Any, mask: Any, positions: Any, cache: Any) -> Any:
        """Logits of each row's last token, float64 [B, vocabulary]."""
        done = self._model(
            input_ids=ids, attention_mask=mask.long(), position_ids=positions, past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        return done.logits[:, -1].double()

    def _advance(self, requests: list[Request], logits: Any) -> None:
        for request, token in zip(requests, sample(requests, logits), strict=True):
            request.output.append(token)
            self.generated_tokens += 1
            if request.on_token is not None and not request.aborted:
                request.on_token(token)

    def _compact(self) -> None:
        """Let go of who is done, and of columns that hold only padding."""
        ends = [self._end(request) for request in self._running]
        if any(ends):
            kept = [row for row, end in enumerate(ends) if end is None]
            done = [(request, end) for request, end in zip(self._running, ends, strict=True) if end is not None]
            self._running = [self._running[row] for row in kept]
            self._mask = self._mask[kept]
            first = int(self._mask.any(0).long().argmax()) if kept else 0
            self._mask = self._mask[:, first:]
            for layer in self._cache.layers:
                layer.keys, layer.values = layer.keys[kept][:, :, first:], layer.values[kept][:, :, first:]
            for request, end in done:
                request.on_done(end)

    def _end(self, request: Request) -> str | None:
        if request.aborted:
            return ABORTED
        if request.output[-1] in self._end_ids and not request.ignore_eos:
            return STOP
        return LENGTH if len(request.output) >= request.max_tokens else None


def _stack(above: Any, below: Any, axis: int) -> Any:
    """Concatenate along the batch (axis 0); the shorter one gets zeros on the left of the token ``axis``."""
    import torch

    width = max(above.shape[axis], below.shape[axis])
    parts = []
    for one in (above, below):
        shape = list(one.shape)
        shape[axis] = width - shape[axis]
        parts.append(torch.cat([one.new_zeros(shape), one], axis))
    return torch.cat(parts)
