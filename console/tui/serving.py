"""The inference server in words: the run's own by its attempt, every other one as the host recognised it."""

from typing import TYPE_CHECKING

from console.core import fmt, service
from console.tui.draw import BAD, GOOD, PLAIN, STRONG, WARN
from console.tui.state import ConsoleState
from pipeline.contract import telemetry
from pipeline.contract.stages import STAGES

if TYPE_CHECKING:
    from console.core.attempt import Attempt
    from console.core.servers import Server

STAGE = next(name for name, stage in STAGES.items() if stage.service)
OFF = service.OFF.lower()
NOT_OURS, NO_ANSWER, STOPPING = "not ours", "NO ANSWER", "stopping"
_HELD_BYTES = 1 << 30
"""A GPU with more than that in use is held by something: the driver and a desktop need less."""


def attempt(state: ConsoleState) -> "Attempt | None":
    """The run's own serve stage: its newest attempt."""
    return (state.view.stages or {}).get(STAGE) if state.view else None


def others(state: ConsoleState) -> "list[Server]":
    """Servers on the host that are no live attempt of this run."""
    servers, own = state.view.servers if state.view else None, attempt(state)
    live = own.id if own is not None and own.live else None
    return [one for one in servers or () if live is None or one.attempt != live]


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
    if said.startswith((NO_ANSWER, NOT_OURS)):
        return WARN
    return BAD if said == service.DOWN else PLAIN if said == OFF else STRONG


def cell_word(state: ConsoleState) -> str:
    """What the strip says: of the run's own server, or that there is one which is not ours."""
    own = attempt(state)
    if own is not None and own.live:
        return word(state, own)
    if others(state):
        return NOT_OURS
    return OFF if own is None else word(state, own)


def endpoint(state: ConsoleState) -> str:
    """The API that the run's settings name; empty when they name none."""
    section = state.resolved.get("generate")
    named = section.get("endpoint") if isinstance(section, dict) else None
    return named if isinstance(named, str) else ""


def cannot_answer(state: ConsoleState) -> str | None:
    """Why no server can be taken for one that answers prompts; None when one can."""
    if service.is_up(attempt(state)) or endpoint(state) or others(state):
        return None
    own = attempt(state)
    if own is not None and own.live:
        return f"serve is {word(state, own)}: it answers when it is UP"
    return "it needs a server that answers: start serve first"


def holds_gpus(state: ConsoleState) -> str | None:
    """Why a server that is not ours is in the way of a stage that needs all GPUs; None when none is.

    One that holds nothing on the GPUs is not in the way; where that was not read, it may be.
    """
    found = others(state)
    if not found:
        return None
    gpus = state.view.gpus if state.view else None
    used = [gpu.used_bytes.value for gpu in gpus or ()]
    if gpus is not None and used and all(value is not None and value < _HELD_BYTES for value in used):
        return None
    return f"a server that is not ours may hold the GPUs: {about(found[0])}; to stop it: {found[0].how_to_stop or 'ask who started it'}"


def about(server: "Server") -> str:
    """``vllm, pid 4242, unit vllm.service, of root, port 8000``."""
    parts = [server.engine or "server", f"pid {server.pid}", server.keeper]
    parts += [f"of {server.user}" if server.user else "", f"port {server.port}" if server.port is not None else ""]
    return ", ".join(part for part in parts if part)


def rows(server: "Server") -> list[tuple[str, str]]:
    """One server in the details: what it is, whose, and how a person ends it."""
    up = f", for {fmt.duration(server.up_s)}" if server.up_s is not None else ""
    whose = {
        True: f"eaglewatch's, attempt {server.attempt or 'unknown'} of run {server.run or 'unknown'}",
        False: "not ours: eaglewatch never signals it",
        None: "whose it is cannot be read, so it counts as not ours",
    }[server.ours]
    return [
        ("server", about(server) + up),
        ("model", server.model or fmt.UNKNOWN),
        ("whose", whose),
        ("to stop it", server.how_to_stop or "not known"),
        ("command", server.argv or fmt.UNKNOWN),
    ]
