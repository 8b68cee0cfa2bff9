"""Launching a stage: settings on the host, one attempt id however often it is asked for, and who holds the stage when it is refused."""

import asyncio
from dataclasses import dataclass
from typing import Any, NamedTuple

from console.core import reading, sanitize
from console.core.attempt import holder_text
from console.headless import audit, gpu_evidence, run_settings
from console.headless.follow import Followed, attach_command
from console.headless.output import CannotTellError, FailedError, Output
from console.headless.run_settings import Wanted
from console.headless.session import Session
from console.remote import errors
from console.remote.errors import AgentError, RemoteError
from pipeline.contract import checkout, telemetry
from pipeline.errors import UserError


@dataclass(frozen=True)
class Order:
    """What to launch."""

    host: str
    run: str
    stage: str
    interpreter: str
    args: list[str]
    override_gpus: str | None = None
    """The reason to launch it though its GPUs are not verified free. Outdated input has its own, among ``args``."""


async def put_settings(session: Session, host: str, run: str, wanted: Wanted, replace: bool, hint: str = "") -> list[str]:
    """Make the run's settings on the host those that are wanted; what that changes, ``key: old -> new``, which is also said before.

    Raises UserError when its copy is another one that stays.
    """
    copy = await host_copy(session, run)
    changed = run_settings.changes(copy.toml, wanted.resolved) if copy and replace else []
    if changed:
        session.output.say(f"eaglewatch: settings of run {run} on {host} change:")
        for row in changed:
            session.output.say(f"  {row}")
    noted: dict[str, Any] = {"host": host, "run": run, "replace": replace, **({"changed": changed} if changed else {})}
    with audit.action("put-settings", **noted) as told:
        reply = await session.link.request("put-settings", run=run, toml=wanted.toml, resolved=wanted.resolved, replace=replace)
        told["reply"] = "written" if reply.get("written") is True else "kept"
    rules = reply.get("toml")
    if rules == wanted.toml:
        if kept := reading.text(reply, "kept"):
            session.output.say(f"eaglewatch: the copy before is kept there as {kept}")
        return changed
    if not isinstance(rules, str):
        raise FailedError(f"{host}: put-settings was answered without the settings that rule now")
    if run_settings.same(rules, wanted.resolved):
        return []  # only comments or layout differ
    raise run_settings.conflict(host, run, rules, wanted.resolved, hint)


class HostCopy(NamedTuple):
    """The run's settings on the host."""

    toml: str
    sha256: str


async def host_copy(session: Session, run: str) -> HostCopy | None:
    """None when it has none. Raises RemoteError; FailedError for an answer that holds none."""
    try:
        reply = await session.link.request("read", run=run, what="settings", stage=None, attempt=None)
    except AgentError as error:
        if error.kind == errors.MISSING:
            return None
        raise
    value = reply.get("value")
    if not isinstance(value, str):
        raise FailedError(f"the settings of run {run} were asked for, and the host's answer holds none")
    return HostCopy(value, reading.text(reply, "sha256"))


async def live_attempt(session: Session, order: Order, copy: HostCopy | None, wanted: Wanted | None, output: Output) -> Followed | None:
    """The stage's live attempt, when this order is the one that it was launched with; None when nothing is live.

    ``copy``: the settings that the run has; ``wanted``: those of the order, None for the copy. The session has a frame about the run.
    Raises UserError when the live one was ordered otherwise, RemoteError.
    """
    host, run, stage = order.host, order.run, order.stage
    one = session.store.attempt(stage)
    if one is None or not one.live:
        return None
    with audit.orphaned_launch(host, run, stage, one.id) as orphan:
        asked = await _spec_asked(session, order, one.id) if orphan is None else orphan.asked
        different = _different(asked, _asked(order, copy))
        if wanted is not None and copy is not None and not run_settings.same(copy.toml, wanted.resolved):
            different += _rows(copy.toml, wanted)
        if different:
            by = f"attempt {one.id} by {one.by}" if orphan is None else f"attempt {one.id}, of an earlier command"
            raise held(host, run, stage, f"{by}, launched with other {'; '.join(different)}")
        if orphan is not None:
            orphan.settle()
    who = f"by {one.by}" if orphan is None else "by an earlier command, which did not hear of it"
    output.say(f"eaglewatch: {stage} of run {run} on {host} runs already (attempt {one.id} {who}); following it")
    return Followed(host, run, stage, one.id)


async def _spec_asked(session: Session, order: Order, attempt: str) -> dict[str, Any]:
    """What a live attempt was launched with; empty of one that was started by hand. Raises RemoteError."""
    reply = await session.link.request("read", run=order.run, stage=order.stage, attempt=attempt, what="spec")
    return reading.mapping(reading.mapping(reply, "value"), "asked") or {}


def _asked(order: Order, copy: HostCopy | None) -> dict[str, Any]:
    """What makes two launches of a stage the same one."""
    override = {"override_gpus": order.override_gpus} if order.override_gpus else {}
    return {"interpreter": order.interpreter, "args": order.args, "settings_sha256": copy.sha256 if copy else None, **override}


def _different(there: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """In what two orders differ, safe to print. An order that names no interpreter has any; while a stage runs, its settings stay."""
    found = []
    if here["interpreter"] and there.get("interpreter") != here["interpreter"]:
        found.append(f"interpreter: {there.get('interpreter', 'unknown')} there, {here['interpreter']} here")
    if there.get("args") != here["args"]:
        found.append(f"arguments: {_words(there.get('args'))} there, {_words(here['args'])} here")
    if "settings_sha256" in there and there["settings_sha256"] != here["settings_sha256"]:
        found.append("settings: the run's settings were replaced since")
    return [sanitize.line(row, 300) for row in found]


def _words(args: Any) -> str:
    return " ".join(map(str, args)) or "none" if isinstance(args, list) else "unknown ones"


def _rows(there: str, wanted: Wanted) -> list[str]:
    try:
        return run_settings.differences(there, wanted.resolved)[:4]
    except UserError as error:
        return [sanitize.line(str(error), 300)]


async def launch(session: Session, order: Order, output: Output) -> Followed:
    """Launch it and give back what to follow. Raises UserError when somebody holds the stage, FailedError, RemoteError.

    The attempt id is on disk before it is sent, and a reply that never came is asked for again with the same id. The same id is
    never asked for with another order.
    """
    asked = _asked(order, await host_copy(session, order.run))
    with audit.pending_launch(order.host, order.run, order.stage, asked) as pending:
        if not pending.found or (pending.asked == asked and not await _claimed(session, order, pending.attempt)):
            return await _send(session, order, pending, output)
        pending.settle()  # it was launched and has ended since, or is another order; what still runs is refused by the host's lock
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
    noted |= {"override_gpus": order.override_gpus} if order.override_gpus else {}
    env = await asyncio.to_thread(checkout.to_environment)
    gpus = {"expected_gpus": session.host.expected_gpus, "gpu_uuids": list(session.host.gpu_uuids)}
    try:
        with audit.action("launch", {"interpreter": order.interpreter, "args": order.args}, **noted) as told:
            reply = await session.link.launch(
                order.run,
                order.stage,
                pending.attempt,
                order.interpreter,
                order.args,
                env,
                audit.who(),
                gpus=gpus,
                override=order.override_gpus,
            )
            told |= {"reply": reading.text(reply, "state"), "existing": reading.flag(reply, "existing")}
    except RemoteError as error:
        if isinstance(error, AgentError) and not error.unanswered:
            pending.settle()
        if error.kind == errors.GPUS:
            raise GpusHeldError(order.host, error) from None
        raise
    pending.settle()
    followed = Followed(order.host, order.run, order.stage, pending.attempt)
    _tell(reply, told["reply"], followed, output)
    await gpu_evidence.tell(session, followed, output)
    return followed


class HeldError(UserError):
    """Somebody else runs the stage."""


class GpusHeldError(UserError):
    """The host's gate: what the stage needs is not verified free. Nothing was claimed. ``line`` names the holders."""

    def __init__(self, host: str, error: RemoteError):
        ways = f"who holds them: eaglewatch free-gpus {host} --plan; to start it all the same: --override-gpus REASON, which is logged"
        super().__init__(f"{error.message}; {ways}")
        self.line = error.message


def held(host: str, run: str, stage: str, by: str) -> HeldError:
    """The error for a stage that somebody else runs."""
    stop = f"eaglewatch stop {host} --run {run} --stage {stage}"
    watch = attach_command(host, run, stage)
    return HeldError(f"{stage} of run {run} on {host} runs already ({by}); to watch it: {watch}; to stop it: {stop}")


def interrupted(order: Order) -> CannotTellError:
    """The error for a command that ends between launch and reply."""
    look = attach_command(order.host, order.run, order.stage)
    return CannotTellError(f"interrupted while it was launched; to see what came of it: {look}")


def _tell(reply: dict[str, Any], state: str, followed: Followed, output: Output) -> None:
    """Say what the launch came to. Raises UserError when it was refused."""
    if state == telemetry.REFUSED:
        raise held(followed.host, followed.run, followed.stage, holder_text(reply.get("holder")) or reading.text(reply, "why"))
    if state in telemetry.LIVE_STATES:
        pid = reading.count(reply, "pid")
        output.say(f"eaglewatch: {state}: {followed.stage} of run {followed.run} on {followed.host}, attempt {followed.attempt}, pid {pid}")
        return
    if state == telemetry.UNREADABLE:
        output.say(f"eaglewatch: {followed.stage} was launched; how it stands is not known here: {reading.text(reply, 'why', 500)}")
        return
    why = reading.text(reply, "why", 500)
    if state == telemetry.DONE or not isinstance(reply.get("log_tail"), str):
        return  # whoever follows it tells its end
    tail = sanitize.lines(str(reply["log_tail"]).rstrip("\n"))[-40:]
    rest = [line for line in tail if line.strip() and not (why and why in line)]  # the reason is told with the end, and once
    if rest:
        output.say(f"eaglewatch: {followed.stage} ended at once; its log:")
    for line in rest:
        output.say(f"  | {line}")
