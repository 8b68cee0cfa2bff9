"""The console: one dashboard, and sheets over it. Draws twice a second; everything it shows is in ``state``."""

import asyncio
import gc
import importlib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from textual.binding import Binding
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from console.core import sanitize
from console.tui import farewell
from console.tui.bindings import BY_ID, keys, reason
from console.tui.endings import Endings
from console.tui.messages import MISTAKE, Broken, Changed, Ended, LookedBack, Problem, Said
from console.tui.options import Clocks, Options
from console.tui.palette import ActionProvider, Palette
from console.tui.screens.dashboard import Dashboard
from console.tui.sheets import Sheets
from console.tui.state import ConsoleState
from console.tui.terminal_app import TerminalApp
from console.tui.widgets.footer import KeyFooter

if TYPE_CHECKING:
    from console.tui.controller import Controller
    from console.tui.flows import Flows
    from console.tui.widgets.button import ActionButton
    from console.tui.widgets.log_pane import LogPane
    from console.tui.widgets.strip import StageCell

TICK_S = 0.5
_TOAST_S, _WARNING_S = 5.0, 12.0


class ConsoleApp(TerminalApp[farewell.Farewell]):
    """``run`` gives back what to say once the terminal is given back."""

    TITLE = "eaglewatch"
    CSS_PATH = ["styles/app.tcss", "styles/dashboard.tcss"]  # noqa: RUF012
    COMMANDS = {ActionProvider}  # noqa: RUF012 - Textual's own declaration
    # With priority the prompt has the focus before the next key is looked at: what is typed ahead is the pattern, and no key.
    BINDINGS = [Binding("slash", "perform('search_log')", show=False, priority=True)]  # noqa: RUF012

    def __init__(
        self,
        options: Options,
        theme: str = "dark",
        ascii_only: bool = False,
        clocks: Clocks | None = None,
        open_host: Callable[..., Any] | None = None,
        make_link: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(theme, ascii_only)
        self.state = ConsoleState(host=options.host, run=options.run)
        self.state.read_only = options.read_only
        self._make_controller = lambda: _controller(self.state, options, self.post_message, clocks, open_host, make_link)
        self._controller: Controller | None = None
        """None until the first paint is done."""
        self.endings = Endings(self.state)
        self.sheets = Sheets(self, self.endings)
        for key, action in keys():
            self.bind(key, f"perform('{action.id}')", show=False)

    # Life.

    def get_default_screen(self) -> Screen[Any]:
        return Dashboard(self.state)

    def on_mount(self) -> None:
        self.leave_with_terminal(self.leave)
        self.set_interval(TICK_S, self.tick)
        self.call_after_refresh(self._begin)

    async def _begin(self) -> None:
        """What the first paint did not wait for: the rest of the dashboard, the host, the sheets."""
        gc.freeze()
        gc.enable()
        await self.dashboard.fill()
        await asyncio.to_thread(importlib.import_module, "console.tui.controller")
        self._controller = self._make_controller()
        self.tick()
        self.run_worker(self.controller.start(), group="start", exit_on_error=False)
        await asyncio.to_thread(importlib.import_module, "console.tui.flows")

    @cached_property
    def flows(self) -> "Flows":
        """What the actions do."""
        from console.tui.flows import Flows

        return Flows(self)

    def tick(self) -> None:
        """Bring the state up to date and draw what changed."""
        if self._controller is not None:
            self.controller.tick()
        for screen in self.screen_stack:
            draw = getattr(screen, "tick", None)
            if draw is not None and screen.is_mounted:
                with suppress(NoMatches):  # while it is put together or taken down, not all its parts are there
                    draw()
        self.sheets.open_next()

    def leave(self) -> None:
        """End the console; jobs go on."""
        self.exit(farewell.of(self.state))

    async def action_quit(self) -> None:
        self.leave()

    def action_help_quit(self) -> None:
        self.say("q leaves; jobs on the host go on")

    async def on_unmount(self) -> None:
        if self._controller is not None:
            await self.controller.close()

    # Doing.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "perform" and parameters == ("search_log",):
            from textual.widgets import Input

            return isinstance(self.screen, Dashboard) and not isinstance(self.focused, Input)
        return super().check_action(action, parameters)

    def action_perform(self, action: str) -> None:
        self.perform(action)

    def perform(self, action: str) -> None:
        """Do an action of the table, or say why not."""
        wanted = BY_ID[action]
        why = reason(wanted, self.state)
        if why is None and self._controller is None and action != "quit":
            why = "the screen is still being built"
        if why is not None:
            self.say(f"{wanted.label}: {why}", "warning")
            return
        getattr(self.flows, action)()

    def action_command_palette(self) -> None:
        if isinstance(self.screen, Dashboard):
            self.push_screen(Palette(id="--command-palette"))

    @property
    def controller(self) -> "Controller":
        """There as soon as anything can be done."""
        assert self._controller is not None
        return self._controller

    @property
    def dashboard(self) -> Dashboard:
        found = self.screen_stack[0]
        assert isinstance(found, Dashboard)
        return found

    @property
    def log_pane(self) -> "LogPane":
        pane = self.dashboard.log_pane
        assert pane is not None
        return pane

    def on_stage_cell_pressed(self, message: "StageCell.Pressed") -> None:
        self.flows.details_of(message.stage)

    def on_action_button_pressed(self, message: "ActionButton.Pressed") -> None:
        self.perform(message.action)

    def on_key_footer_chosen(self, message: KeyFooter.Chosen) -> None:
        self.perform(message.action)

    # Telling.

    def say(self, text: str, severity: Any = "information") -> None:
        """A line that passes by."""
        seconds = _TOAST_S if severity == "information" else _WARNING_S
        self.notify(sanitize.line(text, 400), severity=severity, timeout=seconds, markup=False)

    def problem(self, title: str, text: str) -> None:
        """A sheet that stays until it was read; it waits while another one is open."""
        self.sheets.add(lambda: self.flows.problem(title, text))
        self.tick()

    def on_changed(self, message: Changed) -> None:
        self.tick()

    def on_said(self, message: Said) -> None:
        if message.rings:
            self.bell()
        self.say(message.text, message.severity)

    def on_problem(self, message: Problem) -> None:
        self.problem(message.title, message.text)

    def on_ended(self, message: Ended) -> None:
        passing = self.flows.passing_end(message.attempt)
        if passing:
            self.say(passing)
            return
        self.bell()
        if self.state.read_only:  # who only looks is not to be stopped by what needs nothing of them
            self.say(self.flows.end_words(message.attempt), "information" if message.attempt.fresh else "warning")
            return
        self.endings.add(message.attempt)
        self.tick()

    def on_looked_back(self, message: LookedBack) -> None:
        self.flows.looked_back(message.back)

    def on_broken(self, message: Broken) -> None:
        self.exit(farewell.Farewell("", message.error))

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A mistake of ours in a worker: it must be seen, and must not end the console."""
        if event.state == WorkerState.ERROR and event.worker.error is not None:
            error = event.worker.error
            self.problem(MISTAKE, f"{type(error).__name__}: {error}")


def _controller(*arguments: Any) -> "Controller":
    from console.tui.controller import Controller

    return Controller(*arguments)


def default_theme() -> str:
    """``mono`` where NO_COLOR is set (no-color.org), else dark."""
    return "mono" if os.environ.get("NO_COLOR") else "dark"
