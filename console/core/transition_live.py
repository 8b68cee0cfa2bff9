"""A transition while it runs, is armed, or has ended: its steps out of its events, and what a screen says of it in a line."""

from collections.abc import Iterable
from typing import Any

import msgspec

from console.core import free_live, reading
from console.core.action import Action
from console.core.views import HostView
from pipeline.contract import events, telemetry, transition
from pipeline.contract.stages import STAGES

CONFIRMED = "CONFIRMED"


class Step(msgspec.Struct, frozen=True):
    """One step that has begun. ``result`` None: it goes on, or what was to end it is gone. ``inner``: a step of freeing GPUs."""

    name: str
    what: str
    state: str
    result: str | None
    seconds: float | None
    inner: bool


def steps(source: Iterable[dict[str, Any]]) -> list[Step]:
    """Of an attempt's events, oldest first. The steps of freeing are told within FREE."""
    found: list[Step] = []
    for event in source:
        if reading.text(event, "kind", 40) != events.STEP:
            continue
        name = reading.text(event, "step", 40)
        freeing = any(one.name == transition.FREE and one.result is None for one in found)
        inner = name in free_live.WORDS and (name != CONFIRMED or freeing)
        if event.get("begins") is True:
            found.append(Step(name, _what(event, name), "", None, None, inner))
            continue
        result, seconds = reading.text(event, "result", 1000), reading.number(event, "seconds")
        state = reading.text(event, "state", 20)
        at = next((at for at in range(len(found) - 1, -1, -1) if found[at].name == name and found[at].result is None), None)
        if at is None:  # its beginning is not among the events that were sent
            found.append(Step(name, _what(event, name), state, result, seconds, inner))
        else:
            found[at] = msgspec.structs.replace(found[at], state=state, result=result, seconds=seconds)
    return found


def _what(event: dict[str, Any], name: str) -> str:
    if name == transition.ARMED:
        return f"until {reading.text(event, 'stage', 40) or 'the stage before'} has ended verified"
    service = reading.text(event, "service", 120)
    return reading.text(event, "does", 300) or f"{free_live.WORDS.get(name, '')} {service}".strip()


def is_armed(one: Action) -> bool:
    """Whether it waits for the stage before, and has done nothing yet."""
    progress = one.attempt.progress
    return one.live_now and (one.step == transition.ARMED or (progress is not None and progress.phase == "armed"))


def alert(one: Action) -> str:
    """Who else holds the GPUs, when that is why it stopped; empty otherwise."""
    return reading.text(one.told, "alert", 500) if one.attempt.ended else ""


def standing(one: Action) -> str:
    """How it stands, in a line."""
    if one.live_now and one.attempt.state != telemetry.STOPPING:
        return f"ARMED, {one.note or 'waiting'}" if is_armed(one) else one.step or "starting"
    return free_live.standing(one)


def next_to_do(one: Action) -> str:
    """After an end that is not the hoped one: where it goes on, and what was not done."""
    outcome, at = reading.text(one.told, "outcome", 40), reading.text(one.told, "stopped_at", 40)
    if outcome == transition.STOPPED and at:
        at = transition.resumes_at(at, alert(one))
        return f"the next transition resumes at {at}: what is proven is looked at again, and not done again"
    if outcome == transition.DISARMED:
        return "nothing was done"
    return ""


def banner(view: HostView | None, run: str | None, now_s: float | None) -> str:
    """The line above the dashboard: armed, under way, or stopped with an alert; empty when there is nothing to say."""
    one = view.actions.get(transition.ACTION) if view else None
    if one is None or view is None:
        return ""
    of = f" of run {one.run}" if one.run and one.run != run else ""
    if one.live_now:
        if is_armed(one):
            return f"ARMED{of}, t disarms: {_confirmed(one)}; by {one.attempt.by or 'unknown'}"
        told = free_live.countdown(one, now_s)
        return f"TRANSITION{of}, t shows it: {standing(one)}{f', {told}' if told else ''}"
    if not of and _is_news(one, view):
        if words := alert(one):
            return f"ALERT, t shows it: the transition stopped at {reading.text(one.told, 'stopped_at', 40)}: {words}"
        if one.attempt.ended and not one.attempt.done and one.attempt.state != telemetry.REFUSED:
            return f"the transition did not get through, t shows it: {standing(one)}"
    return ""


def met_by_stop(view: HostView | None, run: str | None, stage: str) -> str:
    """What stopping this stage means for a transition of the run that is armed or under way; empty without one."""
    one = view.actions.get(transition.ACTION) if view else None
    if one is None or not one.live_now or one.run != run:
        return ""
    if not is_armed(one):
        return f"a transition of this run is under way ({standing(one)}); it stops where {stage} is missing"
    waits = _waits_for(one)
    if stage == waits:
        fate = f"stopped, {stage} is not verified: that disarms it, and none of it is done"
    elif STAGES[stage].service:
        fate = f"{waits} cannot be verified without it: if {waits} ends otherwise, that disarms it"
    else:
        fate = "it stays armed"
    return f"a transition is ARMED ({_confirmed(one)}); {fate}"


def _is_news(one: Action, view: HostView) -> bool:
    """Until a stage was started after it. Where nothing recorded its end, that came after the last sign of it."""
    signs = (one.attempt.heartbeat_boot_s, free_live.newest_event_s(one), one.attempt.started_boot_s)
    last_s = one.attempt.ended_boot_s
    if last_s is None:
        last_s = 0.0 if one.attempt.state == telemetry.LOST_REBOOT else max((at for at in signs if at is not None), default=None)
    begun = [stage.started_boot_s for stage in (view.stages or {}).values() if stage.started_boot_s is not None]
    return last_s is None or not any(at > last_s for at in begun)


def _confirmed(one: Action) -> str:
    """``when generate is verified: prepare, stop k25/serve, extract``, from what was confirmed, as far as that is told."""
    waits = _waits_for(one)
    phrase: list[str] = []
    for event in free_live.in_frame(one):
        if reading.text(event, "step", 40) == CONFIRMED and event.get("begins") is True:
            phrase = reading.text(event, "phrase", 400).split()[3:]
    stages = [one for one in phrase if one in STAGES]
    stops = [f"stop {one}" for one in phrase if one not in STAGES]
    told = [*stages[:-1], *stops, *stages[-1:]]
    return f"when {waits} is verified" + (f": {', '.join(told)}" if told else "")


def _waits_for(one: Action) -> str:
    told = [event for event in free_live.in_frame(one) if reading.text(event, "step", 40) == transition.ARMED]
    return (reading.text(told[-1], "stage", 40) if told else "") or "the stage before"
