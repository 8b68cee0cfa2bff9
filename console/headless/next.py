"""``eaglewatch next``: the next transition of a run as a plan, and after the typed phrase the host does it, step by proven step."""

import argparse
import asyncio
from collections.abc import Coroutine
from typing import Any

from console.config import Host
from console.core import free_live, reading, transition_live, transition_next, transition_receipt
from console.core.action import Action
from console.core.transition_next import Next
from console.core.transition_plan import TransitionPlan
from console.headless import freeing, hosts, launching, run_settings, transition_lines, transitions
from console.headless.output import CannotTellError, FailedError, Output, Result
from console.headless.run import no_interpreter
from console.headless.session import Session
from console.remote import errors
from console.remote.errors import AgentError
from pipeline.contract import free, telemetry, transition
from pipeline.errors import EXIT_CANNOT_TELL, EXIT_DONE, EXIT_FAILED, EXIT_USAGE, UserError

PATIENCE_S = 30.0
"""For a frame that tells of the action after its launch."""
_CODES = (EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_CANNOT_TELL, free.EXIT_BASELINE, free.EXIT_HELD)


def command(arguments: argparse.Namespace, output: Output) -> Coroutine[Any, Any, int]:
    if arguments.override and not arguments.confirm:
        raise UserError("--override: it is of a transition that is confirmed; --plan shows what it would let through")
    return _next(arguments, hosts.find(arguments.host, output), output)


async def _next(arguments: argparse.Namespace, host: Host, output: Output) -> int:
    async with Session(host, output, arguments.run, interval_s=0.5) as session:
        await session.connect()
        await session.frame_of(arguments.run)
        if arguments.show or arguments.cancel:
            newest = _newest(session, arguments)
            if arguments.cancel:
                await _cancel(session, arguments, newest, output)
            return await _follow(session, arguments, output, newest.attempt.id)
        made = await _plan(session, arguments, host)
        if arguments.plan:
            return _show_plan(arguments, made, output)
        attempt = await _launch(session, arguments, made, output)
        await session.until(lambda: _mine(session, attempt) is not None, PATIENCE_S)
        if arguments.detach:
            return _detached(session, arguments, output, attempt)
        return await _follow(session, arguments, output, attempt)


async def _plan(session: Session, arguments: argparse.Namespace, host: Host) -> TransitionPlan:
    """Raises UserError where there is no next transition."""
    copy = await launching.host_copy(session, arguments.run)
    wanted = transition_next.of(session.store.view, run_settings.resolved(copy.toml) if copy else {}, arguments.before)
    if isinstance(wanted, str):
        raise UserError(f"no next transition of run {arguments.run} on {arguments.host}: {wanted}")
    if arguments.armed and not wanted.runs:
        raise UserError(f"--armed: {wanted.before} does not run, so there is nothing to wait for; without --armed it goes on now")
    label, service = freeing.label_of(arguments.host), "" if arguments.service == "none" else arguments.service
    return await transitions.plan(
        session, host, label, arguments.run, wanted, await _interpreters(session, arguments, host, wanted), service
    )


async def _interpreters(session: Session, arguments: argparse.Namespace, host: Host, wanted: Next) -> dict[str, str]:
    found = {}
    for stage in wanted.stages:
        one = arguments.interpreter or hosts.interpreter_of(host, stage)
        if not one:
            await no_interpreter(session, argparse.Namespace(stage=stage, host=arguments.host), host)
        found[stage] = str(one)
    return found


def _show_plan(arguments: argparse.Namespace, made: TransitionPlan, output: Output) -> int:
    for line in transition_lines.plan(arguments.host, arguments.run, made, arguments.armed):
        output.data(line)
    phrases = {"phrase": made.phrase_now, "phrase_armed": made.phrase_armed}
    output.json({**Result(EXIT_DONE, made.simulated, {}).to_json(), "plan": made.source, **phrases, "digest": made.digest})
    return EXIT_DONE


async def _launch(session: Session, arguments: argparse.Namespace, made: TransitionPlan, output: Output) -> str:
    """Begin it, when what was typed fits what is there now. Raises UserError when it does not, and shows what is."""
    phrase = " ".join(arguments.confirm.split())
    why = ""
    if arguments.digest and arguments.digest != made.digest:
        why = f"the plan {arguments.digest} is not what is there now, which is {made.digest}"
    elif phrase != made.phrase(arguments.armed):
        why = f"the phrase {phrase!r} does not fit what is there now"
    if why:
        for line in transition_lines.plan(arguments.host, arguments.run, made, arguments.armed):
            output.data(line)
        raise UserError(f"{why}; nothing was done. Read the plan, and confirm that one")
    return await transitions.launch(session, arguments.host, arguments.run, made, arguments.armed, phrase, arguments.override)


def _newest(session: Session, arguments: argparse.Namespace) -> Action:
    one = _last(session)
    if one is None or one.run != arguments.run:
        raise UserError(f"run {arguments.run} on {arguments.host} had no transition yet, as far as the host keeps record")
    return one


def _last(session: Session) -> Action | None:
    return session.store.view.actions.get(transition.ACTION) if session.store.view else None


def _mine(session: Session, attempt: str) -> Action | None:
    one = _last(session)
    return one if one is not None and one.attempt.id == attempt else None


async def _cancel(session: Session, arguments: argparse.Namespace, newest: Action, output: Output) -> None:
    if not newest.live_now:
        raise UserError(f"no transition of run {arguments.run} runs or is armed; the newest: {transition_live.standing(newest)}")
    state = await freeing.stop(session, arguments.host, newest.run, newest.attempt.id, transition.ACTION)
    output.say(f"eaglewatch: its stop was asked for: it is {state}")


def _detached(session: Session, arguments: argparse.Namespace, output: Output, attempt: str) -> int:
    one = _mine(session, attempt)
    if one is None:
        raise CannotTellError(f"it was launched, and no frame about it came. {_again(arguments)}")
    output.data(f"{transition_live.standing(one)}. {_again(arguments)}")
    code = EXIT_DONE if one.live_now or one.attempt.done else EXIT_FAILED
    error = "" if code == EXIT_DONE else transition_live.standing(one)
    output.json({**Result(code, session.store.simulated, {}, error).to_json(), "attempt": attempt, "state": one.attempt.state})
    return code


async def _follow(session: Session, arguments: argparse.Namespace, output: Output, attempt: str) -> int:
    """Tell its steps until it has ended, and then its receipt. Interrupted, the host goes on."""
    try:
        ended = await _to_the_end(session, output, attempt)
        if ended is None:
            raise CannotTellError(f"how it ended is not known here ({session.now().words}); {_again(arguments)}")
        return await _conclude(session, output, ended)
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
        if session.over or (one is None and _last(session) is not None):
            return None
        await session.wait(0.5)


def _tell(output: Output, event: dict[str, Any]) -> None:
    for step in transition_live.steps([event]):
        within = "  " if step.inner else ""
        output.data(f"{within}{step.name:<13}  {step.what if step.result is None else f'-> {step.result}'}")
        output.json({"step": step.name, "begins": step.result is None, "state": step.state, "result": step.result, "seconds": step.seconds})


async def _conclude(session: Session, output: Output, ended: Action) -> int:
    """Print the receipt, and give the exit code."""
    try:
        found = await freeing.receipt(session, ended.run, ended.attempt.id, transition.ACTION)
    except AgentError as error:
        if error.kind != errors.MISSING:
            raise
        found = {}
    simulated, code = session.store.simulated, exit_code(ended, found)
    if not found:
        line = transition_live.standing(ended)
        output.data(f"{'SIMULATED  ' if simulated else ''}{line}")
        raise FailedError(line) if code == EXIT_FAILED else CannotTellError(line) if code == EXIT_CANNOT_TELL else UserError(line)
    for line in transition_lines.receipt(found, simulated):
        output.data(line)
    error = "" if code == EXIT_DONE else transition_receipt.line(found)
    output.json({**Result(code, simulated, {}, error).to_json(), "receipt": found})
    return code


def exit_code(ended: Action, receipt: dict[str, Any]) -> int:
    """0 only with the proof in the frame and in the receipt; without a receipt what is known of the attempt."""
    if receipt:
        code = reading.count(receipt, "exit_code")
        if code == EXIT_DONE:
            return code if ended.attempt.done and receipt.get("verified") is True else EXIT_CANNOT_TELL
        return code if code is not None and code in _CODES else EXIT_CANNOT_TELL
    state = ended.attempt.state
    if state == telemetry.REFUSED:
        return EXIT_USAGE
    if state in (telemetry.FAILED, telemetry.CRASHED, telemetry.STOPPED, telemetry.LAUNCH_FAILED):
        return EXIT_FAILED
    return EXIT_CANNOT_TELL


def _again(arguments: argparse.Namespace) -> str:
    return f"To see what comes of it: eaglewatch next {arguments.host} --run {arguments.run} --show"
