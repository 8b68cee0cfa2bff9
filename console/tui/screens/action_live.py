"""An action of the host while the host does it: a sheet that follows one attempt, and may cancel it. It can be closed: the host goes on."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.content import Content
from textual.widgets import Button

from console.core import fmt, free_live
from console.core.action import Action
from console.tui.draw import MUTED, STRONG, WARN
from console.tui.free_gate import may_free
from console.tui.messages import Problem
from console.tui.screens.card import Card, Choice
from console.tui.state import ConsoleState
from pipeline.errors import StageError

if TYPE_CHECKING:
    from console.tui.controller import Controller


class ActionLiveScreen(Card[Action | None]):
    """Base: override ``heading``, ``beginning`` and ``lines``. Gives back how it ended, or None when it was closed."""

    action: ClassVar[str]
    """Of ``contract.stages.ACTIONS``."""
    cancel_label = "Cancel it"

    def __init__(
        self, state: ConsoleState, controller: "Controller", attempt: str = "", launch: Callable[[], Awaitable[str]] | None = None
    ) -> None:
        """``attempt``: one that runs; else ``launch`` begins one and gives its id. What it raises is in ``failed``."""
        super().__init__(state)
        self.controller, self._attempt, self._launch = controller, attempt, launch
        self._action: Action | None = None
        self.events: list[dict[str, Any]] = []
        self._events_s: float | None = None
        self._asking = False
        self._cancelled = ""
        self.failed: StageError | None = None

    def beginning(self) -> str:
        """What is said before the first frame about it."""
        raise NotImplementedError

    def lines(self, one: Action, now_s: float) -> Sequence[Content]:
        """How it stands. ``now_s``: host time."""
        raise NotImplementedError

    def choices(self) -> Sequence[Choice]:
        return (Choice("close", "Close: it goes on"), Choice("cancel", self.cancel_label, "error"))

    def on_mount(self) -> None:
        self.state.shown_action = self._attempt
        if self._launch is not None and not self._attempt:
            # The app's worker: closing the sheet must not cut off the question, whose answer goes on record.
            self.app.run_worker(self._begin(self._launch), group="action", exit_on_error=False)
        self.tick()

    def on_unmount(self) -> None:
        self.state.shown_action = ""

    async def _begin(self, launch: Callable[[], Awaitable[str]]) -> None:
        try:
            self._attempt = await launch()
        except StageError as error:
            if not self.is_current:
                self.app.post_message(Problem("It did not happen", str(error)))
                return
            self.failed = error
            self.dismiss(None)
            return
        if self.is_current:
            self.state.shown_action = self._attempt
            self.tick()

    def tick(self) -> None:
        if not self.query("#body"):  # not there yet, or not any more
            return
        one = self.state.view.actions.get(self.action) if self.state.view else None
        if one is not None and one.attempt.id == self._attempt and self._attempt:
            self._action = one
            self._look_at_events(one)
            if one.attempt.ended and self.is_current:
                self.dismiss(one)
                return
        button, why = self.query_one("#choice-cancel", Button), self._why_not()
        button.disabled, button.tooltip = why is not None, None if why is None else Content(why)
        super().tick()

    def _why_not(self) -> str | None:
        if self._action is None:
            return "it has not begun"
        return self._cancelled or may_free(self.state)

    def _look_at_events(self, one: Action) -> None:
        """A frame has only the newest events; all of them are asked for when there are new ones."""
        newest_s = free_live.newest_event_s(one)
        if not self.events:
            self.events = free_live.in_frame(one)
        if newest_s != self._events_s and not self._asking and self.state.current:
            self._events_s, self._asking = newest_s, True
            self.run_worker(self._read(one), exit_on_error=False)

    async def _read(self, one: Action) -> None:
        try:
            found = await self.controller.action_events(self.action, one.run, one.attempt.id)
            self.events = found or free_live.in_frame(one)
        except StageError:
            self.events = free_live.in_frame(one)
            self._events_s = None  # asked again with the next frame
        finally:
            self._asking = False

    def chosen(self, choice: str) -> None:
        if choice == "cancel" and self._action is not None and self._why_not() is None:
            self._cancelled = "it is cancelled already"
            self.app.run_worker(self._cancel(self._action), group="action", exit_on_error=False)
        elif choice == "close":
            self.dismiss(None)

    async def _cancel(self, one: Action) -> None:
        try:
            await self.controller.cancel_action(self.action, one.run, one.attempt.id)
        except StageError as error:
            self._cancelled = ""
            self.notify(str(error), severity="warning", markup=False)

    def body(self) -> Sequence[Content]:
        one, view = self._action, self.state.view
        if one is None or view is None:
            return [Content.styled(f" {self.beginning()}", STRONG)]
        age = self.state.age_s
        since = view.age_s(one.attempt.started_boot_s, age)
        run = f", run {one.run}" if one.run else ""
        lines = [Content.styled(f" by {one.attempt.by or 'unknown'}{run}, for {fmt.duration(since)}; it runs on the host", MUTED)]
        if not self.state.current:
            word = self.state.link.word if self.state.link else "not there"
            lines.append(Content.styled(f" the link is {word}: the host goes on; this is {fmt.age(age)} old", WARN))
        return [*lines, *self.lines(one, view.boot_s + (age or 0.0))]
