"""What the host kept of one attempt, also of one that others have replaced: its summary, what it ran with, and its events."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from textual.content import Content

from console.core import past, reading, sanitize
from console.core.past import Past
from console.core.since import Times
from console.tui.draw import MUTED, STRONG, WARN, rows
from console.tui.screens import stage_facts
from console.tui.screens.card import Card, Choice
from console.tui.state import ConsoleState
from pipeline.errors import StageError

_MOST_EVENTS = 200
_NEAR_S = 1.0
_BEFORE, _AFTER = 5, 40
"""Events that are shown around the one that is asked about."""
_OWN = frozenset(("boot_s", "wall_s", "boot_id", "by", "kind"))


class Wanted(NamedTuple):
    """Which attempt, and the moment that is asked about."""

    run: str
    stage: str
    attempt: str
    at_boot_s: float | None = None


class Ask(NamedTuple):
    """Both are given run, stage and attempt."""

    events: Callable[[str, str, str], Awaitable[list[Any]]]
    provenance: Callable[[str, str, str], Awaitable[dict[str, Any]]]
    history: Callable[[str | None, str | None], Awaitable[tuple[Past, ...]]]


class KeptScreen(Card[None]):
    """Asks the host when it opens. ``known``: its summary, where that is here already."""

    def __init__(self, state: ConsoleState, wanted: Wanted, ask: Ask, times: Times, known: Past | None = None) -> None:
        super().__init__(state)
        self._wanted, self._ask, self._times, self._known = wanted, ask, times, known
        self._events: list[Any] | None = None
        self._provenance: dict[str, Any] = {}
        self._said = "asking the host"

    def on_mount(self) -> None:
        self.run_worker(self._read(), exit_on_error=False)

    async def _read(self) -> None:
        one = self._wanted
        try:
            self._events = await self._ask.events(one.run, one.stage, one.attempt)
            self._said = "" if self._events else "no events are kept"
        except StageError as error:
            self._said = f"its events cannot be read: {sanitize.line(error, 300)}"
        self.tick()
        with contextlib.suppress(StageError):  # beside the point of the sheet
            self._provenance = await self._ask.provenance(one.run, one.stage, one.attempt)
        if self._known is None:
            with contextlib.suppress(StageError):
                found = await self._ask.history(one.run, one.stage)
                self._known = next((each for each in found if each.attempt == one.attempt), None)
        self.tick()

    def heading(self) -> str:
        return f"{self._wanted.stage} of {self._wanted.run} on {self.state.host}, attempt {self._wanted.attempt}"

    def body(self) -> Sequence[Content]:
        """What happened around the moment that is asked about comes first; without one what it came to."""
        told = self._told()
        if self._said:
            return [*told, Content.styled(f" {self._said}", MUTED if self._events is None else WARN)]
        happened = [Content.styled(" what happened, oldest first", MUTED), *self._event_lines()]
        if self._wanted.at_boot_s is None:
            return [*told, *happened]
        return [*happened, Content(), *told]

    def choices(self) -> Sequence[Choice]:
        return (Choice("close", "Close"),)

    def _told(self) -> list[Content]:
        """Its summary, and what it ran with."""
        known = self._known
        pairs = []
        if known is not None:
            began = "at a time not told" if known.began_wall_s is None else self._times.of(known.began_wall_s)
            pairs = [("outcome", known.outcome + (f": {known.why}" if known.why else "")), ("began", began), *past.facts(known)]
        pairs += stage_facts.provenance(self._provenance)
        return [*rows(pairs), Content()] if pairs else []

    def _event_lines(self) -> list[Content]:
        events = [one for one in self._events or [] if isinstance(one, dict)]
        asked = self._asked(events)
        start = max(len(events) - _MOST_EVENTS, 0) if asked is None else max(asked - _BEFORE, 0)
        end = len(events) if asked is None else min(asked + _AFTER, len(events))
        lines = [Content.styled(f" {start} before that are left out", MUTED)] if start else []
        for number in range(start, end):
            one = events[number]
            wall_s = reading.number(one, "wall_s")
            when = "time ?" if wall_s is None else self._times.of(wall_s)
            kind, by = reading.text(one, "kind", 40), reading.text(one, "by", 40)
            sign = ">" if number == asked else " "
            lines.append(Content.assemble(f" {sign} {when}  ", (kind, STRONG), f" by {by}", (f"  {words(one)}", MUTED)))
        return lines + ([Content.styled(f" {len(events) - end} after that are left out", MUTED)] if end < len(events) else [])

    def _asked(self, events: Sequence[dict[str, Any]]) -> int | None:
        """Where the event is of the moment that is asked about; None where it is not among them."""
        at = self._wanted.at_boot_s
        times = ((number, reading.number(one, "boot_s")) for number, one in enumerate(events))
        near = [(abs(boot_s - at), number) for number, boot_s in times if boot_s is not None] if at is not None else []
        away_s, number = min(near, default=(_NEAR_S + 1, 0))
        return number if away_s <= _NEAR_S else None


def words(event: dict[str, Any]) -> str:
    """An event's own fields as they came."""
    told = []
    for key, value in event.items():
        if key not in _OWN and value not in (None, "", [], {}):
            told.append(f"{sanitize.line(key, 40)} {sanitize.line(value, 200)}")
    return ", ".join(told)


def times_of(state: ConsoleState) -> Times:
    """The host's wall clock as this machine's, by the newest frame."""
    view, age_s = state.view, state.age_s
    ahead = 0.0 if view is None or view.wall_s is None or age_s is None else view.wall_s + age_s - state.wall_s
    return Times(state.wall_s, state.utc_offset_s, ahead)
