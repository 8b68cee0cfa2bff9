"""What each action does: dialogs first, then the controller. One method an action of the table, by its id."""

import os
import time
from typing import TYPE_CHECKING

from console import config
from console.core.attempt import Attempt
from console.tui import gates, plans, themes
from console.tui.bindings import BY_ID
from console.tui.screens.audit import AuditScreen
from console.tui.screens.choose import ChooseScreen, Item
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.details import DetailsScreen
from console.tui.screens.done import EndedScreen
from console.tui.screens.evidence import EvidenceScreen
from console.tui.screens.free_gpus import FreeGpusScreen
from console.tui.screens.help import HelpScreen
from console.tui.screens.problem import ProblemScreen
from console.tui.state import ConsoleState
from console.tui.widgets.tail_search import NEWER, OLDER
from pipeline.contract.stages import STAGES
from pipeline.errors import StageError

if TYPE_CHECKING:
    from console.tui.app import ConsoleApp


class Flows:
    """Bound to the app. Methods that ask run in a worker of their own."""

    def __init__(self, app: "ConsoleApp"):
        self._app = app

    @property
    def _state(self) -> ConsoleState:
        return self._app.state

    # Acting: each asks first.

    def next_stage(self) -> None:
        name, _ = gates.next_name(self._state)
        if name is not None:
            self._run(self._start(name))

    def start_stage(self) -> None:
        self._run(self._choose_start())

    def stop_stage(self) -> None:
        self._run(self._choose_stop())

    def take_over(self) -> None:
        self._run(self._take_over())

    def start(self, stage: str) -> None:
        """Ask, and start this stage."""
        self._run(self._start(stage))

    def stop(self, stage: str) -> None:
        """Ask, and stop this stage."""
        self._run(self._stop(stage))

    # Looking.

    def free_gpus(self) -> None:
        self._app.push_screen(FreeGpusScreen(self._state))

    def evidence(self) -> None:
        self._app.push_screen(EvidenceScreen(self._state))

    def audit(self) -> None:
        self._app.push_screen(AuditScreen(self._state, config.state_dir() / "audit.jsonl"))

    def help(self) -> None:
        self._app.push_screen(HelpScreen(self._state))

    def details(self) -> None:
        attempt = self._state.attempt
        self.details_of(self._app.dashboard.focused_stage or (attempt.stage if attempt else "extract"))

    def details_of(self, stage: str) -> None:
        """Open a stage's sheet; its buttons start and stop."""

        def pressed(choice: str | None) -> None:
            if choice == "start":
                self.start(stage)
            elif choice == "stop":
                self.stop(stage)

        self._app.push_screen(DetailsScreen(self._state, stage), pressed)

    def problem(self, title: str, text: str) -> None:
        """Show what did not happen, until it was read."""
        self._app.push_screen(ProblemScreen(self._state, title, text))

    def ended(self, attempt: Attempt) -> None:
        """Show how an attempt ended."""

        def pressed(choice: str | None) -> None:
            if choice == "details":
                self.details_of(attempt.stage)

        self._app.push_screen(EndedScreen(self._state, attempt), pressed)

    def samples(self) -> None:
        raise NotImplementedError("gated: see gates.samples")

    def open_run(self) -> None:
        self._run(self._open_run())

    def reconnect(self) -> None:
        self._app.controller.retry()
        self._app.say(f"dialing {self._state.host}")

    def focus_log(self) -> None:
        self._app.log_pane.tail.focus()

    def search_log(self) -> None:
        self._app.log_pane.ask()

    def next_match(self) -> None:
        self._app.log_pane.tail.search.go(OLDER)

    def previous_match(self) -> None:
        self._app.log_pane.tail.search.go(NEWER)

    def toggle_follow(self) -> None:
        self._app.log_pane.tail.toggle_follow()
        self._app.log_pane.tick()

    def log_end(self) -> None:
        self._app.log_pane.tail.log_end()
        self._app.log_pane.tick()

    def palette(self) -> None:
        self._app.action_command_palette()

    def screenshot(self) -> None:
        folder = config.state_dir() / "screenshots"
        name = time.strftime("eaglewatch-%Y%m%d-%H%M%S.svg", time.gmtime(self._state.wall_s))
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(self._app.export_screenshot(title=f"eaglewatch {self._state.host}"))
        except OSError as error:
            self._app.problem("Screenshot", f"{folder / name}: {error.strerror}")
            return
        self._app.say(f"saved {folder / name}")

    def next_theme(self) -> None:
        names = list(themes.NAMES)
        self._app.theme = names[(names.index(self._app.theme) + 1) % len(names)] if self._app.theme in names else names[0]

    def quit(self) -> None:
        self._app.leave()

    # The ways through the dialogs.

    def _run(self, work: "object") -> None:
        self._app.run_worker(self._guarded(work), group="flow", exclusive=True, exit_on_error=False)  # type: ignore[arg-type]

    async def _guarded(self, work: "object") -> None:
        try:
            await work  # type: ignore[misc]
        except StageError as error:
            self._app.problem("It did not happen", str(error))

    async def _choose_start(self) -> None:
        state = self._state
        items = [Item(name, name, stage.done_means, gates.start_stage(state, name)) for name, stage in STAGES.items()]
        stage = await self._app.push_screen_wait(ChooseScreen("Start which stage?", items))
        if stage is not None:
            await self._start(stage)

    async def _start(self, stage: str) -> None:
        app, state = self._app, self._state
        if self._refused("start_stage", gates.start_stage(state, stage)):
            return
        interpreter = app.controller.interpreter(stage)
        if interpreter is None:
            interpreter = await self._choose_interpreter(stage)
        if interpreter is None:
            return
        lines = plans.start_lines(state, app.controller, stage, interpreter)
        if not await app.push_screen_wait(ConfirmScreen(state, f"Start {stage} on {state.host}?", lines, f"Start {stage}", danger=False)):
            return
        if self._refused("start_stage", gates.start_stage(state, stage)):
            return
        attempt = await app.controller.launch(stage, interpreter, [])
        app.say(f"{stage} started: attempt {attempt}")

    async def _choose_interpreter(self, stage: str) -> str | None:
        found = await self._app.controller.interpreters(stage)
        items = [Item(one.path, one.path, one.about, one.why_not or None) for one in found]
        if not items:
            self._app.problem(f"Start {stage}", plans.no_interpreter(self._state, stage))
            return None
        return await self._app.push_screen_wait(ChooseScreen(f"hosts.toml names no interpreter for {stage}: which one?", items))

    async def _choose_stop(self) -> None:
        live = self._state.live()
        if len(live) == 1:
            await self._stop(live[0].stage)
            return
        items = [Item(one.stage, one.stage, f"attempt {one.id}, pid {one.pid}") for one in live]
        stage = await self._app.push_screen_wait(ChooseScreen("Stop which stage?", items))
        if stage is not None:
            await self._stop(stage)

    async def _stop(self, stage: str) -> None:
        app, state = self._app, self._state
        attempt = next((one for one in state.live() if one.stage == stage), None)
        if attempt is None:
            app.say(f"{stage} does not run", "warning")
            return
        lines = plans.stop_lines(state, attempt)
        if not await app.push_screen_wait(ConfirmScreen(state, f"Stop {stage} on {state.host}?", lines, f"Stop {stage}")):
            return
        if self._refused("stop_stage", gates.stop_stage(state, stage)):
            return
        word = await app.controller.stop(attempt)
        app.say(f"stop of {stage} asked for: it is {word}")

    async def _take_over(self) -> None:
        app, state = self._app, self._state
        lines = plans.take_over_lines(state)
        if lines and not await app.push_screen_wait(ConfirmScreen(state, f"Take control of {state.run}?", lines, "Take over")):
            return
        if await app.controller.take_control(take_over=bool(lines)):
            app.say(f"this console has control of {state.run}")

    async def _open_run(self) -> None:
        state = self._state
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
