"""The ways through the dialogs: what is asked before something is done, and what is asked for then."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from console.tui import gates, plans
from console.tui.bindings import BY_ID
from console.tui.screens.choose import ChooseScreen, Item
from console.tui.screens.confirm import ConfirmScreen, ReasonScreen
from console.tui.state import ConsoleState
from pipeline.contract.stages import STAGES
from pipeline.contract.transition import needs_gpus
from pipeline.errors import StageError

if TYPE_CHECKING:
    from console.tui.app import ConsoleApp


class Dialogs:
    """Bound to the app. Each is to be run in a worker; what the host refuses is raised as StageError."""

    def __init__(self, app: "ConsoleApp", ask_baseline: Callable[[], Awaitable[None]]):
        """``ask_baseline`` asks for the idle baseline of GPUs where nobody has said yet whether it counts."""
        self._app, self._ask_baseline = app, ask_baseline

    @property
    def _state(self) -> ConsoleState:
        return self._app.state

    async def choose_start(self) -> None:
        """Which stage, then as ``start``."""
        state = self._state
        items = [Item(name, name, stage.done_means, gates.start_stage(state, name)) for name, stage in STAGES.items()]
        stage = await self._app.push_screen_wait(ChooseScreen("Start which stage?", items))
        if stage is not None:
            await self.start(stage)

    async def start(self, stage: str) -> None:
        """Show what will run, ask, and start it."""
        app, state = self._app, self._state
        if self._refused("start_stage", gates.start_stage(state, stage)):
            return
        interpreter = app.controller.interpreter(stage)
        if interpreter is None:
            interpreter = await self.choose_interpreter(stage)
        if interpreter is None:
            return
        if needs_gpus(stage):
            await self._ask_baseline()
        arguments = await self._agreed(stage, interpreter)
        if arguments is None or self._refused("start_stage", gates.start_stage(state, stage)):
            return
        try:
            attempt = await app.controller.launch(stage, interpreter, arguments)
        except StageError as error:
            if held := app.controller.held_line(error):
                app.flows.gpus_held(stage, held)
                return
            raise
        app.say(f"{stage} started: attempt {attempt}")

    async def _agreed(self, stage: str, interpreter: str) -> list[str] | None:
        """The stage's arguments once the operator has agreed; None when not. Input that is in doubt takes a typed reason."""
        app, state, doubt = self._app, self._state, gates.doubt(self._state, stage)
        lines = plans.start_lines(state, app.controller, stage, interpreter, ["--override", "REASON"] if doubt else [])
        question, yes = f"Start {stage} on {state.host}?", f"Start {stage}"
        if doubt is None:
            return [] if await app.push_screen_wait(ConfirmScreen(state, question, lines, yes, danger=False)) else None
        reason = await app.push_screen_wait(ReasonScreen(state, question, doubt, lines, yes))
        return None if reason is None else ["--override", reason]

    async def choose_interpreter(self, stage: str) -> str | None:
        """Where hosts.toml names none: of those that the host has. None: there is none, or it was cancelled."""
        found = await self._app.controller.interpreters(stage)
        items = [Item(one.path, one.path, one.about, one.why_not or None) for one in found]
        if not items:
            self._app.problem(f"Start {stage}", plans.no_interpreter(self._state, stage))
            return None
        return await self._app.push_screen_wait(ChooseScreen(f"hosts.toml names no interpreter for {stage}: which one?", items))

    async def choose_stop(self) -> None:
        """Which stage, where several run, then as ``stop``."""
        live = self._state.live()
        if len(live) == 1:
            await self.stop(live[0].stage)
            return
        items = [Item(one.stage, one.stage, f"attempt {one.id}, pid {one.pid}") for one in live]
        stage = await self._app.push_screen_wait(ChooseScreen("Stop which stage?", items))
        if stage is not None:
            await self.stop(stage)

    async def stop(self, stage: str, why: str = "") -> None:
        """Say what depends on it, ask, and stop it. ``why`` it is proposed."""
        app, state = self._app, self._state
        attempt = next((one for one in state.live() if one.stage == stage), None)
        if attempt is None:
            app.say(f"{stage} does not run", "warning")
            return
        lines = plans.stop_lines(state, attempt, why)
        if not await app.push_screen_wait(ConfirmScreen(state, f"Stop {stage} on {state.host}?", lines, f"Stop {stage}")):
            return
        if self._refused("stop_stage", gates.stop_stage(state, stage)):
            return
        word = await app.controller.stop(attempt)
        app.say(f"stop of {stage} asked for: it is {word}")

    async def take_over(self) -> None:
        """Ask, and take control from another console."""
        app, state = self._app, self._state
        lines = plans.take_over_lines(state)
        if lines and not await app.push_screen_wait(ConfirmScreen(state, f"Take control of {state.run}?", lines, "Take over")):
            return
        if await app.controller.take_control(take_over=bool(lines)):
            app.say(f"this console has control of {state.run}")

    async def open_run(self) -> None:
        """Which run, and watch it. The host is asked anew: others make runs too."""
        state = self._state
        if state.current:
            await self._app.controller.list_runs()
        if not state.runs:
            self._app.say(f"Open a run: there is no run on {state.host}", "warning")
            return
        items = [Item(run, run, "watched now" if run == state.run else "") for run in state.runs or ()]
        run = await self._app.push_screen_wait(ChooseScreen(f"Which run of {state.host}?", items))
        if run is not None and run != state.run:
            await self._app.controller.choose_run(run)

    def _refused(self, action: str, why: str | None) -> bool:
        """Whether it cannot be done any more: the dialog may have been open for long."""
        reason = gates.act(self._state) or why
        if reason:
            self._app.say(f"{BY_ID[action].label}: {reason}", "warning")
        return bool(reason)
