"""An action of the host while the host does it: a sheet that follows one attempt, and may cancel it. It can be closed: the host goes on."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.containers import VerticalScroll
from textual.content import Content

from console.core import fmt, free_live
from console.core.action import Action
from console.core.views import HostView
from console.tui import unanswered
from console.tui.draw import MUTED, STRONG, WARN
from console.tui.free_gate import may_free
from console.tui.messages import Problem
from console.tui.screens.card import Choice
from console.tui.screens.gated import GatedCard, off
from console.tui.state import ConsoleState
from pipeline.contract import layout
from pipeline.errors import StageError

if TYPE_CHECKING:
    from console.tui.controller import Controller

_PATIENCE_S = 2.0
"""Host time. Frames come once a second; after so long without a word of it the host does not tell of this attempt."""

Launch = Callable[[str], Awaitable[Any]]
"""Begins the action as this attempt."""


class ActionLiveScreen(GatedCard[Action | None]):
    """Base: override ``heading``, ``beginning`` and ``lines``. Gives back how it ended, or None when it was closed."""

    action: ClassVar[str]
    """Of ``contract.stages.ACTIONS``."""
    cancel_label = "Cancel it"

    def __init__(
        self, state: ConsoleState, controller: "Controller", attempt: str = "", launch: Launch | None = None, run: str | None = None
    ) -> None:
        """``attempt``: one that runs; else ``launch`` begins one, of ``run``. What it raises is in ``failed``."""
        super().__init__(state)
        self.controller, self._attempt, self._launch, self._run = controller, attempt or layout.new_attempt_id(), launch, run
        self._answered = launch is None
        self._action: Action | None = None
        self._told: tuple[str, float] | None = None
        """Boot and host time of the newest frame that told of it."""
        self._asked_s: float | None = None
        """Host time of the frame after which its end was asked for."""
        self._ended: Action | None = None
        self.events: list[dict[str, Any]] = []
        self._events_s: float | None = None
        self._asking = False
        self._cancelled = ""
        self.failed: StageError | None = None

    def beginning(self) -> str:
        """What is said before the first frame about it."""
        raise NotImplementedError

    def lines(self, one: Action, now_s: float) -> Sequence[Content]:
        """How it stands, what is newest last: the end is in sight. ``now_s``: host time."""
        raise NotImplementedError

    def choices(self) -> Sequence[Choice]:
        return (Choice("close", "Close: it goes on"), Choice("cancel", self.cancel_label, "error", self._why_not()))

    def on_mount(self) -> None:
        self.state.shown_action = self._attempt
        if self._launch is not None:
            # The app's worker: closing the sheet must not cut off the question, whose answer goes on record.
            self.app.run_worker(self._begin(self._launch), group="action", exit_on_error=False)
        self.tick()

    def on_unmount(self) -> None:
        self.state.shown_action = ""

    async def _begin(self, launch: Launch) -> None:
        try:
            await launch(self._attempt)
        except StageError as error:
            if unanswered.is_unanswered(error) and self._action is not None:
                self._answered = True  # frames tell of it: that is the answer
                return
            if not self.is_current:
                self.app.post_message(Problem(unanswered.title(error), str(error)))
                return
            self.failed = error
            self.dismiss(None)
            return
        self._answered = True
        if self._told is None and self.state.view is not None:
            self._told = (self.state.view.boot_id, self.state.view.boot_s)
        if self.is_current:
            self.tick()

    def tick(self) -> None:
        if not self.query("#body"):  # not there yet, or not any more
            return
        view = self.state.view
        one = view.actions.get(self.action) if view else None
        if view is not None and one is not None and one.attempt.id == self._attempt:
            self._action, self._told = one, (view.boot_id, view.boot_s)
            self._look_at_events(one)
            if one.attempt.ended:
                self._ended = one
        elif view is not None and self._untold_s(view) is not None and self.state.current and self._asked_s != view.boot_s:
            self._asked_s = view.boot_s
            self.run_worker(self._look_for_end(), exit_on_error=False)
        if self._ended is not None and self.is_current:
            self.dismiss(self._ended)
            return
        scroll, before = self.query_one("#scroll", VerticalScroll), self._shown
        at_end = scroll.is_vertical_scroll_end
        super().tick()
        if at_end and self._shown is not before:  # who has scrolled up reads on
            scroll.scroll_end(animate=False)

    def _untold_s(self, view: HostView) -> float | None:
        """For how long frames have come that do not tell of it, though it began; None while that is as it should be. Infinite: unknown."""
        if self._told is None:
            return None
        boot_id, boot_s = self._told
        untold_s = view.boot_s - boot_s if boot_id == view.boot_id else float("inf")
        return untold_s if untold_s > _PATIENCE_S else None

    async def _look_for_end(self) -> None:
        """Another attempt may have begun since ours ended: its own files tell how."""
        try:
            self._ended = await self.controller.action_end(self.action, self._action.run if self._action else self._run, self._attempt)
        except StageError:
            return  # asked again with the next frame
        self.tick()

    def _why_not(self) -> str | None:
        if self._action is None:
            return "it is not known yet whether it began"
        return self._cancelled or may_free(self.state)

    def _look_at_events(self, one: Action) -> None:
        """A frame has only the newest events; all of them are asked for when there are new ones."""
        newest_s = free_live.newest_event_s(one)
        self.events = free_live.joined(self.events, free_live.in_frame(one))
        if newest_s != self._events_s and not self._asking and self.state.current:
            self._events_s, self._asking = newest_s, True
            self.run_worker(self._read(one), exit_on_error=False)

    async def _read(self, one: Action) -> None:
        try:
            found = await self.controller.action_events(self.action, one.run, one.attempt.id)
            self.events = free_live.joined(found, self.events)
        except StageError:
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
        one, view, age = self._action, self.state.view, self.state.age_s
        if one is None or view is None:
            sent = "" if self._answered else "it was sent to the host, which has not answered yet"
            lines = [Content.styled(f" {self.beginning()}", STRONG), *([Content.styled(f" {sent}", MUTED)] if sent else [])]
            return [*lines, *self._doubts("whether it began is not known here; the host goes on by itself")]
        since = view.age_s(one.attempt.started_boot_s, age)
        run = f", run {one.run}" if one.run else ""
        lines = [Content.styled(f" by {one.attempt.by or 'unknown'}{run}, for {fmt.duration(since)}; it runs on the host", MUTED)]
        lines += self.lines(one, view.boot_s + (age or 0.0))
        lines += self._doubts(f"the host goes on; this is {fmt.age(age)} old")
        if self.state.current and not self._cancelled:
            lines += off(self.cancel_label, may_free(self.state))
        return lines

    def _doubts(self, then: str) -> list[Content]:
        """Why what is below is old; nothing when it is not."""
        view, found = self.state.view, []
        if not self.state.current:
            word = self.state.link.word if self.state.link else "not there"
            found.append(f"the link is {word}: {then}")
        elif view is not None and (untold_s := self._untold_s(view)) is not None:
            other = view.actions.get(self.action)
            instead = f"tells of another one, by {other.attempt.by or 'somebody'}" if other is not None else "does not tell of it now"
            old = "of unknown age" if untold_s == float("inf") else f"{fmt.age(untold_s + (self.state.age_s or 0.0))} old"
            found.append(f"the host {instead}: this is {old}, and its end is being asked for")
        return [Content.styled(f" {one}", WARN) for one in found]
