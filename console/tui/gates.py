"""Why an action cannot be done now: functions of the state that give the reason, or None."""

from console.core import fmt
from console.tui.state import ConsoleState
from pipeline.contract.stages import STAGES


def act(state: ConsoleState) -> str | None:
    """What every action on the host needs: a link, a run, and control of it."""
    if state.read_only:
        return "--read-only: this console only looks"
    if state.link is None or state.view is None:
        return f"nothing is known of {state.host} yet"
    if not state.current:
        return f"the link is {state.link.word}: what is there now is not known"
    if state.run is None:
        return "no run is chosen; o opens one"
    if state.busy:
        return f"one thing at a time: {state.busy}"
    if not state.in_control:
        return not_in_control(state)
    return None


def not_in_control(state: ConsoleState) -> str:
    """Who has control, since when, and how to get it."""
    control = state.control
    if state.lost_control_to and (control is None or control.yours):
        return f"{state.lost_control_to} took control; T takes it back"
    if control is None or control.yours:
        return "this console has no control yet; T takes it"
    since = state.view.age_s(control.since_boot_s, state.age_s) if state.view else None
    return f"{control.by} has control" + (f" for {fmt.duration(since)}" if since is not None else "") + "; T takes over"


def start(state: ConsoleState) -> str | None:
    reason = act(state)
    if reason:
        return reason
    reasons = [start_stage(state, name) for name in STAGES]
    return None if None in reasons else next(one for one, stage in zip(reasons, STAGES.values(), strict=True) if stage.built)


def start_stage(state: ConsoleState, name: str) -> str | None:
    """Why this stage cannot be started, whoever asks."""
    stage = STAGES[name]
    if not stage.built:
        return f"{name}: not in this version of eaglewatch"
    if state.view is None or state.view.stages is None:
        return "the host has not told how the stages stand"
    attempt = state.view.stages.get(name)
    if attempt is not None and attempt.live:
        return f"{name} runs already"
    busy = [one.stage for one in state.live() if STAGES[one.stage].gpus == "all" and stage.gpus == "all"]
    if busy:
        return f"{name} needs all GPUs, and {busy[0]} runs"
    if state.settings_missing and not state.settings_offered:
        return f"the run has no settings on the host: eaglewatch run {name} --host {state.host} --run {state.run} --settings FILE"
    return None


def next_name(state: ConsoleState) -> tuple[str | None, str]:
    """The next stage that can start, in the order of the pipeline; or None and why."""
    if state.view is None or state.view.stages is None:
        return None, "the host has not told how the stages stand"
    why = ""
    for name, stage in STAGES.items():
        attempt = state.view.stages.get(name)
        if not stage.built or (attempt is not None and attempt.done):
            continue
        reason = start_stage(state, name)
        if reason is None:
            return name, ""
        why = why or reason
    return None, why or "every stage that this version has is done; S starts one again"


def next_stage(state: ConsoleState) -> str | None:
    reason = act(state)
    if reason:
        return reason
    name, why = next_name(state)
    return None if name else why


def stop(state: ConsoleState) -> str | None:
    return act(state) or (None if state.live() else "nothing runs in this run")


def stop_stage(state: ConsoleState, name: str) -> str | None:
    """Why this stage cannot be stopped."""
    return None if any(one.stage == name for one in state.live()) else f"{name} does not run"


def dependents(name: str) -> list[str]:
    """Stages that need this one, directly or through others, in the order of the pipeline."""
    found = {name}
    for other, stage in STAGES.items():
        if found & set(stage.needs):
            found.add(other)
    return [one for one in STAGES if one in found and one != name]


def take_over(state: ConsoleState) -> str | None:
    if state.read_only:
        return "--read-only: this console only looks"
    if state.in_control:
        return "this console has control"
    if not state.current or state.run is None:
        return "it takes a live link and a run"
    return None


def samples(state: ConsoleState) -> str | None:
    return "not in this version of eaglewatch"


def match(state: ConsoleState) -> str | None:
    return None if state.pattern else "nothing is searched for; / finds"


def open_run(state: ConsoleState) -> str | None:
    if state.runs is None:
        return "the host has not told its runs yet"
    return None if state.runs else "there is no run on the host"


def reconnect(state: ConsoleState) -> str | None:
    return "the link is live" if state.link is not None and state.current else None
