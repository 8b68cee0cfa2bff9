"""What ``rehearse`` means on the screen: the steps of the pipeline are taken as a person would take them, each told before it is taken.

It stops at the first thing that goes wrong, or when another console takes over, and leaves the rest to the operator. Everything that it
does goes the operator's own way: through the controller, into the same records.
"""

from typing import Any, Protocol

from console.core import chain, transition_next
from console.core.attempt import Attempt
from console.core.chain import Step
from console.tui.messages import Said
from console.tui.options import CHAIN, Options
from console.tui.state import ConsoleState
from console.tui.tasks import Tasks

_LOOK_S = 0.5


class Hands(Protocol):
    """What it acts through: the controller."""

    def interpreter(self, stage: str) -> str | None: ...

    async def launch(self, stage: str, interpreter: str, args: list[str]) -> str: ...

    async def stop(self, attempt: Attempt) -> str: ...


class Rehearser:
    """``run`` it once the host has told of the run and this console has control."""

    def __init__(self, state: ConsoleState, options: Options, tasks: Tasks, hands: Hands, session: Any, opened: Any, wire: Any):
        self._state, self._options, self._tasks = state, options, tasks
        self._hands, self._session, self._opened, self._wire = hands, session, opened, wire

    async def run(self) -> None:
        """Start what was asked for, unless it runs or is done. Raises StageError."""
        await self._session.frame_of(self._state.run)
        if self._options.start != CHAIN:
            await self._start_once(str(self._options.start))
            return
        await self._wire.put_rehearsal_settings(self._session, self._opened)
        await self._steps()

    async def _start_once(self, stage: str) -> None:
        one, limit = self._state.store.attempt(stage), self._options.limit
        if one is not None and (one.live or self._wire.covers(one, limit)):
            self._say(f"{stage} {'runs already' if one.live else 'is done already; rehearse --fresh starts anew'}")
            return
        await self._launch(stage, ["--limit", str(limit)] if limit else [])

    async def _steps(self) -> None:
        forgiven = chain.bad_ends(self._stages())
        while True:
            state = self._state
            if not state.in_control:
                self._say(f"the rehearsal goes no further by itself: {state.lost_control_to or 'another console'} has control", "warning")
                return
            if self._session.over:
                self._say(f"the rehearsal goes no further by itself: the link is {self._session.now().words}", "warning")
                return
            if transition_next.live(state.view, state.run) is not None:
                await self._session.wait(_LOOK_S)  # the operator has confirmed the way: the host takes the steps
                continue
            step = chain.next_step(state.view, chain.DATA_STAGES, forgiven)
            if step.kind == "finished":
                self._say(f"the rehearsal is done: {step.why}, every receipt verified")
                return
            if step.kind == "failed":
                self._say(f"the rehearsal stops here: {step.why}. The next step is yours: >", "warning")
                return
            if step.kind == "wait" or state.busy or not state.current:
                await self._session.wait(_LOOK_S)
                continue
            await self._take(step)

    async def _take(self, step: Step) -> None:
        """Take the step, and wait until a frame tells of it: an older one would have it taken again."""
        before = self._stages().get(step.stage)
        why = "" if step.why == "is next" else f": {step.why.removeprefix('is ')}"
        self._say(f"the rehearsal {'starts' if step.kind == 'start' else 'stops'} {step.stage}{why}")
        if step.kind == "start":
            await self._launch(step.stage, [])
        elif before is not None:
            await self._hands.stop(before)
        while not chain.told(step, before, self._stages().get(step.stage)) and self._state.in_control and not self._session.over:
            await self._session.wait(_LOOK_S)

    async def _launch(self, stage: str, args: list[str]) -> None:
        interpreter = self._hands.interpreter(stage)
        assert interpreter is not None, "the rehearsal host names one for every stage"
        self._state.driven.add(await self._hands.launch(stage, interpreter, args))

    def _stages(self) -> dict[str, Attempt]:
        return (self._state.view.stages or {}) if self._state.view else {}

    def _say(self, text: str, severity: str = "information") -> None:
        self._tasks.post(Said(text, severity))
