"""What each action does: dialogs first, then the controller. One method an action of the table, by its id."""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from console import config
from console.core.attempt import Attempt
from console.core.chain import DATA_STAGES
from console.tui import dumping, gates, screenshot, serving, themes, unanswered, words
from console.tui.dialogs import Dialogs
from console.tui.freeing import Freeing
from console.tui.log_flows import LogFlows
from console.tui.record_flows import RecordFlows
from console.tui.screens import done_actions
from console.tui.screens.audit import AuditScreen
from console.tui.screens.details import DetailsScreen
from console.tui.screens.done import AGAIN, EndedScreen
from console.tui.screens.done_actions import is_action
from console.tui.screens.evidence import EvidenceScreen
from console.tui.screens.gpus_held import GpusHeldScreen
from console.tui.screens.help import HelpScreen
from console.tui.screens.problem import ProblemScreen
from console.tui.screens.samples import SamplesScreen
from console.tui.state import ConsoleState
from console.tui.transitions import Transitions
from pipeline.contract import free, transition
from pipeline.contract.stages import ACTIONS, STAGES
from pipeline.errors import StageError

if TYPE_CHECKING:
    from textual.worker import Worker

    from console.tui.app import ConsoleApp

LAST_STEP = DATA_STAGES[-1]
_PATIENCE_S, _POLL_S = 4.0, 0.02
"""So long a key waits for what was asked for before it."""


class Flows(LogFlows, RecordFlows):
    """Bound to the app. Methods that ask run in a worker of their own."""

    def __init__(self, app: "ConsoleApp"):
        self._app = app
        self._freeing = Freeing(app)
        self._ask = Dialogs(app, self._freeing.ask_baseline)
        self._transitions = Transitions(app, self._ask.choose_interpreter, self._freeing.ask_baseline)
        self._worker: Worker[None] | None = None
        self._next: Worker[None] | None = None

    @property
    def _state(self) -> ConsoleState:
        return self._app.state

    # Acting: each asks first.

    def next_stage(self) -> None:
        if gates.live_transition(self._state) or gates.next_transition(self._state) is not None:
            self._run(self._transitions.plan())
            return
        step = gates.next_step(self._state)
        if step.kind == "start":
            self._run(self._ask.start(step.stage))
        elif step.kind == "stop":
            self._run(self._ask.stop(step.stage, step.why))

    def start_stage(self) -> None:
        self._run(self._ask.choose_start())

    def stop_stage(self) -> None:
        self._run(self._ask.choose_stop())

    def free_gpus(self) -> None:
        self._run(self._freeing.free())

    def count_files(self) -> None:
        self._app.controller.count_files()

    def take_over(self) -> None:
        self._run(self._ask.take_over())

    def start(self, stage: str) -> None:
        """Ask, and start this stage."""
        self._run(self._ask.start(stage))

    def stop(self, stage: str) -> None:
        """Ask, and stop this stage."""
        self._run(self._ask.stop(stage))

    def dump_stacks(self) -> None:
        self._run(dumping.dump(self._app))

    # Looking.

    def evidence(self) -> None:
        self._app.clear_notifications()  # what has just rung is in it, and not to be covered by it
        self._app.push_screen(EvidenceScreen(self._state, self._app.controller.curve))

    def transition(self) -> None:
        """Where F is dead, a freeing of GPUs is looked at from here too: the newer of both, and first what lives."""
        found = self._state.view.actions if self._state.view else {}
        newest = max(found.values(), key=lambda one: (one.live_now, one.attempt.started_boot_s or 0.0), default=None)
        if self._state.read_only and newest is not None and newest.attempt.stage == free.ACTION:
            self._run(self._freeing.show())
        else:
            self._run(self._transitions.show())

    def audit(self) -> None:
        self._app.push_screen(AuditScreen(self._state, config.state_dir() / "audit.jsonl", self._app.controller.host_audit))

    def help(self) -> None:
        self._app.push_screen(HelpScreen(self._state))

    def details(self) -> None:
        attempt = self._state.attempt
        self.details_of(self._app.dashboard.focused_stage or (attempt.stage if attempt else next(iter(STAGES))))

    def details_of(self, stage: str) -> None:
        """Open a stage's sheet; its buttons start and stop."""

        def pressed(choice: str | None) -> None:
            if choice == "start":
                self.start(stage)
            elif choice == "stop":
                self.stop(stage)

        self._app.push_screen(DetailsScreen(self._state, stage, self._app.controller.provenance), pressed)

    def problem(self, title: str, text: str) -> None:
        """Show what did not happen, until it was read."""
        self._app.push_screen(ProblemScreen(self._state, title, text))

    def gpus_held(self, stage: str, line: str) -> None:
        """Show why the host's gate did not let a stage start; its key frees them."""

        def pressed(free: bool | None) -> None:
            if free:
                self.free_gpus()

        self._app.push_screen(GpusHeldScreen(self._state, stage, line), pressed)

    def passing_end(self, attempt: Attempt) -> str:
        """What is said of an end that needs no card: a service that was stopped, a step of the rehearsal. Else empty."""
        if is_action(attempt):
            return ""
        if STAGES[attempt.stage].service and words.state_word(self._state, attempt) == serving.OFF:
            return f"{attempt.stage} was stopped: {attempt.why or 'cleanly'}"
        if attempt.id in self._state.driven and attempt.fresh and attempt.stage != LAST_STEP:
            return f"{attempt.stage} is done and verified"
        return ""

    def ended(self) -> None:
        """Show how the attempts ended of which the operator has not seen it yet."""
        endings = self._app.endings

        def pressed(choice: str | None) -> None:
            if choice == AGAIN:
                return
            endings.clear()
            if choice == transition.ACTION:
                self.transition()
            elif choice in ACTIONS:
                self._run(self._freeing.show())
            elif choice is not None:
                self.details_of(choice)

        self._app.push_screen(EndedScreen(self._state, endings.unseen), pressed)

    def end_words(self, attempt: Attempt) -> str:
        """An end as a line that passes by."""
        if is_action(attempt):
            told = f"{done_actions.word(attempt)}, {words.when(self._state, attempt.ended_boot_s)}"
            return f"{attempt.stage}: {told}: {done_actions.line(self._state.view, attempt)}"
        why = attempt.why or attempt.outdated
        return f"{attempt.stage}: {words.state_word(self._state, attempt)}, {words.when(self._state, attempt.ended_boot_s)}" + (
            f": {why}" if why else ""
        )

    def samples(self) -> None:
        self._app.push_screen(SamplesScreen(self._state, self._app.controller.sample))

    def open_run(self) -> None:
        self._run(self._ask.open_run())

    def reconnect(self) -> None:
        self._app.controller.retry()
        self._app.say(f"dialing {self._state.host}")

    def palette(self) -> None:
        self._app.action_command_palette()

    def screenshot(self) -> None:
        screenshot.save(self._app)

    def next_theme(self) -> None:
        names = list(themes.NAMES)
        self._app.theme = names[(names.index(self._app.theme) + 1) % len(names)] if self._app.theme in names else names[0]

    def quit(self) -> None:
        self._app.leave()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """One at a time: what was asked for is neither cut off nor asked for twice, by a double click or a key that repeats."""
        if self._worker is None or self._worker.is_finished:
            self._begin(work)
        elif self._next is None or self._next.is_finished:
            self._next = self._app.run_worker(self._after(self._worker, work), group="flow", exit_on_error=False)
        else:
            work.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._worker = self._app.run_worker(self._guarded(work), group="flow", exit_on_error=False)

    async def _after(self, before: "Worker[None]", work: Coroutine[Any, Any, None]) -> None:
        """Begin it once the one before is done, if that is soon and opens no sheet: then the key was meant for what stood there."""
        tries = round(_PATIENCE_S / _POLL_S)
        while tries and not before.is_finished and len(self._app.screen_stack) == 1:
            tries -= 1
            await asyncio.sleep(_POLL_S)
        if before.is_finished and before is self._worker and len(self._app.screen_stack) == 1:
            self._begin(work)
            return
        work.close()
        if not tries:
            self._app.say(f"one thing at a time: {self._state.busy or 'what was asked for before is under way'}", "warning")

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except StageError as error:
            self._app.problem(unanswered.title(error), str(error))
