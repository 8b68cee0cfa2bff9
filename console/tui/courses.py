"""What a live attempt did before this console looked: asked of the host once, because the range of the time left rests on it."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from console.tui.state import ConsoleState
from pipeline.errors import StageError

if TYPE_CHECKING:
    from console.core.attempt import Attempt
    from console.core.views import HostView
    from console.tui.tasks import Tasks

_LATE_S = 300.0
"""Less than this is soon seen again."""


class Courses:
    """``heard`` with every frame. ``ask``: reads an attempt's curve."""

    def __init__(self, state: ConsoleState, tasks: "Tasks", ask: Callable[[str, str], Awaitable[dict[str, Any]]]):
        self._state, self._tasks, self._ask = state, tasks, ask
        self._asked: set[str] = set()

    def heard(self, view: "HostView") -> None:
        for one in (view.stages or {}).values():
            first_s = one.progress.first_boot_s if one.progress else None
            if one.live and first_s is not None and one.id not in self._asked:
                self._asked.add(one.id)
                if view.boot_s - first_s >= _LATE_S:
                    self._tasks.spawn(self._learn(one), "reading how far it was when")

    async def _learn(self, attempt: "Attempt") -> None:
        try:
            value = await self._ask(attempt.stage, attempt.id)
        except StageError:
            return  # an older host program, or a link that broke: the range comes with what this console sees itself
        self._state.store.learn_curve(attempt, value.get("points"))
