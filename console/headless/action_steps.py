"""Telling the steps of an action as they come, with the time of day, and now and then what it waits for. Only the host's words are told."""

import time
from typing import Any

from console.core import fmt, free_live, reading, transition_live
from console.core.action import Action
from console.headless import freeing
from console.headless.follow import EVERY_KEPT_S, EVERY_S
from console.headless.output import Output
from console.headless.session import Session
from console.remote import state
from console.remote.errors import AgentError
from pipeline.contract import events, transition
from pipeline.contract.clock import boot_s

_ARMED_EVERY_S = 60.0
_MARKS = {transition.PROVEN: "ok ", transition.NOT_PROVEN: "NOT PROVEN:"}


class Steps:
    """Of one attempt."""

    def __init__(self, session: Session, output: Output, action: str, run: str | None, attempt: str):
        self._session, self._output, self._action, self._run, self._attempt = session, output, action, run, attempt
        self._told: set[tuple[str, ...]] = set()
        self._newest_s: float | None = None
        self._freeing = False
        """Within the step FREE of a transition, whose own steps are those of freeing."""
        self._waited, self._said_s = "", boot_s()
        self._link = state.LIVE

    async def tell(self, one: Action) -> None:
        """What a frame has that was not told. Of one that was over when it was looked at first, the receipt has the steps."""
        if one.attempt.ended and one.told and not self._told:
            return
        for event in await self._events(one):
            key = tuple(repr(event.get(name)) for name in ("boot_s", "step", "begins"))
            if event.get("kind") == events.STEP and key not in self._told:
                self._told.add(key)
                self._tell(event)
        if one.live_now:
            self._tell_wait(one)

    def tell_link(self) -> None:
        """That it is lost, or there again."""
        now = self._session.now()
        word = state.LIVE if now.state == state.LATE else now.state
        if word != self._link:
            self._link = word
            self._output.say(f"eaglewatch: {now.words}{'' if word == state.LIVE else '; the host goes on meanwhile'}")

    async def _events(self, one: Action) -> list[dict[str, Any]]:
        """A frame has the newest alone: where they do not reach back to what was told, all are asked for."""
        there, last_s = free_live.in_frame(one), free_live.newest_event_s(one)
        if not there or last_s == self._newest_s:
            return []
        first_s = one.attempt.events[0].boot_s
        if self._newest_s is None or first_s is None or first_s > self._newest_s:
            try:
                there = await freeing.events(self._session, self._run, self._attempt, self._action) or there
            except AgentError:  # what the frame has is told; all of it is in the receipt
                pass
        self._newest_s = last_s
        return there

    def _tell(self, event: dict[str, Any]) -> None:
        for step in transition_live.steps([event]):
            if step.name == transition.FREE:
                self._freeing = step.result is None
            within = "  " if self._freeing and step.name != transition.FREE else ""
            said = step.what if step.result is None else f"{_MARKS.get(step.state, '->')} {step.result}"
            self._line(step.name, said, within, self._age_s(event))
            value = {"step": step.name, "begins": step.result is None, "state": step.state, "result": step.result, "seconds": step.seconds}
            self._output.json({**value, "simulated": self._session.store.simulated})

    def _tell_wait(self, one: Action) -> None:
        view = self._session.store.view
        words = free_live.countdown(one, view.boot_s if view else None)
        every_s = EVERY_S if self._output.as_json or self._output.to_terminal else EVERY_KEPT_S
        every_s = max(every_s, _ARMED_EVERY_S) if transition_live.is_armed(one) else every_s
        if not words or words == self._waited or boot_s() - self._said_s < every_s:
            return
        self._waited = words
        self._line(one.step, f".. {words}{_memory(one)}", "  " if self._freeing else "")
        left_s = one.deadline_boot_s - view.boot_s if one.deadline_boot_s is not None and view is not None else None
        waits = {"waits": one.note, "left_s": None if left_s is None else round(left_s, 1)}
        self._output.json({"step": one.step, **waits, "simulated": self._session.store.simulated})

    def _age_s(self, event: dict[str, Any]) -> float:
        """How long ago it was: what happened while nobody watched has its own time of day."""
        view, when = self._session.store.view, reading.number(event, "boot_s")
        return max(0.0, view.boot_s - when) if view is not None and when is not None else 0.0

    def _line(self, name: str, said: str, within: str, age_s: float = 0.0) -> None:
        self._said_s = boot_s()
        mark = "SIMULATED  " if self._session.store.simulated else ""
        self._output.data(f"{time.strftime('%H:%M:%S', time.localtime(time.time() - age_s))}  {mark}{within}{name:<13}  {said}")


def _memory(one: Action) -> str:
    """What the GPUs hold, while that is waited for."""
    if one.step != "WAIT_RELEASE" or not one.curve:
        return ""
    mib = one.curve[-1][1]
    read = [each for each in mib if each is not None]
    return f"; {fmt.count(sum(read))} MiB on {sum(each > 0 for each in read)} of {len(read)} GPUs" + (
        f", {len(mib) - len(read)} not read" if len(read) < len(mib) else ""
    )
