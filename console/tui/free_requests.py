"""The controller's part for actions of the host, freeing GPUs first: what the screen asks. All raise StageError."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from console.core import action_end
from console.tui.state import ConsoleState
from console.tui.tasks import Tasks
from pipeline.errors import UserError

if TYPE_CHECKING:
    from console.core.action import Action
    from console.core.audit_words import Log
    from console.core.free_plan import Key, Plan
    from console.tui.wire import Opened, ScreenSession


class FreeRequests:
    """Base of the controller, which sets the attributes."""

    state: ConsoleState
    _tasks: Tasks
    _wire: Any
    _opened: "Opened | None"
    _session: "ScreenSession | None"

    @property
    def _freeing(self) -> Any:
        return self._wire.freeing

    async def free_plan(self) -> "Plan":
        """Who holds the GPUs now, and what would be ended. A run that the host does not have yet is none: it is freed for the host."""
        if self._opened is None:
            raise UserError(f"nothing is known of {self.state.host} yet; ask again in a moment")
        label, state = self._freeing.label_of(self.state.host), self.state
        there = state.view is not None and state.view.run is not None and state.view.run.exists is not False
        return await self._freeing.survey(self._session, self._opened.host, label, state.run if there else None)

    async def free(self, plan: "Plan", selection: "frozenset[Key]", phrase: str, attempt: str) -> str:
        """Have the host do what was confirmed, as this attempt; its id once the host has answered."""
        work = self._freeing.launch(self._session, self.state.host, plan, selection, phrase, attempt)
        return await self._tasks.busy("freeing GPUs", work)

    async def cancel_action(self, action: str, run: str | None, attempt: str) -> str:
        """Ask the running one to stop at its next wait; its state in the answer."""
        return await self._tasks.busy("cancelling", self._freeing.stop(self._session, self.state.host, run, attempt, action))

    async def accept_baseline(self, run: str, gpus: dict[str, int]) -> dict[str, int]:
        """Accept for this run what idle GPUs hold."""
        return await self._tasks.busy("accepting the idle baseline", self._freeing.accept(self._session, self.state.host, run, gpus))

    async def action_receipt(self, action: str, run: str | None, attempt: str) -> dict[str, Any]:
        """What it proved; {} when it left no receipt."""
        return await self._or_nothing(lambda: self._freeing.receipt(self._session, run, attempt, action), {})

    async def action_events(self, action: str, run: str | None, attempt: str) -> list[dict[str, Any]]:
        """Its steps so far; [] before there is one."""
        return await self._or_nothing(lambda: self._freeing.events(self._session, run, attempt, action), [])

    async def action_end(self, action: str, run: str | None, attempt: str) -> "Action | None":
        """How it ended, by its own files, whatever frames tell; None while that is not on record."""
        ended = await self._or_nothing(lambda: self._freeing.ended(self._session, run, attempt, action), {})
        if not ended or self.state.view is None:
            return None
        receipt = await self.action_receipt(action, run, attempt)
        return action_end.of(action, attempt, run, ended, receipt, self.state.view)

    async def host_audit(self) -> "Log":
        """The newest lines of the host's audit log."""
        return await self._freeing.host_audit(self._session)

    async def _or_nothing(self, ask: Callable[[], Any], nothing: Any) -> Any:
        try:
            return await ask()
        except self._wire.AgentError as error:
            if error.kind != self._wire.errors.MISSING:
                raise
            return nothing
