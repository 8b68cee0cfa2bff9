"""How a rehearsal's fault holds up a stage's working threads: at the two places that each unit of work passes.

``Attempt.raise_if_stopped`` is called between units by the thread that leads the work of every stage, ``Store._save`` by the
extraction's writers for each file. Both are wrapped in this process alone, and only once a fault strikes.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from pipeline.attempt import Attempt

LEAST_S, LONGEST_S = 0.3, 30.0
"""What slowness adds to one unit at least and at most: five times nothing would not be seen."""


class Blocks:
    """What the working threads meet now: nothing, or one of ``deadlock``, ``spin``, ``slow`` and ``writers_hang``, until ``let_go``."""

    def __init__(self) -> None:
        self._wrapped = False
        self._lead: Callable[[], None] = _nothing
        self._write: Callable[[], object] = _nothing
        self._let_go: Callable[[], None] = _nothing
        self.slows = False

    def deadlock(self) -> None:
        """Two locks, taken in two orders: one by a thread that is made for it, the other by the first working thread that comes by."""
        first, second = threading.Lock(), threading.Lock()
        holds, met = threading.Event(), threading.Event()

        def working() -> None:
            with first:
                met.set()
                with second:
                    pass

        def other_order() -> None:
            second.acquire()
            holds.set()
            met.wait()
            with first:
                pass

        def let_go() -> None:
            second.release()  # any thread may release a lock
            met.set()

        threading.Thread(target=other_order, name="deadlock", daemon=True).start()
        holds.wait()
        self._meet(working, working, let_go)

    def spin(self) -> None:
        """The leading thread uses all of a core and gets nowhere, as one in a collective whose other ranks do not come; writers wait."""
        over = threading.Event()

        def lead() -> None:
            while not over.is_set():
                pass

        self._meet(lead, over.wait, over.set)

    def slow(self, times: float) -> None:
        """What the leading thread does between two looks takes so many times as long, and ``LEAST_S`` more."""
        over = threading.Event()
        last_s = time.monotonic()

        def lead() -> None:
            nonlocal last_s
            over.wait(min(LONGEST_S, max(LEAST_S, (times - 1.0) * (time.monotonic() - last_s))))
            last_s = time.monotonic()

        self._meet(lead, _nothing, over.set)
        self.slows = True

    def writers_hang(self) -> None:
        """The writer threads finish nothing more; the leading thread goes on until it has nowhere to put its work."""
        over = threading.Event()
        self._meet(_nothing, over.wait, over.set)

    def let_go(self) -> None:
        """Whoever was held up goes on."""
        release, self._let_go = self._let_go, _nothing
        self._lead = self._write = _nothing
        self.slows = False
        release()

    def _meet(self, lead: Callable[[], None], write: Callable[[], object], let_go: Callable[[], None]) -> None:
        self.let_go()
        self._wrap()
        self._lead, self._write, self._let_go = lead, write, let_go

    def _wrap(self) -> None:
        if self._wrapped:
            return
        self._wrapped = True
        from pipeline.store import Store

        look, save = Attempt.raise_if_stopped, Store._save

        def raise_if_stopped(attempt: Attempt) -> None:
            self._lead()
            look(attempt)

        def _save(store: Store, *arguments: Any) -> Any:
            self._write()
            return save(store, *arguments)

        Attempt.raise_if_stopped, Store._save = raise_if_stopped, _save  # type: ignore[method-assign]


def _nothing() -> None:
    pass
