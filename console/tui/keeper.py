"""Control of the run: this console asks for it, keeps it across reconnects, and notices when another one has taken it."""

from collections.abc import Awaitable, Callable
from typing import Any

from console.core import reading
from console.tui.messages import Changed, Said
from console.tui.options import Clocks
from console.tui.state import ConsoleState
from console.tui.tasks import Tasks
from pipeline.errors import StageError

CLAIM_EVERY_S = 2.0
_FAILED = "failed"
"""``remote.errors.FAILED``: the host understood and could not."""

Ask = Callable[[bool, str], Awaitable[dict[str, Any]]]
"""Asks the host: with or without a take-over, and from whom."""


class ControlKeeper:
    """``heard`` after each frame, ``want`` after each connection."""

    def __init__(self, state: ConsoleState, clocks: Clocks, tasks: Tasks, ask: Ask):
        self._state, self._clocks, self._tasks, self._ask = state, clocks, tasks, ask
        self.reset()

    def reset(self) -> None:
        """Another run is watched."""
        self._state.in_control, self._state.lost_control_to = False, ""
        self._asked_s = self._claimed_boot_s = float("-inf")
        self._told = self._unrecorded = False

    def want(self, now: bool = False) -> None:
        """Ask for control unless it was taken from here, or this console only looks. ``now``: however lately it was asked for."""
        state = self._state
        asked_s = self._clocks.boot_s()
        if state.run is None or state.read_only or state.lost_control_to or (not now and asked_s - self._asked_s < CLAIM_EVERY_S):
            return
        self._asked_s = asked_s
        self._tasks.spawn(self._want(), "asking for control")

    def heard(self) -> None:
        """Compare the newest frame with what this console believes."""
        state, view, control = self._state, self._state.view, self._state.control
        if view is None or view.boot_s <= self._claimed_boot_s:
            return  # made before the host gave it to us
        if state.in_control and not (control.yours if control is not None else self._unrecorded):
            state.in_control = False
            if control is not None:
                state.lost_control_to = control.by
                self._say(f"{control.by} took control of {state.run}: this console only looks now. T takes it back")
        if not state.in_control and control is None:
            self.want()

    async def claim(self, take_over: bool) -> bool:
        """Whether this console has control now. Raises StageError."""
        state = self._state
        reply = await self._ask(take_over, state.control.by if state.control else "")
        yours = reply.get("yours") is True
        if yours:
            state.in_control, state.lost_control_to, self._unrecorded = True, "", False
            boot_s = reading.number(reply, "boot_s")
            self._claimed_boot_s = float("-inf") if boot_s is None else boot_s
        else:
            by = reading.text(reading.mapping(reply, "holder"), "by") or "another console"
            self._say_once(f"{by} has control of {state.run}: this console only looks. T takes over")
        self._tasks.post(Changed())
        return yours

    async def _want(self) -> None:
        """Claim it. A host that cannot write the claim down (a full disk) must not keep anybody from stopping a job."""
        try:
            await self.claim(take_over=False)
        except StageError as error:
            if getattr(error, "kind", "") != _FAILED:
                raise
            if self._state.control is None:
                self._state.in_control = self._unrecorded = True
                self._say_once(f"the host cannot record who has control ({error}): this console acts, and others are not kept from it")

    def _say_once(self, text: str) -> None:
        if not self._told:
            self._told = True
            self._say(text)

    def _say(self, text: str) -> None:
        self._tasks.post(Said(text, "warning"))
