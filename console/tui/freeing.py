"""The way through freeing GPUs: the plan, the typed phrase, watching the host do it, the receipt; where something differs, a new plan."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from textual.content import Content

from console.core import free_live, free_memory, free_receipt, reading
from console.core.action import Action
from console.core.free_plan import Key, Plan
from console.tui.draw import rows
from console.tui.free_gate import may_accept, may_free
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.free_confirm import PhraseScreen
from console.tui.screens.free_gpus import RECEIPT, FreeGpusScreen
from console.tui.screens.free_live import FreeLiveScreen
from console.tui.screens.free_receipt import ACCEPT, AGAIN, FreeReceiptScreen
from console.tui.state import ConsoleState
from pipeline.contract import free
from pipeline.errors import StageError

if TYPE_CHECKING:
    from console.tui.app import ConsoleApp

_FRAME_POLL_S, _FRAME_TRIES = 0.05, 60
"""Frames come once a second."""


class Freeing:
    """Bound to the app. To be run in a worker; what the host refuses is raised as StageError."""

    def __init__(self, app: "ConsoleApp"):
        self._app = app
        self._put_off: set[tuple[str, frozenset[tuple[str, int]]]] = set()
        """Baselines that the operator did not accept when asked."""

    @property
    def _state(self) -> ConsoleState:
        return self._app.state

    async def free(self, changed: Sequence[str] = ()) -> None:
        """What runs is shown; else the plan, and what follows from it. ``changed``: why the plan before is not done."""
        one = self._newest()
        before: Plan | None = None
        selection: frozenset[Key] | None = None
        if one is not None and one.live_now:
            changed, again = await self._see(one)
            if not changed and not again:
                return
        while True:
            survey = self._app.controller.free_plan
            picked = await self._app.push_screen_wait(FreeGpusScreen(self._state, survey, changed, before, selection))
            if picked is None:
                return
            changed = ()
            if picked.plan is not None:
                before, selection = picked.plan, picked.selection
            last = self._newest()
            if picked.choice == RECEIPT:
                if last is not None:
                    changed, again = await self._see(last, asked=True)
                    if not changed and not again:
                        return
            elif picked.plan is not None:
                done = await self._confirm_and_do(picked.plan, picked.selection)
                if done is not None:
                    changed, again = done
                    if not changed and not again:
                        return

    async def show(self) -> None:
        """The one at work, or what the last one came to; the plan, where that is wanted then."""
        one = self._newest()
        if one is None:
            return
        changed, again = await self._see(one, asked=True)
        if again:
            await self.free(changed)

    async def _see(self, one: Action, asked: bool = False) -> tuple[list[str], bool]:
        """One that runs is watched, then what it came to is shown: as ``_ended``."""
        if one.live_now:
            ended = await self._app.push_screen_wait(FreeLiveScreen(self._state, self._app.controller, one.attempt.id))
            if ended is None:
                return [], False
            one, asked = ended, False
        return await self._ended(one, asked)

    async def offer_baseline(self, run: str, gpus: dict[str, int]) -> bool:
        """Ask whether what idle GPUs hold ({UUID: bytes}, as recorded) is accepted for this run, and accept it."""
        state = self._state
        mark = "SIMULATED  " if state.store.simulated else ""
        question = f"{mark}Accept the idle baseline of {state.host} for run {run}?"
        screen = ConfirmScreen(state, question, baseline_lines(run, gpus), "Accept it", danger=False, no="Not now")
        if not await self._app.push_screen_wait(screen):
            return False
        if why := may_accept(state, run):
            self._app.say(f"Accept the baseline: {why}", "warning")
            return False
        accepted = await self._app.controller.accept_baseline(run, gpus)
        sizes = free_memory.list_mib(accepted[uuid] for uuid in sorted(accepted))
        self._app.say(f"baseline accepted: {sizes} MiB, for run {run} and until the host restarts; that is not 0")
        await self._told(accepted)
        return True

    async def _told(self, accepted: dict[str, int]) -> None:
        """Until a frame says so, within moments: what is shown next shall say it too."""
        for _ in range(_FRAME_TRIES):
            if self._state.view is not None and not free_memory.to_accept(accepted, self._state.view.baseline_accepted):
                return
            await asyncio.sleep(_FRAME_POLL_S)

    async def ask_baseline(self) -> None:
        """Before GPUs are looked at for a stage: offer what was recorded of idle ones, as long as it was neither accepted nor put off."""
        run, view = self._state.run, self._state.view
        gpus = free_memory.to_accept(view.baseline_recorded, view.baseline_accepted) if view else {}
        if run is None or not gpus or (run, frozenset(gpus.items())) in self._put_off or may_accept(self._state, run):
            return
        if not await self.offer_baseline(run, gpus):
            self._put_off.add((run, frozenset(gpus.items())))

    async def _confirm_and_do(self, plan: Plan, selection: frozenset[Key]) -> tuple[list[str], bool] | None:
        """(difference, whether a new plan is wanted); None: it was cancelled, and the plan is shown again."""
        state, app = self._state, self._app
        phrase = await app.push_screen_wait(PhraseScreen(state, plan, selection))
        if phrase is None:
            return None
        if why := may_free(state):
            app.say(f"Free GPUs: {why}", "warning")
            return None
        run = reading.text(plan.source, "run") or None
        live = FreeLiveScreen(state, app.controller, run=run, launch=lambda attempt: app.controller.free(plan, selection, phrase, attempt))
        ended = await app.push_screen_wait(live)
        if live.failed is not None:
            raise live.failed
        return ([], False) if ended is None else await self._ended(ended)

    async def _ended(self, ended: Action, asked: bool = False) -> tuple[list[str], bool]:
        """Show what it came to: (difference, whether a new plan is wanted). ``asked``: for its receipt, also of one that did nothing."""
        controller = self._app.controller
        if not self._state.current:
            self._app.say("reading its receipt, which waits for the link")
        try:
            receipt = await controller.action_receipt(free.ACTION, ended.run, ended.attempt.id)
            steps = [] if receipt else free_live.steps(await controller.action_events(free.ACTION, ended.run, ended.attempt.id))
        except StageError as error:
            self._app.problem("Its receipt cannot be read now", f"{free_live.standing(ended)}\n{error}\nF, then Receipt, asks for it again")
            return [], False
        if not asked and not self._state.read_only and (changed := free_receipt.changed(receipt)):
            return changed, True
        pressed = await self._app.push_screen_wait(FreeReceiptScreen(self._state, ended, receipt, steps))
        run, gpus = self._state.run, free_receipt.acceptable(receipt)
        if pressed == ACCEPT and run is not None and gpus:
            await self.offer_baseline(run, gpus)
        return [], pressed == AGAIN

    def _newest(self) -> Action | None:
        return self._state.view.actions.get(free.ACTION) if self._state.view else None


def baseline_lines(run: str, gpus: dict[str, int]) -> list[Content]:
    """Before an idle baseline is accepted: what that means, and what it does not."""
    sizes = free_memory.list_mib(gpus[uuid] for uuid in sorted(gpus))
    pairs: list[tuple[str, Any]] = [
        ("idle GPUs held", f"{sizes} MiB, in five readings, with nobody on them, since the host started"),
        ("accepting it", f"lets stages of run {run} start on these GPUs, as long as none holds more, until the host restarts"),
        ("if not", "a GPU that is not at 0 MiB is not free: no stage starts on it, and a transition stops there"),
        ("every screen", f"then says {free_memory.ACCEPTED!r}, never 0"),
        ("recorded", "in the audit log here and on the host"),
    ]
    return rows(pairs)
