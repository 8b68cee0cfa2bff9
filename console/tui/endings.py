"""The ends that the operator has not seen yet: of each stage the newest, all of them on one card."""

from typing import TYPE_CHECKING

from console.tui.state import ConsoleState
from pipeline.contract.stages import ACTIONS

if TYPE_CHECKING:  # the first paint waits for this module
    from console.core.attempt import Attempt


class Endings:
    """Filled as ends are noticed, cleared once their card was closed."""

    def __init__(self, state: ConsoleState):
        self._state = state
        self._found: dict[str, Attempt] = {}

    def add(self, attempt: "Attempt") -> None:
        self._found[attempt.stage] = attempt

    def drop(self, attempts: set[str]) -> None:
        """Another sheet tells of these."""
        self._found = {stage: one for stage, one in self._found.items() if one.id not in attempts}

    def clear(self) -> None:
        self._found.clear()

    def unseen(self) -> "list[Attempt]":
        """Oldest end first, each as the newest frame has it. What a later launch of its stage has replaced is no news any more."""
        present = {stage: now for stage, one in self._found.items() if (now := self._present(one)) is not None}
        self._found = present
        return sorted(present.values(), key=lambda one: one.ended_boot_s or 0.0)

    def _present(self, attempt: "Attempt") -> "Attempt | None":
        view = self._state.view
        if view is not None and attempt.stage in ACTIONS:
            newest = view.actions.get(attempt.stage)
            return newest.attempt if newest is not None and newest.attempt.id == attempt.id else None
        stages = self._state.view.stages if self._state.view else None
        if stages is None or (standing := stages.get(attempt.stage)) is None:
            return attempt
        return next((one for one in (standing, standing.refused) if one is not None and one.id == attempt.id), None)
