"""Work that goes on beside the screen. What goes wrong in it is told to the operator and ends nothing."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from textual.message import Message

from console.tui.messages import MISTAKE, Changed, Problem, Said
from console.tui.state import ConsoleState
from pipeline.errors import StageError

Work = Coroutine[Any, Any, Any]


class Tasks:
    """Tasks of one console."""

    def __init__(self, state: ConsoleState, post: Callable[[Message], object]):
        self._state, self.post = state, post
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Work, what: str) -> None:
        """Begin ``work``; ``what`` names it if it fails."""
        task = asyncio.get_running_loop().create_task(self._guarded(work, what))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def busy(self, what: str, work: Work) -> Any:
        """Do ``work`` while the screen says what is being done. Raises what it raises."""
        self._state.busy = what
        self.post(Changed())
        try:
            return await work
        finally:
            self._state.busy = ""
            self.post(Changed())

    async def _guarded(self, work: Work, what: str) -> None:
        try:
            await work
        except StageError as error:
            if getattr(error, "unanswered", False):
                self.post(Said(f"{what}: {error}", "warning"))  # the link tells why, and all of it is asked again
            else:
                self.post(Problem(f"{what} failed", str(error)))
        except Exception as error:  # a mistake of ours: it must be seen, and the screen must go on
            self.post(Problem(MISTAKE, f"{what}: {type(error).__name__}: {error}"))
