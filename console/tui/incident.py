"""The incident bundle of the console: the screen as it was when the key was pressed, and all that tells of that moment."""

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

from console.tui import gates, health
from console.tui.dumping import keep
from console.tui.screens.confirm import ConfirmScreen
from console.tui.state import ConsoleState
from console.tui.widgets.header import link
from pipeline.contract import signals
from pipeline.errors import StageError

if TYPE_CHECKING:
    from console.core.attempt import Attempt
    from console.tui.app import ConsoleApp

LOG_LINES = 5000


class Picture(NamedTuple):
    """The screen."""

    svg: str
    text: str
    columns: int
    rows: int


def picture(app: "ConsoleApp") -> Picture:
    """As it is painted now."""
    strips = app.screen._compositor.render_strips(app.size)
    text = "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)
    return Picture(app.export_screenshot(title=f"eaglewatch {app.state.host}"), text + "\n", *app.size)


async def save(app: "ConsoleApp", taken: Picture) -> None:
    """Collect, write, and say where it is. In a worker: where a job stalls and nobody has dumped its stacks, that is offered first."""
    state = app.state
    trouble = await _offer_dump(app)
    app.say("collecting what tells of this moment")
    try:
        path, missing = await app.controller.incident(taken, trouble)
    except OSError as error:
        app.problem("Incident bundle", f"{error.filename or 'it'} cannot be written: {error.strerror}")
        return
    without = f"; it misses {missing} things, its README says which and why" if missing else ""
    app.say(f"incident bundle: {path}{without}", "warning" if state.view is None else "information")


async def _offer_dump(app: "ConsoleApp") -> str:
    """Why no stacks are in the bundle; empty when they are, or nothing called for them."""
    state = app.state
    red = stalled(state)
    if red is None:
        return "none was taken; D on the evidence sheet takes one" if not state.dumps else ""
    found = health.verdict(state, red)
    dumped_s, since_s = state.dumped.get(red.id), None if found is None else found.since_boot_s
    if dumped_s is not None and (since_s is None or dumped_s >= since_s):
        return ""
    told = "" if found is None else f": {found.line}"
    if why := gates.dump(state):
        return f"{red.stage} is judged red{told}; none was taken, and none can be now: {why}"
    lines = [
        Content(f" {red.stage} is judged red{told}"),
        Content(),
        Content(" Where each of its processes stands would help whoever reads the bundle. Nothing is ended by it."),
    ]
    asked = ConfirmScreen(state, "Take a stack dump into the bundle?", lines, "Dump first", danger=False, no="Without")
    if not await app.push_screen_wait(asked):
        return f"{red.stage} is judged red{told}; none was taken: it was offered and left out"
    try:
        came = await app.controller.dump(red.stage, red.id)
    except StageError as error:
        return f"{red.stage} is judged red{told}; one was asked for, and failed: {error}"
    keep(state, came)
    return "" if came.text else f"{red.stage} is judged red{told}; one was asked for, and came empty: {came.trouble}"


def stalled(state: ConsoleState) -> "Attempt | None":
    """A running attempt that is judged red, the one that is looked at first."""
    here = state.attempt
    for one in ([here] if here is not None else []) + state.live():
        found = health.verdict(state, one)
        if found is not None and found.severity == signals.RED:
            return one
    return None


async def collect(state: ConsoleState, session: object, taken: Picture, no_dumps: str) -> tuple[str, int]:
    """Its path, and how many things are missing. Raises OSError and StageError."""
    from console.headless import incident_file, incident_parts
    from console.headless.session import Session

    assert session is None or isinstance(session, Session)
    source, here = state.log_source, state.attempt
    dialed = None if session is None else session.link
    why = "" if state.current else f"the link is {link(state)}"
    words = [("link", link(state)), *([("looked at", f"{here.stage}, attempt {here.id}, {here.state}")] if here else [])]
    bundle = incident_file.new(state.host, state.run, words)
    collector = incident_parts.Collector(bundle, dialed, state.run, why)
    await collector.settings(state.settings.resolved if state.settings else None)
    bundle.text("screen.txt", taken.text, f"the screen as text, {taken.columns}x{taken.rows}")
    bundle.text("screen.svg", taken.svg, "the same with its colours: any browser shows it")
    about = f"the newest lines of the log of {source.stage}, attempt {source.attempt}" if source else "the newest lines of the log"
    log = state.ring.lines(max(state.ring.end - LOG_LINES, 0), state.ring.end)
    frames = session.frames.lines() if session is not None else []
    await asyncio.to_thread(incident_parts.add_local, bundle, state.host, frames, log, about, "no log was followed")
    incident_parts.add_verdicts(bundle, state.store, state.live())
    incident_parts.add_versions(bundle, state.hello, link(state), terminal=f"{taken.columns}x{taken.rows}")
    await collector.attempts(incident_parts.concerned(state.store, here.stage if here else None))
    await collector.record()
    incident_parts.add_dumps(bundle, state.dumps, no_dumps)
    path = await asyncio.to_thread(incident_file.write, bundle)
    return str(path), len(bundle.missing)
