"""``eaglewatch free-gpus``: show who holds a host's GPUs, and after the typed phrase have the host free them, with proof."""

import argparse
import asyncio
from collections.abc import Coroutine
from typing import Any

from console.config import Host
from console.core import free_live, free_plan, free_receipt, reading
from console.core.action import Action
from console.core.free_plan import Key, Plan
from console.headless import free_lines, freeing, hosts
from console.headless.output import CannotTellError, FailedError, Output, Result
from console.headless.session import Session
from console.remote import errors
from console.remote.errors import AgentError
from pipeline.contract import free, telemetry
from pipeline.errors import UserError

PATIENCE_S = 30.0
"""For a frame that tells of the action after its launch."""
_CODES = (
    free.EXIT_FREE,
    free.EXIT_FAILED,
    free.EXIT_USAGE,
    free.EXIT_CANNOT_TELL,
    free.EXIT_BASELINE,
    free.EXIT_HELD,
)


def command(arguments: argparse.Namespace, output: Output) -> Coroutine[Any, Any, int]:
    if arguments.accept_baseline and arguments.run is None:
        raise UserError("--accept-baseline: a baseline is accepted for a run; name it with --run")
    if arguments.accept_baseline and arguments.plan:
        raise UserError("--accept-baseline: what idle GPUs hold is only known after --confirm; --plan has changed nothing")
    return _free(arguments, hosts.find(arguments.host, output), output)


async def _free(arguments: argparse.Namespace, host: Host, output: Output) -> int:
    async with Session(host, output, arguments.run, interval_s=0.5) as session:
        await session.connect()
        if arguments.show or arguments.cancel:
            newest = await _newest(session, arguments.host)
            if arguments.cancel:
                await _cancel(session, arguments.host, newest, output)
            return await _follow(session, arguments, output, newest.attempt.id)
        plan = await _plan(session, arguments, host)
        try:
            selection = free_plan.pick(plan, arguments.select, arguments.all)
        except ValueError as error:
            raise UserError(f"--select: {error}") from None
        if arguments.plan:
            return _show_plan(arguments.host, plan, selection, output)
        attempt = await _launch(session, arguments, plan, selection, output)
        await session.until(lambda: _mine(session, attempt) is not None, PATIENCE_S)
        return await _follow(session, arguments, output, attempt)


async def _plan(session: Session, arguments: argparse.Namespace, host: Host) -> Plan:
    """The survey; GPUs that are named by index are looked up in a first one. Raises UserError for those that are not there."""
    label = freeing.label_of(arguments.host)
    named = [one for words in arguments.gpus or [] for one in words.split(",") if one]
    if not named:
        return await freeing.survey(session, host, label, arguments.run)
    uuids = [one for one in named if not one.isdigit()]
    if len(uuids) < len(named):
        everything = await freeing.survey(session, host, label, arguments.run)
        known = {str(index): uuid for index, uuid, _ in everything.memory}
        missing = [one for one in named if one.isdigit() and not known.get(one)]
        if missing:
            raise UserError(f"--gpus: no GPU {', '.join(missing)} on {arguments.host}; there are {', '.join(known) or 'none'}")
        uuids += [known[one] for one in named if one.isdigit()]
    return await freeing.survey(session, host, label, arguments.run, sorted(set(uuids)))


def _show_plan(host: str, plan: Plan, selection: frozenset[Key], output: Output) -> int:
    for line in free_lines.plan(host, plan, selection):
        output.data(line)
    code = free.EXIT_CANNOT_TELL if plan.trouble else free.EXIT_FREE
    told = {"plan": plan.source, "selection": sorted(map(list, selection)), "phrase": plan.phrase(selection), "digest": plan.digest}
    output.json({**Result(code, plan.simulated, {}, plan.trouble).to_json(), **told})
    return code


async def _launch(session: Session, arguments: argparse.Namespace, plan: Plan, selection: frozenset[Key], output: Output) -> str:
    """Begin it, when what was typed fits what is there now. Raises UserError when it does not, and shows what is."""
    phrase = " ".join(arguments.confirm.split())
    why = ""
    if arguments.digest and arguments.digest != plan.digest:
        why = f"the plan {arguments.digest} is not what is there now, which is {plan.digest}"
    elif phrase != plan.phrase(selection):
        why = f"the phrase {phrase!r} does not fit what is there now"
    if why:
        for line in free_lines.plan(arguments.host, plan, selection):
            output.data(line)
        raise UserError(f"{why}; nothing was done. Read the plan, and confirm that one")
    if plan.trouble:
        raise CannotTellError(f"these are not the expected GPUs: {plan.trouble}; nothing was done")
    return await freeing.launch(session, arguments.host, plan, selection, phrase)


async def _newest(session: Session, host: str) -> Action:
    await session.until(lambda: session.store.view is not None, PATIENCE_S)
    one = session.store.view.actions.get(free.ACTION) if session.store.view else None
    if one is None:
        raise UserError(f"no GPUs were freed on {host} yet, as far as it keeps record")
    return one


async def _cancel(session: Session, host: str, newest: Action, output: Output) -> None:
    if not newest.live_now:
        raise UserError(f"no GPUs of {host} are being freed now; the newest: {free_live.standing(newest)}")
    state = await freeing.stop(session, host, newest.run, newest.attempt.id)
    output.say(f"eaglewatch: its stop was asked for: it is {state}")


def _mine(session: Session, attempt: str) -> Action | None:
    one = session.store.view.actions.get(free.ACTION) if session.store.view else None
    return one if one is not None and one.attempt.id == attempt else None


async def _follow(session: Session, arguments: argparse.Namespace, output: Output, attempt: str) -> int:
    """Tell its steps until it has ended, and then its receipt. Interrupted, the host goes on."""
    try:
        ended = await _to_the_end(session, output, attempt)
        if ended is None:
            raise CannotTellError(f"how it ended is not known here ({session.now().words}); {_again(arguments)}")
        return await _conclude(session, arguments, output, ended)
    except asyncio.CancelledError:
        raise CannotTellError(f"interrupted; the host goes on. {_again(arguments)}") from None


async def _to_the_end(session: Session, output: Output, attempt: str) -> Action | None:
    told: set[tuple[Any, ...]] = set()
    while True:
        one = _mine(session, attempt)
        for event in free_live.in_frame(one) if one is not None else []:
            key = (event.get("boot_s"), event.get("step"), event.get("begins"))
            if event.get("kind") == "step" and key not in told:
                told.add(key)
                _tell(output, event)
        if one is not None and one.attempt.ended:
            return one
        if session.over or (one is None and session.store.view is not None and free.ACTION in session.store.view.actions):
            return None
        await session.wait(0.5)


def _tell(output: Output, event: dict[str, Any]) -> None:
    for step in free_live.steps([event]):
        if step.result is None:
            output.data(f"{step.name:<12}  {step.what}")
        else:
            output.data(f"{step.name:<12}  -> {step.result}")
        output.json({"step": step.name, "begins": step.result is None, "result": step.result, "seconds": step.seconds})


async def _conclude(session: Session, arguments: argparse.Namespace, output: Output, ended: Action) -> int:
    """Print the receipt, accept the baseline where that was asked for, and give the exit code."""
    try:
        found = await freeing.receipt(session, ended.run, ended.attempt.id)
    except AgentError as error:
        if error.kind != errors.MISSING:
            raise
        found = {}
    simulated = session.store.simulated
    if not found:
        line = free_live.standing(ended)
        code = exit_code(ended, found)
        output.data(f"{'SIMULATED  ' if simulated else ''}{line}")
        for step in free_live.steps(free_live.in_frame(ended)):
            output.data(f"  {step.name:<12} {step.result if step.result is not None else 'had begun'}")
        raise FailedError(line) if code == free.EXIT_FAILED else CannotTellError(line) if code == free.EXIT_CANNOT_TELL else UserError(line)
    for line in free_lines.receipt(found, simulated):
        output.data(line)
    code, accepted = exit_code(ended, found), {}
    if arguments.accept_baseline:
        accepted = await _accept(session, arguments, output, found)
    elif free_receipt.acceptable(found):
        output.say("eaglewatch: this idle baseline can be accepted for a run: --show --accept-baseline --run RUN; that never makes it 0")
    error = "" if code == free.EXIT_FREE else free_receipt.line(found)
    usable = found.get("usable") is True or bool(accepted)
    output.json({**Result(code, simulated, {}, error).to_json(), "receipt": found, "usable": usable})
    return code


async def _accept(session: Session, arguments: argparse.Namespace, output: Output, found: dict[str, Any]) -> dict[str, int]:
    wanted = free_receipt.acceptable(found)
    if not wanted:
        output.say("eaglewatch: there is no idle baseline to accept")
        return {}
    accepted = await freeing.accept(session, arguments.host, arguments.run, wanted)
    mib = ",".join(str(free.mib(accepted[one.uuid])) for one in free_receipt.gpus(found) if one.uuid in accepted)
    output.data(f"baseline accepted for run {arguments.run}: {mib} MiB, no holder; that is not 0")
    return accepted


def exit_code(ended: Action, receipt: dict[str, Any]) -> int:
    """0 only with the proof in the frame and in the receipt; without a receipt what is known of the attempt."""
    if receipt:
        code = reading.count(receipt, "exit_code")
        if code == free.EXIT_FREE:
            return code if ended.attempt.done and receipt.get("verified") is True else free.EXIT_CANNOT_TELL
        return code if code is not None and code in _CODES else free.EXIT_CANNOT_TELL
    state = ended.attempt.state
    if state == telemetry.REFUSED:
        return free.EXIT_USAGE
    if state in (telemetry.FAILED, telemetry.CRASHED, telemetry.STOPPED, telemetry.LAUNCH_FAILED):
        return free.EXIT_FAILED
    return free.EXIT_CANNOT_TELL


def _again(arguments: argparse.Namespace) -> str:
    run = f" --run {arguments.run}" if arguments.run else ""
    return f"To see what comes of it: eaglewatch free-gpus {arguments.host}{run} --show"
