"""Follows the log of the attempt that the screen is about, and changes over when that is another one."""

from collections.abc import Awaitable, Callable

from console.tui.state import ConsoleState, LogSource
from console.tui.tasks import Tasks
from pipeline.errors import StageError

Tail = Callable[[str, str, str], Awaitable[None]]
"""Asks the host for the log of a run's stage and attempt."""


class LogFollower:
    """``heard`` after each frame."""

    def __init__(self, state: ConsoleState, tasks: Tasks, tail: Tail):
        self._state, self._tasks, self._tail = state, tasks, tail
        self._asked: LogSource | None = None

    def reset(self) -> None:
        """Another run is watched."""
        self._asked = self._state.log_source = None
        self._state.worker = ""
        self._state.ring.clear()

    def heard(self, run: str) -> None:
        """Ask for the log once the attempt has one."""
        attempt = self._state.attempt
        if attempt is None or attempt.log_bytes is None or not attempt.id:
            return
        source = LogSource(attempt.stage, attempt.id)
        if source != self._asked:
            self._asked = source
            self._tasks.spawn(self._follow(run, source), "reading the log")

    async def _follow(self, run: str, source: LogSource) -> None:
        self._state.ring.names[source.attempt] = source.stage
        try:
            await self._tail(run, source.stage, source.attempt)
        except StageError:
            self._asked = None
            raise
        self._state.ring.begin(source.attempt)
        if source != self._state.log_source:
            self._state.worker = ""  # another attempt's log may know no such worker, and an empty pane hides what goes wrong in it
        self._state.log_source = source
