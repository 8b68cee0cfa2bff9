"""The inference server in words: the run's own by its attempt, every other one as the host recognised it."""

from typing import TYPE_CHECKING

from console.core import fmt, gates, service
from console.tui.draw import BAD, GOOD, PLAIN, STRONG, WARN
from console.tui.state import ConsoleState
from pipeline.contract import telemetry

if TYPE_CHECKING:
    from console.core.attempt import Attempt
    from console.core.servers import Server

STAGE = gates.SERVER
OFF = service.OFF.lower()
NOT_OURS, OTHER_RUN, NO_ANSWER, STOPPING = "not ours", "other run", "NO ANSWER", "stopping"


def attempt(state: ConsoleState) -> "Attempt | None":
    """The run's own serve stage: its newest attempt."""
    return gates.own_server(state.view)


def others(state: ConsoleState) -> "list[Server]":
    """Servers on the host that are no live attempt of this run."""
    return gates.other_servers(state.view)


def word(state: ConsoleState, one: "Attempt") -> str:
    """``UP``, ``LOADING 14/64``, ``NO ANSWER 12 s``, ``DOWN``, ``off``: never a tick, and UP only when it answered when asked last."""
    if not one.live:
        return OFF if one.done or service.word(one) == service.OFF else service.DOWN
    progress = one.progress
    if one.state == telemetry.STOPPING or (progress is not None and progress.phase == telemetry.FINISHING):
        return STOPPING
    said = service.word(one)
    if said != service.DOWN:
        return said
    since = state.view.age_s(progress.up_boot_s, state.age_s) if state.view and progress else None
    return NO_ANSWER if since is None else f"{NO_ANSWER} {fmt.duration(since)}"


def style(said: str) -> str:
    """The colour of a word; the word says the same."""
    if said == service.UP:
        return GOOD
    if said.startswith((NO_ANSWER, NOT_OURS, OTHER_RUN)):
        return WARN
    return BAD if said == service.DOWN else PLAIN if said == OFF else STRONG


def cell_word(state: ConsoleState) -> str:
    """What the strip says: of the run's own server, or that there is one of another run, or one that is not ours."""
    own = attempt(state)
    if own is not None and own.live:
        return word(state, own)
    if there := others(state):
        return OTHER_RUN if all(one.ours and one.run for one in there) else NOT_OURS
    return OFF if own is None else word(state, own)


def rows(server: "Server", host: str) -> list[tuple[str, str]]:
    """One server in the details: what it is, whose, and how a person ends it."""
    up = f", for {fmt.duration(server.up_s)}" if server.up_s is not None else ""
    whose = {
        True: f"eaglewatch's, attempt {server.attempt or 'unknown'} of run {server.run or 'unknown'}",
        False: "not ours: eaglewatch never signals it",
        None: "whose it is cannot be read, so it counts as not ours",
    }[server.ours]
    return [
        ("server", gates.about(server) + up),
        ("model", server.model or fmt.UNKNOWN),
        ("whose", whose),
        ("to stop it", gates.for_host(server.how_to_stop, host) or "not known"),
        ("command", server.argv or fmt.UNKNOWN),
    ]
