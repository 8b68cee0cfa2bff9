"""Freeing GPUs while the host does it: its steps, the countdown of the present wait, and the memory of each GPU over time."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from textual.content import Content
from textual.widgets import Button

from console.core import fmt, free_live
from console.core.action import Action
from console.tui.draw import GOOD, MUTED, STRONG, WARN
from console.tui.free_gate import may_free
from console.tui.messages import Problem
from console.tui.screens.card import Card, Choice
from console.tui.state import ConsoleState
from pipeline.contract import free
from pipeline.errors import StageError

if TYPE_CHECKING:
    from console.tui.controller import Controller

_AROUND = 5
_BESIDE_CURVE = 24
"""Columns of a GPU's index and numbers."""


class FreeLiveScreen(Card[Action | None]):
    """Watches one attempt. Gives back how it ended, or None when it was closed: then it goes on without a sheet."""

    def __init__(
        self, state: ConsoleState, controller: "Controller", attempt: str = "", launch: Callable[[], Awaitable[str]] | None = None
    ) -> None:
        """``attempt``: one that runs; else ``launch`` begins one and gives its id. What it raises is in ``failed``."""
        super().__init__(state)
        self._controller, self._attempt, self._launch = controller, attempt, launch
        self._action: Action | None = None
        self._steps: list[free_live.Step] = []
        self._events_s: float | None = None
        self._asking = False
        self._cancelled = ""
        self.failed: StageError | None = None

    def heading(self) -> str:
        return f"{'SIMULATED  ' if self.state.store.simulated else ''}Freeing GPUs of {self.state.host}"

    def choices(self) -> Sequence[Choice]:
        return (Choice("close", "Close: it goes on"), Choice("cancel", "Cancel it", "error"))

    def on_mount(self) -> None:
        self.state.freeing = self._attempt
        if self._launch is not None and not self._attempt:
            # The app's worker: closing the sheet must not cut off the question, whose answer goes on record.
            self.app.run_worker(self._begin(self._launch), group="freeing", exit_on_error=False)
        self.tick()

    def on_unmount(self) -> None:
        self.state.freeing = ""

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
            self.state.freeing = self._attempt
            self.tick()

    def tick(self) -> None:
        if not self.query("#body"):  # not there yet, or not any more
            return
        one = self.state.view.actions.get(free.ACTION) if self.state.view else None
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
        if not self._steps:
            self._steps = free_live.steps(free_live.in_frame(one))
        if newest_s != self._events_s and not self._asking and self.state.current:
            self._events_s, self._asking = newest_s, True
            self.run_worker(self._read(one), exit_on_error=False)

    async def _read(self, one: Action) -> None:
        try:
            found = await self._controller.free_events(one.run, one.attempt.id)
            self._steps = free_live.steps(found or free_live.in_frame(one))
        except StageError:
            self._steps = free_live.steps(free_live.in_frame(one))
            self._events_s = None  # asked again with the next frame
        finally:
            self._asking = False

    def chosen(self, choice: str) -> None:
        if choice == "cancel" and self._action is not None and self._why_not() is None:
            self._cancelled = "it is cancelled already"
            self.app.run_worker(self._cancel(self._action), group="freeing", exit_on_error=False)
        elif choice == "close":
            self.dismiss(None)

    async def _cancel(self, one: Action) -> None:
        try:
            await self._controller.cancel_freeing(one.run, one.attempt.id)
        except StageError as error:
            self._cancelled = ""
            self.notify(str(error), severity="warning", markup=False)

    def body(self) -> Sequence[Content]:
        one, view = self._action, self.state.view
        if one is None or view is None:
            said = "the host surveys again; if anything differs from the plan, nothing is done"
            return [Content.styled(f" {said}", STRONG)]
        age = self.state.age_s
        now_s = view.boot_s + (age or 0.0)
        since = view.age_s(one.attempt.started_boot_s, age)
        run = f", run {one.run}" if one.run else ""
        lines = [Content.styled(f" by {one.attempt.by or 'unknown'}{run}, for {fmt.duration(since)}; it runs on the host", MUTED)]
        if not self.state.current:
            word = self.state.link.word if self.state.link else "not there"
            lines.append(Content.styled(f" the link is {word}: the host goes on; this is {fmt.age(age)} old", WARN))
        lines.append(Content.assemble((f" {free_live.standing(one)}  ", STRONG), free_live.countdown(one, now_s)))
        lines += step_lines(self._steps)
        return [*lines, *self._curve(one)]

    def _curve(self, one: Action) -> list[Content]:
        width = max(self.query_one("#sheet").size.width - _AROUND, 20) if self.is_mounted else 70
        return curve_lines(one.curve, width)


def step_lines(steps: Sequence[free_live.Step]) -> list[Content]:
    """One line a step: done, or under way."""
    lines = []
    for one in steps:
        if one.result is None:
            lines.append(Content.assemble((f" ▶ {one.name:<12} ", STRONG), one.what))
        else:
            took = f"  {fmt.age(one.seconds)}" if one.seconds is not None and one.seconds >= 0.05 else ""
            lines.append(Content.assemble((" ✓ ", GOOD), f"{one.name:<12} {one.what}: {one.result}", (took, MUTED)))
    return lines


def curve_lines(points: Any, width: int) -> list[Content]:
    """Memory over time, two GPUs a line where there is room."""
    side_by_side = 2 if width >= 68 else 1
    columns = max((width - 2) // side_by_side - _BESIDE_CURVE, 8)
    drawn = free_live.curve(points, columns)
    if not drawn:
        return []
    cells = [f"{gpu:>2} {marks:<{columns}} {_mib(first):>7} -> {_mib(last):<7}" for gpu, (marks, first, last) in enumerate(drawn)]
    lines = [Content.styled(f" MiB a GPU over {fmt.duration(free_live.span_s(points))}; · is 0, ? was not read", MUTED)]
    half = -(-len(cells) // side_by_side)
    for at in range(half):
        lines.append(
            Content(" " + " ".join(cells[at + half * beside] for beside in range(side_by_side) if at + half * beside < len(cells)))
        )
    return lines


def _mib(mib: int | None) -> str:
    return "?" if mib is None else fmt.count(mib)
