"""What is asked of a host about a transition, and how it is put on record here. Used by the screen and by the command.

All raise StageError: what the host refuses, and what cannot be recorded, which then is not asked for.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from console.config import Host
from console.core import reading, transition_live, transition_plan, transition_receipt
from console.core.transition_next import Next
from console.core.transition_plan import TransitionPlan
from console.headless import audit, transition_lines
from console.headless.actions import Way
from console.headless.output import CannotTellError
from console.headless.session import Session
from pipeline.contract import checkout, layout, telemetry, transition
from pipeline.errors import BusyError

PLAN_S = 75.0
"""The host gives itself 60 s."""


class ThereError(BusyError):
    """A transition of this run runs or is armed already."""


async def plan(
    session: Session, host: Host, label: str, run: str, wanted: Next, interpreters: Mapping[str, str], service: str | None = None
) -> TransitionPlan:
    """The steps, with how each stands now. ``service``: None: this run's server; "": none; or the name of another that is stopped."""
    env = await asyncio.to_thread(checkout.to_environment)
    stages = [{"stage": one, "interpreter": interpreters[one], "args": [], "env": env} for one in wanted.stages]
    fields: dict[str, Any] = {"label": label, "run": run, "from": wanted.before, "stages": stages, "service": service}
    if transition.needs_gpus(wanted.goal):
        fields |= {"expected_gpus": host.expected_gpus, "gpu_uuids": list(host.gpu_uuids), "wanted": []}
    found = transition_plan.parse((await session.link.request("transition.plan", PLAN_S, **fields)).get("plan"))
    if found is None:
        raise CannotTellError(f"{label}: the host's plan cannot be understood; its host program may be of another version")
    return found


async def launch(
    session: Session,
    host: str,
    run: str,
    made: TransitionPlan,
    armed: bool,
    phrase: str,
    override: str | None = None,
    attempt: str = "",
    release_s: float | None = None,
) -> str:
    """Have the host do it; the attempt's id once it has begun, or ended. Raises ThereError when one of this run is there already.

    ``attempt``: its id, for whoever wants to know it before there is an answer.
    """
    attempt = attempt or layout.new_attempt_id()
    noted = {"host": host, "run": run, "attempt": attempt, "phrase": phrase, "digest": made.digest, "armed": armed}
    noted |= {"override": override} if override else {}
    with audit.action(transition.ACTION, {"steps": [one.does for one in made.steps]}, **noted) as told:
        reply = await session.link.act(run, transition.ACTION, attempt, made.order(armed, phrase, override, release_s), audit.who())
        told["reply"] = state = reading.text(reply, "state")
    why = reading.text(reply, "why", 300)
    if state == telemetry.REFUSED:
        holder = reading.mapping(reply, "holder")
        by = reading.text(holder, "by") or why or "somebody else"
        raise ThereError(f"a transition of run {run} on {host} is there already, by {by}; nothing was done", holder)
    return attempt


def way(host: str, run: str) -> Way:
    """How a command follows one of this run."""
    return Way(
        action=transition.ACTION,
        show=f"eaglewatch next {host} --run {run} --show",
        plan=f"eaglewatch status {host} --run {run}",
        standing=transition_live.standing,
        receipt=transition_lines.receipt,
        line=transition_receipt.line,
    )
