"""Why an action cannot be done now: functions of the state that give the reason, or None."""

from typing import TYPE_CHECKING

from console.core import fmt, free_memory, gates
from console.tui import serving
from console.tui.state import ConsoleState
from pipeline.contract import free
from pipeline.contract.stages import STAGES
from pipeline.contract.transition import ACTION

if TYPE_CHECKING:
    from console.core.chain import Step
    from console.core.transition_next import Next

_ONLY_LOOKS = "--read-only: this console only looks"
_NO_RUN = "no run is chosen; o opens one"


def act(state: ConsoleState) -> str | None:
    """What every action on the host needs: a link, a run, and control of it."""
    if state.read_only:
        return _ONLY_LOOKS
    if state.link is None or state.view is None:
        return f"nothing is known of {state.host} yet"
    if not state.current:
        return f"the link is {state.link.word}: what is there now is not known"
    if state.run is None:
        return _NO_RUN
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
    if reason := gates.start(state.view, name, state.resolved):
        return gates.for_host(reason, state.host)
    if state.settings_missing and not state.settings_offered:
        return f"the run has no settings on the host; this writes them: eaglewatch init {state.host} {state.run} --preset generic"
    return None


def doubt(state: ConsoleState, name: str) -> str | None:
    """What is wrong with the stage's input, which only a person can go past, with a reason; None when nothing is."""
    return gates.doubt(state.view, name, state.resolved)


def next_step(state: ConsoleState) -> "Step":
    """The next step of the pipeline. What ended badly may be started again: here a person asks for it."""
    from console.core import chain

    through = [name for name in chain.DATA_STAGES if name != serving.STAGE or not (gates.endpoint(state.resolved) or serving.others(state))]
    if not gates.reads_prepared(state.resolved):
        through = ["extract"]  # its data comes from elsewhere
    return chain.next_step(state.view, through, chain.bad_ends((state.view.stages or {}) if state.view else {}))


def next_transition(state: ConsoleState) -> "Next | None":
    """The way to the next stage that needs the GPUs, where it is more than a start: the same key then plans all of it."""
    from console.core import transition_next

    return transition_next.proposed(state.view, state.resolved)


def live_transition(state: ConsoleState) -> bool:
    """Whether a transition of this run runs, or is armed."""
    from console.core import transition_next

    return transition_next.live(state.view, state.run) is not None


def transition(state: ConsoleState) -> str | None:
    """Why none can be shown. Who only looks sees a freeing of GPUs with the same key: F is dead there."""
    if state.view is not None and (ACTION in state.view.actions or (state.read_only and free.ACTION in state.view.actions)):
        return None
    return "this run had none yet" + ("" if state.read_only else "; > plans one")


def next_words(state: ConsoleState) -> str:
    """What the key for the next step would do, or why it would do nothing. Who only looks is told no key."""
    if live_transition(state):
        return "t shows the transition that is under way" if state.read_only else "> shows the transition that is under way"
    if way := next_transition(state):
        told = f"the way from {way.before} to {way.goal}"
        return f"{told} ({_ONLY_LOOKS})" if state.read_only else f"> plans {told}"
    step = next_step(state)
    if state.read_only and step.kind in ("start", "stop"):
        return f"{step.kind} {step.stage} ({_ONLY_LOOKS})"
    if step.kind == "start":
        if reason := start_stage(state, step.stage):
            return f"{step.stage} is next, and cannot start: {reason}"
        return f"> starts {step.stage}" + ("" if step.why == "is next" else f": {step.why.removeprefix('is ')}")
    return f"> stops {step.stage}: {step.why}" if step.kind == "stop" else _nothing_next(state, step)


def next_stage(state: ConsoleState) -> str | None:
    if state.view is not None and not state.read_only and live_transition(state):
        return None  # it is shown; what acts there asks again
    reason = act(state)
    if reason or next_transition(state):
        return reason
    step = next_step(state)
    if step.kind == "start":
        return start_stage(state, step.stage)
    if step.kind == "finished":
        return f"{_nothing_next(state, step)} ({step.why})"
    return stop_stage(state, step.stage) if step.kind == "stop" else _nothing_next(state, step)


def _nothing_next(state: ConsoleState, step: "Step") -> str:
    if step.kind != "finished":
        return step.why
    held = "" if state.live() or not _held_gpus(state) else f"; but GPU {_held_gpus(state)} still hold memory"
    return f"nothing is left to do{held or '; S starts a stage again'}" + ("; F shows whose it is" if held and not state.read_only else "")


def _held_gpus(state: ConsoleState) -> str:
    """Those that are read to hold more than any idle one does."""
    used = {gpu.index: gpu.used_bytes.value for gpu in (state.view.gpus if state.view else None) or ()}
    return free_memory.spans(at for at, size in used.items() if at is not None and size is not None and size > free.IDLE_CAP_BYTES)


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


def dump(state: ConsoleState) -> str | None:
    """Why no stacks can be dumped: it signals processes, so it is for whoever has control."""
    live = state.attempt is not None and state.attempt.live
    return act(state) or (None if live else "the stage that is looked at does not run")


def take_over(state: ConsoleState) -> str | None:
    if state.read_only:
        return _ONLY_LOOKS
    if state.in_control:
        return "this console has control"
    if not state.current or state.run is None:
        return "it takes a live link and a run"
    return None


def samples(state: ConsoleState) -> str | None:
    if state.view is None or state.run is None:
        return "no run is watched yet"
    if not state.current:
        return f"the link is {state.link.word if state.link else 'not there'}: samples are read from the host"
    one = (state.view.stages or {}).get("generate")
    if one is None:
        return "generate has not run in this run, so there is none"
    done = one.progress.done if one.progress else None
    return "generate has made none yet" if one.live and not done else None


def match(state: ConsoleState) -> str | None:
    return None if state.pattern else "nothing is searched for; / finds"


def log(state: ConsoleState) -> str | None:
    return None if state.log_source is not None else "no log is followed yet"


def asks(state: ConsoleState) -> str | None:
    """What the host is asked for needs a link."""
    return None if state.current else f"the link is {state.link.word if state.link else 'not there yet'}: the host cannot be asked"


def run_asks(state: ConsoleState) -> str | None:
    """What the host is asked of a run needs one."""
    return asks(state) or (None if state.run else _NO_RUN)


def test_alert(state: ConsoleState) -> str | None:
    """Whether the settings name a way is the host's to say: it reads them when it sends."""
    return act(state)


def open_run(state: ConsoleState) -> str | None:
    if state.runs is None:
        return "the host has not told its runs yet"
    return None if state.runs or state.current else f"there was no run on {state.host}, and the link is not there"


def reconnect(state: ConsoleState) -> str | None:
    return "the link is live" if state.link is not None and state.current else None
