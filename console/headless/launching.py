"""Launching a stage: settings on the host, one attempt id however often it is asked for, and who holds the stage when it is refused."""

from dataclasses import dataclass
from typing import Any

from console.core import reading, sanitize
from console.core.attempt import holder_text
from console.headless import audit, run_settings
from console.headless.follow import Followed, attach_command
from console.headless.output import CannotTellError, FailedError, Output
from console.headless.run_settings import Wanted
from console.headless.session import Session
from console.remote import errors
from console.remote.errors import AgentError, RemoteError
from pipeline.contract import telemetry
from pipeline.errors import UserError


@dataclass(frozen=True)
class Order:
    """What to launch."""

    host: str
    run: str
    stage: str
    interpreter: str
    args: list[str]


async def put_settings(session: Session, host: str, run: str, wanted: Wanted, replace: bool, hint: str = "") -> None:
    """Make the run's settings on the host those that are wanted. Raises UserError when its copy is another one that stays."""
    audit.record("put-settings", host=host, run=run, replace=replace, reply=None)
    reply = await session.link.request("put-settings", run=run, toml=wanted.toml, resolved=wanted.resolved, replace=replace)
    rules = reply.get("toml")
    audit.record("put-settings", host=host, run=run, replace=replace, reply="written" if reply.get("written") is True else "kept")
    if rules == wanted.toml:
        return
    if not isinstance(rules, str):
        raise FailedError(f"{host}: put-settings was answered without the settings that rule now")
    if run_settings.same(rules, wanted.resolved):
        return  # only comments or layout differ
    raise run_settings.conflict(host, run, rules, wanted.resolved, hint)


def live_attempt(session: Session, host: str, run: str, stage: str, output: Output) -> Followed | None:
    """The stage's live attempt when a command from here launched it and never heard of it; None when nothing is live.

    Raises UserError when somebody else's is live. The session has a frame about the run.
    """
    one = session.store.attempt(stage)
    if one is None or not one.live:
        return None
    if not audit.forget_launch(host, run, stage, one.id):
        raise held(host, run, stage, f"attempt {one.id} by {one.by}")
    output.say(f"eaglewatch: an earlier command launched attempt {one.id} and did not hear of it; following that one")
    return Followed(host, run, stage, one.id)


async def launch(session: Session, order: Order, output: Output) -> Followed:
    """Launch it and give back what to follow. Raises UserError when somebody holds the stage, FailedError, RemoteError.

    The attempt id is on disk before it is sent, and a reply that never came is asked for again with the same id.
    """
    with audit.pending_launch(order.host, order.run, order.stage) as pending:
        if pending.found and await _claimed(session, order, pending.attempt):
            pending.settle()  # that one was launched and has ended since
        else:
            return await _send(session, order, pending, output)
    return await launch(session, order, output)


async def _claimed(session: Session, order: Order, attempt: str) -> bool:
    """Whether the host has heard of an attempt. Raises RemoteError."""
    try:
        await session.link.request("read", run=order.run, stage=order.stage, attempt=attempt, what="spec")
    except AgentError as error:
        if error.kind == errors.MISSING:
            return False
        raise
    return True


async def _send(session: Session, order: Order, pending: audit.Pending, output: Output) -> Followed:
    noted = {"host": order.host, "run": order.run, "stage": order.stage, "attempt": pending.attempt}
    audit.record("launch", **noted, interpreter=order.interpreter, args=order.args, reply=None)
    try:
        reply = await session.link.launch(order.run, order.stage, pending.attempt, order.interpreter, order.args, {}, audit.who())
    except RemoteError as error:
        audit.record("launch", **noted, reply=f"error: {error}")
        if isinstance(error, AgentError) and not error.unanswered:
            pending.settle()
        raise
    state = reading.text(reply, "state")
    audit.record("launch", **noted, reply=state, existing=reading.flag(reply, "existing"))
    pending.settle()
    followed = Followed(order.host, order.run, order.stage, pending.attempt)
    _tell(reply, state, followed, output)
    return followed


class HeldError(UserError):
    """Somebody else runs the stage."""


def held(host: str, run: str, stage: str, by: str) -> HeldError:
    """The error for a stage that somebody else runs."""
    return HeldError(f"{stage} of run {run} on {host} runs already ({by}); to watch it: {attach_command(host, run)}")


def interrupted(host: str, run: str) -> CannotTellError:
    """The error for a command that ends between launch and reply."""
    return CannotTellError(f"interrupted while it was launched; to see what came of it: {attach_command(host, run)}")


def _tell(reply: dict[str, Any], state: str, followed: Followed, output: Output) -> None:
    """Say what the launch came to. Raises UserError when it was refused."""
    if state == telemetry.REFUSED:
        raise held(followed.host, followed.run, followed.stage, holder_text(reply.get("holder")) or reading.text(reply, "why"))
    if state in telemetry.LIVE_STATES:
        pid = reading.count(reply, "pid")
        output.say(f"eaglewatch: {state}: {followed.stage} of run {followed.run} on {followed.host}, attempt {followed.attempt}, pid {pid}")
        return
    output.say(f"eaglewatch: {followed.stage} ended at once: {state} {reading.text(reply, 'why', 500)}")
    tail = reply.get("log_tail")
    if state != telemetry.DONE and isinstance(tail, str):
        for line in sanitize.lines(tail.rstrip("\n"))[-40:]:
            output.say(f"  | {line}")
