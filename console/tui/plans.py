"""What a dialog says before anything is done: exactly what will run or end, where, and what that touches."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from console.core import counted, fmt, free_memory, reading, transition_live
from console.core.attempt import Attempt
from console.tui import again, gates, words
from console.tui.draw import MUTED, WARN, rows
from console.tui.state import ConsoleState
from console.tui.widgets.header import target
from pipeline.contract import free
from pipeline.contract.stages import STAGES

if TYPE_CHECKING:
    from console.tui.controller import Controller


def start_lines(
    state: ConsoleState, controller: "Controller", stage: str, interpreter: str, arguments: Sequence[str] = ()
) -> list[Content]:
    """Before a launch."""
    directory = controller.run_directory()
    argv = [interpreter, "-u", "-m", "pipeline", stage, "--run", directory, *arguments]
    writes = [f"{directory}/stages/{stage}", *controller.outputs(stage)]
    settings = controller.settings()
    pairs = [
        ("host", f"{target(state)}, run {state.run}{' (SIMULATED GPUs)' if state.store.simulated else ''}"),
        ("command", shlex.join(argv)),
        ("code", f"bundle {reading.text(state.hello, 'code') or 'unknown'}, sent by this console"),
        ("settings", _settings(state, settings.why if settings else "none")),
        ("writes", ", ".join(writes)),
        ("GPUs", f"{STAGES[stage].gpus}; now {gpus_now(state)}"),
        ("recorded", f"by {controller.by()}, in the audit log here and with the attempt there"),
    ]
    lines = rows(pairs)
    attempt = (state.view.stages or {}).get(stage) if state.view else None
    if attempt is not None:
        happens = again.what_happens(state, attempt, controller.outputs(stage))
        lines.append(Content.styled(f" it is {words.state_word(state, attempt)}: {happens}", WARN if attempt.outdated else MUTED))
        if attempt.refused is not None:
            lines.append(Content.styled(f" {words.refusal(state, attempt)}", WARN))
    if settings is not None and settings.resolved is None:
        lines.append(Content.styled(f" {settings.why}", WARN))
    return lines


def stop_lines(state: ConsoleState, attempt: Attempt, why: str = "") -> list[Content]:
    """Before a stop. ``why`` it is proposed."""
    stage, progress = STAGES[attempt.stage], attempt.progress
    since = state.view.age_s(attempt.started_boot_s, state.age_s) if state.view else None
    pairs = [
        ("host", f"{target(state)}, run {state.run}"),
        ("attempt", f"{attempt.id}, by {attempt.by or 'unknown'}"),
        ("process", f"pid {attempt.pid or 'unknown'} and all it started, running {fmt.duration(since)}"),
    ]
    if why:
        pairs.insert(0, ("why", why))
    if progress is not None and not stage.service:
        pairs.append(
            (
                "finished",
                f"{counted.share(progress.done, progress)} {progress.unit or 'unit'}s: they stay, the next start goes on from there",
            )
        )
    pairs.append(("how", f"one SIGTERM; what still lives {fmt.duration(stage.grace_s)} later gets SIGKILL"))
    pairs.append(("depends on it", _depends(state, attempt.stage)))
    if met := transition_live.met_by_stop(state.view, state.run, attempt.stage):
        pairs.append(("transition", met))
    return rows(pairs)


def _depends(state: ConsoleState, name: str) -> str:
    if STAGES[name].service:
        using = [one.stage for one in state.live() if STAGES[one.stage].gpus == "server"]
        return f"{', '.join(using)} works through it now, and will fail" if using else "nothing works through it now"
    waiting = gates.dependents(name)
    return f"{', '.join(waiting)} cannot start until {name} is done" if waiting else "no other stage"


def take_over_lines(state: ConsoleState) -> list[Content]:
    """Before a take-over; empty when nobody has control."""
    control = state.control
    if control is None or control.yours:
        return []
    since = state.view.age_s(control.since_boot_s, state.age_s) if state.view else None
    return rows(
        [
            ("in control", f"{control.by}, for {fmt.duration(since)}"),
            ("what happens", "this console can act, that one is told and only looks until it takes over again"),
            ("jobs", "nothing happens to them"),
            ("recorded", "in the audit log here and on the host"),
        ]
    )


def gpus_now(state: ConsoleState) -> str:
    """Memory of all GPUs in a few words, with its age."""
    view = state.view
    if view is None or view.gpus is None:
        return "not read"
    known = [gpu.used_bytes.value for gpu in view.gpus if gpu.used_bytes.value is not None]
    age = fmt.age(view.age_s(view.nvml.boot_s if view.nvml else None, state.age_s))
    if not known:
        return f"memory of none of {len(view.gpus)} could be read"
    span = fmt.mib(min(known)) if min(known) == max(known) else f"{fmt.mib(min(known))} to {fmt.mib(max(known))}"
    of = f"each of {len(known)}" if len(known) == len(view.gpus) else f"{len(known)} of {len(view.gpus)} read,"
    some = [gpu for gpu in view.gpus if gpu.used_bytes.value is not None and free.mib(int(gpu.used_bytes.value)) > 0]
    idle = all(free_memory.is_accepted(gpu.used_bytes.value, view.baseline_accepted.get(gpu.uuid)) for gpu in some)
    note = f" ({free_memory.ACCEPTED})" if some and idle else ""
    return f"{of} holds {span} MiB{note}, read {age} ago"


def no_interpreter(state: ConsoleState, stage: str) -> str:
    return (
        f"the host found no Python interpreter that could run {stage}\n"
        f'name one in hosts.toml: interpreters = {{ {stage} = "/path/to/python" }}\n'
        f"see: eaglewatch config {state.host}"
    )


def _settings(state: ConsoleState, why: str) -> str:
    if state.settings is not None:
        return "the host's copy, which rules" if state.settings.resolved is not None else why
    return "sent now, and then the host's copy rules"
