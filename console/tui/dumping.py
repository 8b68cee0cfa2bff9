"""The way to a stack dump of the stage that is looked at: asks first, shows what came, and keeps it for the incident bundle."""

from typing import TYPE_CHECKING

from textual.content import Content

from console.tui import gates
from console.tui.bindings import BY_ID
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.dump import DumpScreen
from console.tui.screens.evidence import EvidenceScreen
from console.tui.state import ConsoleState

if TYPE_CHECKING:
    from console.headless.dumping import Dump
    from console.tui.app import ConsoleApp

_MOST_KEPT = 10


async def dump(app: "ConsoleApp") -> None:
    """To be run in a worker. Raises StageError where the host cannot."""
    state = app.state
    one = state.attempt
    if one is None:
        return
    lines = [
        Content(f" Where does each process of {one.stage} stand now? Nothing is ended, and nothing is lost."),
        Content(" By py-spy where the host has it: each process stands still for some milliseconds."),
        Content(" Else by a signal to those processes that have registered for one: they write their stacks themselves."),
    ]
    if not await app.push_screen_wait(
        ConfirmScreen(state, f"Dump the stacks of {one.stage} on {state.host}?", lines, "Dump", danger=False)
    ):
        return
    if why := gates.dump(state):
        app.say(f"{BY_ID['dump_stacks'].label}: {why}", "warning")
        return
    came = await app.controller.dump(one.stage, one.id)
    keep(state, came)

    def show() -> None:
        app.push_screen(DumpScreen(state, came))

    if isinstance(app.screen, EvidenceScreen):
        show()
    else:  # it took a while: over no dialog that was opened meanwhile
        app.sheets.add(show)
        app.tick()


def keep(state: ConsoleState, came: "Dump") -> None:
    """For the incident bundle."""
    if came.text:
        state.dumps = [*state.dumps, came.whole][-_MOST_KEPT:]
        if state.view is not None:
            state.dumped[came.attempt] = state.view.boot_s
