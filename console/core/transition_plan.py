"""The plan of a transition: its steps with how each stands now, what would be stopped, and the phrases. Shape: docs/wire.md.

It is kept as it came, since its digest is over that; what is shown is read out of it.
"""

from typing import Any

import msgspec

from console.core import reading, sanitize
from pipeline.contract import transition

_MAX, _MOST_STEPS = 500, 40


class PlanStep(msgspec.Struct, frozen=True):
    """One step before anything is done. ``state``: proven, not proven, or open: what is known only once it is done."""

    name: str
    stage: str
    does: str
    state: str
    line: str


class TransitionPlan(msgspec.Struct, frozen=True):
    """A plan, read. ``source`` is all of it as it came."""

    source: dict[str, Any]
    before: str
    before_line: str
    stages: tuple[str, ...]
    service: str
    """What is stopped; empty: nothing."""
    others: tuple[str, ...]
    """Services that hold a GPU and are not the one that is stopped: each could be named."""
    steps: tuple[PlanStep, ...]
    trouble: tuple[str, ...]
    """Where it would stop now."""
    notes: tuple[str, ...]
    phrase_now: str
    phrase_armed: str
    digest: str
    surveyed_boot_s: float | None
    simulated: bool

    @property
    def goal(self) -> str:
        return self.stages[-1]

    def phrase(self, armed: bool) -> str:
        return self.phrase_armed if armed else self.phrase_now

    def order(self, armed: bool, phrase: str, override: str | None = None, release_s: float | None = None) -> dict[str, Any]:
        """What a launch takes. ``release_s``: how long memory may stand still; None: as long as the host sees fit."""
        times = {} if release_s is None else {"times": {"release_s": release_s}}
        return {"plan": self.source, "phrase": phrase, "armed": armed, "override": override, **times}


def parse(source: Any) -> TransitionPlan | None:
    """None when it is no plan that could be confirmed."""
    if not isinstance(source, dict):
        return None
    steps = [one for one in reading.sequence(source, "steps") or [] if isinstance(one, dict)][:_MOST_STEPS]
    stages = tuple(reading.text(one, "stage", 40) for one in reading.sequence(source, "stages") or [] if isinstance(one, dict))
    phrases = source.get("phrase"), source.get("phrase_armed")
    if not steps or not stages or not all(isinstance(one, str) and one == sanitize.line(one, 1000) for one in phrases):
        return None
    free = reading.mapping(source, "free")
    service = reading.text(reading.mapping(source, "service"), "name", 300)
    named = [reading.text(one, "name", 300) for one in reading.sequence(free, "services") or [] if isinstance(one, dict)]
    return TransitionPlan(
        source=source,
        before=reading.text(source, "from", 40),
        before_line=reading.text(source, "from_line", _MAX),
        stages=stages,
        service=service,
        others=tuple(sorted({one for one in named if one and one != service})),
        steps=tuple(_step(one) for one in steps),
        trouble=_lines(source, "trouble"),
        notes=_lines(free, "notes"),
        phrase_now=str(phrases[0]),
        phrase_armed=str(phrases[1]),
        digest=reading.text(source, "digest", 80),
        surveyed_boot_s=reading.number(source, "surveyed_boot_s"),
        simulated=free is not None and free.get("simulated") is not False,
    )


def _step(source: dict[str, Any]) -> PlanStep:
    state = reading.text(source, "state", 20)
    known = state in (transition.PROVEN, transition.NOT_PROVEN, transition.OPEN)
    return PlanStep(
        name=reading.text(source, "step", 40),
        stage=reading.text(source, "stage", 40),
        does=reading.text(source, "does", _MAX),
        state=state if known else transition.NOT_PROVEN,
        line=reading.text(source, "line", _MAX),
    )


def _lines(source: dict[str, Any] | None, key: str) -> tuple[str, ...]:
    return tuple(one for line in (reading.sequence(source, key) or [])[:20] if (one := reading.text({"": line}, "", _MAX)))
