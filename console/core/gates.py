"""Why a stage cannot be started now, by what the host shows: the same answer on the screen and on the command line. Pure."""

import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from console.core import service
from pipeline.contract.stages import STAGES, Stage

if TYPE_CHECKING:  # the screen's first paint waits for this module
    from console.core.attempt import Attempt
    from console.core.servers import Server
    from console.core.views import HostView

ALL_GPUS, THROUGH_SERVER = "all", "server"
SERVER = next(name for name, stage in STAGES.items() if stage.service)
REHEARSAL = "rehearsal"
"""The engine of the rehearsal's server, in ``Server.engine``."""
_HELD_BYTES = 1 << 30
"""A GPU with more than that in use is held by something: the driver and a desktop need less."""


def start(view: "HostView | None", name: str, resolved: dict[str, Any], gpus_apart: bool = False) -> str | None:
    """Why this stage cannot be started, whoever asks; None when it can. ``resolved``: the run's settings by section, {} when not known.

    ``gpus_apart``: whoever holds the GPUs is no reason: it needs none this time, or the host's gate lets it through, and logs who.
    What else is wrong with its input, a person can go past with a reason: ``doubt``.
    """
    stage = STAGES[name]
    if not stage.built:
        return f"{name}: not in this version of eaglewatch"
    if view is None or view.stages is None:
        return "the host has not told how the stages stand"
    if _is_live(view, name):
        return f"{name} runs already"
    if not gpus_apart and (busy := in_the_way(view, name)):
        return f"{name} needs all GPUs, and {busy} holds them: stop {busy} first"
    if stage.gpus == ALL_GPUS and not gpus_apart and (reason := held_by_server(view)):
        return reason
    if stage.gpus == THROUGH_SERVER and (reason := cannot_answer(view, resolved)):
        return reason
    works = next((one for one in inputs(stage, resolved) if _is_live(view, one)), None)
    return f"{works} still writes what {name} reads" if works else None


def in_the_way(view: "HostView | None", name: str) -> str | None:
    """The live stage of this run that has all the GPUs, which this stage needs; None when there is none, or this stage itself runs."""
    if view is None or STAGES[name].gpus != ALL_GPUS or _is_live(view, name):
        return None
    return gpu_holder(view.stages or {}, name)


def gpu_holder(stages: "Mapping[str, Attempt]", name: str) -> str | None:
    """The live stage, other than the one named, that has all the GPUs."""
    return next((other for other, one in stages.items() if other != name and one.live and STAGES[other].gpus == ALL_GPUS), None)


def doubt(view: "HostView | None", name: str, resolved: dict[str, Any]) -> str | None:
    """What is wrong with the stage's input, which only a person can go past, with a reason; None when nothing is."""
    stages = (view.stages if view else None) or {}
    for source in inputs(STAGES[name], resolved):
        one = stages.get(source)
        if one is None:
            return f"{source} has not run in this run"
        if not one.done:
            return f"{source} is not done: what it made may be incomplete"
        if one.outdated:
            return f"{source} is OUTDATED: {one.outdated}"
    return None


def never_made(view: "HostView | None", name: str, resolved: dict[str, Any]) -> str | None:
    """The stage of this run whose output this one reads and which has never made any, as far as it is certain; else None."""
    if name == "extract" and not reads_prepared(resolved, certainly=True):
        return None
    stages = (view.stages if view else None) or {}
    return next((one for one in inputs(STAGES[name], resolved) if one not in stages or stages[one].turned_away), None)


def inputs(stage: Stage, resolved: dict[str, Any]) -> list[str]:
    """The stages of this run whose output the stage reads."""
    if stage.name == "extract" and not reads_prepared(resolved):
        return []
    return [name for name in stage.needs if not STAGES[name].service and STAGES[name].built]


def reads_prepared(resolved: dict[str, Any], certainly: bool = False) -> bool:
    """Whether the extraction reads what this run prepares; so it is unless the settings say otherwise.

    The host compares real places. Where the run and a home lie is not known here: a path that may lead to the other one is taken for it,
    unless it is to be ``certainly`` so.
    """
    data, prepared = _setting(resolved, "extract", "data"), _setting(resolved, "prepare", "output")
    if certainly:
        return isinstance(data, str) and isinstance(prepared, str) and posixpath.normpath(data) == posixpath.normpath(prepared)
    return not isinstance(data, str) or not isinstance(prepared, str) or _may_be_same(data, prepared)


def endpoint(resolved: dict[str, Any]) -> str:
    """The API that the run's settings name; empty when they name none."""
    named = _setting(resolved, "generate", "endpoint")
    return named if isinstance(named, str) else ""


def own_server(view: "HostView | None") -> "Attempt | None":
    """The newest attempt of the run's own serve stage."""
    return ((view.stages if view else None) or {}).get(SERVER)


def other_servers(view: "HostView | None") -> "list[Server]":
    """Servers on the host that are no live attempt of this run.

    A rehearsal's server runs on the processor: it is left out where it is no attempt of this host's runs, whose simulated GPUs it holds.
    """
    own = own_server(view)
    live = own.id if own is not None and own.live else None
    there = [one for one in (view.servers if view else None) or () if live is None or one.attempt != live]
    return [one for one in there if one.engine != REHEARSAL or (one.ours and one.run)]


def cannot_answer(view: "HostView | None", resolved: dict[str, Any]) -> str | None:
    """Why no server can be taken for one that answers prompts; None when one can."""
    own = own_server(view)
    if service.is_up(own) or endpoint(resolved) or other_servers(view):
        return None
    if own is not None and own.live:
        return f"{SERVER} is {service.word(own)}: it answers when it is {service.UP}"
    return f"it needs a server that answers: start {SERVER} first"


def held_by_server(view: "HostView | None") -> str | None:
    """Why a server that is not this run's is in the way of a stage that needs all GPUs; None when none is.

    One that holds nothing on the GPUs is not in the way; where that was not read, it may be.
    """
    found = other_servers(view)
    if not found:
        return None
    gpus = view.gpus if view else None
    used = [gpu.used_bytes.value for gpu in gpus or ()]
    if gpus is not None and used and all(value is not None and value < _HELD_BYTES for value in used):
        return None
    if found[0].ours and found[0].run:
        return held_by_run(found[0].run, SERVER)
    return f"a server that is not ours may hold the GPUs: {about(found[0])}; to stop it: {found[0].how_to_stop or 'ask who started it'}"


def held_by_run(run: str, stage: str) -> str:
    """The words for a stage of another run that has all the GPUs, or of this one that has ended and is still there."""
    return f"{stage} of run {run} holds the GPUs (eaglewatch stop HOST --run {run} --stage {stage})"


def for_host(text: str, host: str) -> str:
    """A way to stop something, as the host tells it, with its own name for HOST: by that name it is known only here."""
    return text.replace("eaglewatch stop HOST ", f"eaglewatch stop {host} ")


def about(server: "Server") -> str:
    """``vllm, pid 4242, unit vllm.service, of root, port 8000``."""
    parts = [server.engine or "server", f"pid {server.pid}", server.keeper]
    parts += [f"of {server.user}" if server.user else "", f"port {server.port}" if server.port is not None else ""]
    return ", ".join(part for part in parts if part)


def _may_be_same(one: str, other: str) -> bool:
    """Whether two paths may be one place: each may be in the run's directory, in a home, or absolute."""
    one, other = posixpath.normpath(one), posixpath.normpath(other)
    if one.startswith("/") == other.startswith("/") and one.startswith("~") == other.startswith("~"):
        return one == other
    tails = sorted((_known_end(one), _known_end(other)), key=len)
    return tails[1][len(tails[1]) - len(tails[0]) :] == tails[0]


def _known_end(path: str) -> list[str]:
    """The parts of a path that do not depend on where it begins."""
    return [part for part in path.split("/") if part not in ("", ".", "..") and not part.startswith("~")]


def _is_live(view: "HostView", name: str) -> bool:
    one = (view.stages or {}).get(name)
    return one is not None and one.live


def _setting(resolved: dict[str, Any], section: str, key: str) -> Any:
    table = resolved.get(section)
    return table.get(key) if isinstance(table, dict) else None
