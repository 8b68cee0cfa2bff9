"""The way from one stage to the next: the plan, the typed phrase, watching the host do it, what it came to, and on from there."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from console.core import transition_live, transition_next
from console.core.action import Action
from console.core.transition_next import Next
from console.core.transition_plan import TransitionPlan
from console.tui import gates
from console.tui.screens.transition_confirm import TransitionConfirmScreen
from console.tui.screens.transition_live import TransitionLiveScreen
from console.tui.screens.transition_plan import ARMED, RECEIPT, TransitionPlanScreen
from console.tui.screens.transition_receipt import AGAIN, TransitionReceiptScreen
from console.tui.state import ConsoleState
from pipeline.contract import transition
from pipeline.errors import StageError

if TYPE_CHECKING:
    from console.tui.app import ConsoleApp


class Transitions:
    """Bound to the app. To be run in a worker; what the host refuses is raised as StageError."""

    def __init__(
        self, app: "ConsoleApp", choose_interpreter: Callable[[str], Awaitable[str | None]], ask_baseline: Callable[[], Awaitable[None]]
    ):
        """``ask_baseline`` asks for the idle baseline of GPUs where nobody has said yet whether it counts."""
        self._app, self._choose, self._ask_baseline = app, choose_interpreter, ask_baseline

    @property
    def _state(self) -> ConsoleState:
        return self._app.state

    async def show(self) -> None:
        """The one that runs or is armed; else what the last one came to."""
        one = self._newest()
        if one is None:
            return
        if await self._see(one):
            await self.plan()

    async def _see(self, one: Action) -> bool:
        """One that runs is watched, then what it came to is shown; whether a new plan is wanted."""
        live = TransitionLiveScreen(self._state, self._app.controller, one.attempt.id)
        ended = one if one.attempt.ended else await self._watch(live)
        return ended is not None and await self._ended(ended)

    async def plan(self) -> None:
        """The next one: its plan, and what follows from it."""
        state = self._state
        if transition_next.live(state.view, state.run) is not None:
            await self.show()
            return
        wanted = transition_next.of(state.view, state.resolved)
        if isinstance(wanted, str):
            self._app.say(f"Next stage: {wanted}", "warning")
            return
        interpreters: dict[str, str] = {}
        for stage in wanted.stages:
            one = self._app.controller.interpreter(stage) or await self._choose(stage)
            if one is None:
                return
            interpreters[stage] = one
        await self._ask_baseline()
        await self._offer(wanted, interpreters)

    async def _offer(self, wanted: Next, interpreters: dict[str, str]) -> None:
        state, controller = self._state, self._app.controller
        service: str | None = None
        while True:
            now = transition_next.of(state.view, state.resolved)
            if isinstance(now, str):
                self._app.say(f"Next stage: {now}", "warning")
                return
            if now.stages == wanted.stages:
                wanted = now  # the stage before may have ended while a sheet was open
            screen = TransitionPlanScreen(
                state, wanted, lambda named, to=wanted: controller.transition_plan(to, interpreters, named), service
            )
            picked = await self._app.push_screen_wait(screen)
            if picked is None:
                return
            service, last = picked.service, self._newest()
            if picked.choice == RECEIPT:
                if last is not None and not await self._see(last):
                    return
            elif picked.plan is not None and await self._confirm_and_do(picked.plan, picked.choice == ARMED):
                return

    async def _confirm_and_do(self, made: TransitionPlan, armed: bool) -> bool:
        """Whether all is said; False: back to a new plan."""
        state, app = self._state, self._app
        phrase = await app.push_screen_wait(TransitionConfirmScreen(state, made, armed))
        if phrase is None:
            return False
        if why := gates.act(state):
            app.say(f"Next stage: {why}", "warning")
            return True
        live = TransitionLiveScreen(
            state, app.controller, run=state.run, launch=lambda attempt: app.controller.transit(made, armed, phrase, attempt)
        )
        ended = await self._watch(live)
        return ended is None or not await self._ended(ended)

    async def _watch(self, live: TransitionLiveScreen) -> Action | None:
        ended = await self._app.push_screen_wait(live)
        if live.failed is not None:
            raise live.failed
        return ended

    async def _ended(self, ended: Action) -> bool:
        """Show what it came to; whether a new plan is wanted."""
        state, controller = self._state, self._app.controller
        if not state.current:
            self._app.say("reading its receipt, which waits for the link")
        try:
            receipt = await controller.action_receipt(transition.ACTION, ended.run, ended.attempt.id)
            events = [] if receipt else await controller.action_events(transition.ACTION, ended.run, ended.attempt.id)
        except StageError as error:
            told = f"{transition_live.standing(ended)}\n{error}\nt asks for it again"
            self._app.problem("Its receipt cannot be read now", told)
            return False
        wanted = transition_next.of(state.view, state.resolved)
        why = gates.act(state) or (wanted if isinstance(wanted, str) else None)
        return await self._app.push_screen_wait(
            TransitionReceiptScreen(state, ended, receipt, transition_live.steps(events), why)
        ) == AGAIN  # fmt: skip

    def _newest(self) -> Action | None:
        return self._state.view.actions.get(transition.ACTION) if self._state.view else None
