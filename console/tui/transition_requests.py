"""The controller's part that goes from one stage to the next: what the screen asks of the host. All raise StageError."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from console.tui.free_requests import FreeRequests
from pipeline.errors import UserError

if TYPE_CHECKING:
    from console.core.transition_next import Next
    from console.core.transition_plan import TransitionPlan


class TransitionRequests(FreeRequests):
    """Base of the controller, which sets the attributes."""

    async def transition_plan(self, wanted: "Next", interpreters: Mapping[str, str], service: str | None) -> "TransitionPlan":
        """The steps, with how each stands now. ``service``: None: this run's server; "": none; or a name."""
        if self._opened is None or self.state.run is None:
            raise UserError(f"nothing is known of {self.state.host} yet; ask again in a moment")
        label = self._freeing.label_of(self.state.host)
        return await self._wire.transitions.plan(self._session, self._opened.host, label, self.state.run, wanted, interpreters, service)

    async def transit(self, made: "TransitionPlan", armed: bool, phrase: str, attempt: str) -> str:
        """Have the host do what was confirmed, as this attempt; its id once the host has answered."""
        state = self.state
        work = self._wire.transitions.launch(self._session, state.host, state.run, made, armed, phrase, attempt=attempt)
        return await self._tasks.busy("beginning the transition", work)
