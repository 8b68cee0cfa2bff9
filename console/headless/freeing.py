"""What is asked of a host about freeing its GPUs, and how it is put on record here. Used by the screen and by the command.

All raise StageError: what the host refuses, and what cannot be recorded, which then is not asked for.
"""

from typing import Any

from console.config import Host
from console.core import audit_words, free_plan, reading, sanitize
from console.core.audit_words import Log
from console.core.free_plan import Key, Plan
from console.headless import audit
from console.headless.output import CannotTellError
from console.headless.session import Session
from console.remote.errors import RemoteError
from pipeline.contract import free, layout, telemetry
from pipeline.errors import BusyError

SURVEY_S = 75.0
"""The host gives itself 60 s."""


async def survey(session: Session, host: Host, label: str, run: str | None, wanted: list[str] | None = None) -> Plan:
    """Who holds the GPUs now, and what would be ended. ``wanted``: UUIDs; None: all."""
    fields = {"label": label, "run": run, "expected_gpus": host.expected_gpus, "gpu_uuids": list(host.gpu_uuids), "wanted": wanted or []}
    source = (await session.link.request("free.plan", SURVEY_S, **fields)).get("plan")
    plan = free_plan.parse(source)
    if plan is None and len(reading.sequence(source, "rows") or []) > free_plan.MAX_ROWS:
        most = f"more than {free_plan.MAX_ROWS:,} processes hold GPUs or have one open"
        raise CannotTellError(f"{label}: {most}, too many to show; with --gpus the command free-gpus looks at fewer GPUs at a time")
    if plan is None:
        raise CannotTellError(f"{label}: the host's plan cannot be understood; its host program may be of another version")
    return plan


async def launch(
    session: Session, host: str, plan: Plan, selection: frozenset[Key], phrase: str, attempt: str = "", release_s: float | None = None
) -> str:
    """Have the host do it; the attempt's id once it has begun, or ended. Raises BusyError when another one is at work.

    ``attempt``: its id, for whoever wants to know it before there is an answer.
    """
    attempt, run = attempt or layout.new_attempt_id(), plan.source.get("run") or layout.HOST_RUN
    rows = [[one.pid, one.ticks, one.user, one.title[:80]] for one in plan.selected(selection)]
    noted = {"host": host, "run": run, "attempt": attempt, "phrase": phrase, "digest": plan.digest}
    with audit.action(free.ACTION, {"processes": rows}, **noted) as told:
        reply = await session.link.act(run, free.ACTION, attempt, plan.order(selection, phrase, release_s), audit.who())
        told["reply"] = state = reading.text(reply, "state")
    why = reading.text(reply, "why", 300)
    if state == telemetry.REFUSED:
        holder = reading.mapping(reply, "holder")
        by = reading.text(holder, "by") or why or "somebody else"
        raise BusyError(f"GPUs of {host} are being freed already, by {by}; nothing was done", holder)
    return attempt


async def stop(session: Session, host: str, run: str | None, attempt: str, action: str = free.ACTION) -> str:
    """Cancel it at its next wait; its state then. What was sent stays sent. ``action``: it, or another one of the host."""
    named = run or layout.HOST_RUN
    noted = {"host": host, "run": named, "stage": action, "attempt": attempt}
    with audit.action("stop", **noted) as told:
        reply = await session.link.stop(named, action, attempt, audit.who())
        told["reply"] = state = reading.text(reply, "state")
    return state


async def accept(session: Session, host: str, run: str, gpus: dict[str, int]) -> dict[str, int]:
    """Accept for this run what idle GPUs hold, as recorded and shown: {UUID: bytes}. CannotTellError: the answer does not say so."""
    noted = {"host": host, "run": run, "gpus": gpus}
    audit.record("baseline-accept", **noted, reply=None)
    try:
        reply = await session.link.request("baseline.accept", run=run, gpus=gpus, by=audit.who())
    except RemoteError as error:
        audit.record("baseline-accept", **noted, reply=f"error: {error}")
        raise
    found = reading.mapping(reply, "accepted") or {}
    accepted = {uuid: size for uuid in found if (size := reading.count(found, uuid)) is not None}
    if any(accepted.get(uuid) != size for uuid, size in gpus.items()):
        audit.record("baseline-accept", **noted, reply="not understood")
        raise CannotTellError(f"{host}: the answer does not say that the baseline was accepted for run {run}; it may have been: look again")
    audit.record("baseline-accept", **noted, reply="accepted")
    return accepted


async def receipt(session: Session, run: str | None, attempt: str, action: str = free.ACTION) -> dict[str, Any]:
    """All of what it proved. Raises AgentError (``missing``) when it left none."""
    reply = await session.link.request("read", run=run or layout.HOST_RUN, what="receipt", stage=action, attempt=attempt)
    return reading.mapping(reply, "value") or {}


async def events(session: Session, run: str | None, attempt: str, action: str = free.ACTION) -> list[dict[str, Any]]:
    """Its events so far, oldest first."""
    reply = await session.link.request("read", run=run or layout.HOST_RUN, what="events", stage=action, attempt=attempt)
    return [one for one in reading.sequence(reply, "value") or [] if isinstance(one, dict)]


async def ended(session: Session, run: str | None, attempt: str, action: str = free.ACTION) -> dict[str, Any]:
    """Its exit record. Raises AgentError (``missing``) while it has not ended, or when nothing was left to record that."""
    reply = await session.link.request("read", run=run or layout.HOST_RUN, what="exit", stage=action, attempt=attempt)
    return reading.mapping(reply, "value") or {}


async def host_audit(session: Session) -> Log:
    """The newest lines of the host's own audit log."""
    return audit_words.of_reply(await session.link.request("audit"))


def label_of(host: str) -> str:
    """What the operator types for the host: the name by which they called it here."""
    return sanitize.line(host.strip(), 100).replace(" ", "-") or "host"
