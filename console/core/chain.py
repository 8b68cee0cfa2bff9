"""The next step of the pipeline, from what the host shows. Pure; whoever takes the step asks again after it."""

from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

from console.core import gates, service
from console.core.attempt import UNKNOWN, Attempt
from console.core.gates import ALL_GPUS, SERVER, THROUGH_SERVER
from console.core.views import HostView
from pipeline.contract import source_files, telemetry
from pipeline.contract.stages import STAGES, Stage

DATA_STAGES = ("serve", "generate", "prepare", "vocab", "extract")


class Step(NamedTuple):
    """``start`` and ``stop`` are to be done to ``stage``; ``wait``: it is under way; ``failed``: it needs a person."""

    kind: Literal["start", "wait", "stop", "failed", "finished"]
    stage: str
    """Empty when all is finished, or nothing is told yet."""
    why: str


def next_step(view: HostView | None, through: Collection[str] = DATA_STAGES, forgiven: Collection[str] = ()) -> Step:
    """What comes next so that every stage of ``through`` gets done.

    ``through`` without ``serve``: the prompts go to a server that is none of ours to start or stop. ``forgiven``: ids of attempts that
    ended badly and may be started again (``bad_ends``); nothing else that ended badly is, a launch that was refused among them. A stage
    whose output is outdated is to be run again. Stages that do not stand in each other's way run beside each other.
    """
    if view is None or view.stages is None:
        return Step("wait", "", "the host has not told yet")
    chain = _Chain(view.stages, through, forgiven)
    wanted = [STAGES[name] for name in STAGES if name in through]  # in the order of the pipeline
    steps = [step for stage in wanted if (step := chain.step(stage))]
    for kind in ("failed", "start", "stop"):
        found = next((step for step in steps if step.kind == kind), None)
        if found and kind == "failed" and (busy := chain.busy()):
            return Step("wait", busy, f"{found.why}; {busy} goes on meanwhile")
        if found:
            return found
    if steps:
        return steps[0]
    services = f"; {service_words(view.stages)}" if any(stage.service for stage in wanted) else ""
    return Step("finished", "", f"{', '.join(stage.name for stage in wanted if not stage.service)} done{services}")


def service_words(stages: Mapping[str, Attempt]) -> str:
    """How the server stands once nothing needs it: off is as it should be."""
    one = stages.get(SERVER)
    if one is not None and one.live:
        return f"{SERVER} is {service.word(one)}, and nothing needs it now"
    return f"{SERVER} is off, as it should be: nothing needs it now"


def bad_ends(stages: Mapping[str, Attempt]) -> set[str]:
    """Ids of the attempts that ended other than done, launches that were refused among them."""
    found = [one for stage in stages.values() for one in (stage, stage.refused) if one is not None]
    return {one.id for one in found if one.ended and not one.done}


def told(step: Step, before: Attempt | None, now: Attempt | None) -> bool:
    """Whether a frame tells of a step that was taken: by an older one it would be taken again.

    ``before``: the stage's attempt when the step was taken; ``now``: the one in the newest frame.
    """
    if step.kind == "stop":
        return before is None or now is None or now.id != before.id or now.state == telemetry.STOPPING or not now.live
    return now is not None and (before is None or now.newest.id != before.newest.id or now.live)


class _Chain:
    def __init__(self, stages: dict[str, Attempt], through: Collection[str], forgiven: Collection[str]):
        self._stages = stages
        self._through = through
        self._forgiven = forgiven

    def step(self, stage: Stage) -> Step | None:
        """What this stage needs done now; None when it needs nothing, or waits for another one."""
        one = self._stages.get(stage.name)
        if one is not None and one.live and not stage.service:
            return Step("wait", stage.name, f"{stage.name} is {one.state}")
        if one is not None and self._cannot_tell(stage.name):
            return Step("wait", stage.name, f"whether {stage.name} is outdated is not known: {one.outdated}")
        if self._is_done(stage.name) or not self._is_ready(stage):
            return None
        if stage.service:
            return self._service(stage, one)
        if bad := self._bad(stage.name):
            return bad
        if stage.gpus == THROUGH_SERVER and not self._is_up(SERVER):
            return None  # the service's own step comes first
        if stage.gpus == ALL_GPUS and (holder := gates.gpu_holder(self._stages, stage.name)):
            return self._make_room(stage, holder)
        outdated = one.outdated if one is not None and one.done else ""
        return Step("start", stage.name, f"outdated: {outdated}" if outdated else "is next")

    def busy(self) -> str:
        """A stage, no service, that runs; empty when none does."""
        return next((name for name, one in self._stages.items() if one.live and not STAGES[name].service), "")

    def _service(self, stage: Stage, one: Attempt | None) -> Step | None:
        """A service is up as long as a stage needs it: the one stage that works through the server."""
        user = next((name for name in self._through if STAGES[name].gpus == THROUGH_SERVER and not self._is_settled(name)), None)
        if user is None:
            return None
        if one is not None and one.live:
            return None if self._is_up(stage.name) else Step("wait", stage.name, f"{stage.name} is {service.word(one)}")
        if holder := gates.gpu_holder(self._stages, stage.name):
            return Step("wait", holder, f"{holder} holds the GPUs that {stage.name} needs")
        return self._bad(stage.name) or Step("start", stage.name, f"is needed for {user}")

    def _make_room(self, stage: Stage, holder: str) -> Step:
        if not STAGES[holder].service or self._stages[holder].state == telemetry.STOPPING:
            return Step("wait", holder, f"{holder} holds the GPUs that {stage.name} needs")
        if busy := next((name for name in self._through if STAGES[name].gpus == THROUGH_SERVER and self._is_live(name)), ""):
            return Step("wait", busy, f"{busy} works through {holder}")
        return Step("stop", holder, f"{stage.name} needs its GPUs")

    def _bad(self, name: str) -> Step | None:
        """The step for a stage that ended other than well, unless that is forgiven. A service that was stopped on request ended well."""
        one = self._stages.get(name)
        if one is None or one.live:
            return None
        if one.refused is not None and one.refused.id not in self._forgiven:
            return Step("failed", name, f"the last launch of {name} was refused" + (f": {one.refused.why}" if one.refused.why else ""))
        if one.done or one.id in self._forgiven:
            return None
        if STAGES[name].service and one.state == telemetry.STOPPED:
            return None
        if one.state == UNKNOWN:
            return Step("failed", name, f"how {name} stands is not known")
        return Step("failed", name, f"{name} is {one.state}" + (f": {one.why}" if one.why else ""))

    def _is_ready(self, stage: Stage) -> bool:
        """Whether everything that it needs is done; services have their own step, and what is left out of ``through`` is not asked for."""
        return all(self._is_done(name) for name in stage.needs if name in self._through and not STAGES[name].service)

    def _cannot_tell(self, name: str) -> bool:
        """Whether what it was made of could not be looked at, as far as the host tells: no reason to make it again."""
        one = self._stages.get(name)
        return one is not None and one.done and source_files.UNKNOWN in one.outdated

    def _is_settled(self, name: str) -> bool:
        return self._is_done(name) or self._cannot_tell(name)

    def _is_done(self, name: str) -> bool:
        one = self._stages.get(name)
        return one is not None and one.fresh and not STAGES[name].service

    def _is_live(self, name: str) -> bool:
        one = self._stages.get(name)
        return one is not None and one.live

    def _is_up(self, name: str) -> bool:
        return name not in self._through or service.is_up(self._stages.get(name))
