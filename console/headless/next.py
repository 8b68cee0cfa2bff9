"""``eaglewatch next``: the next transition of a run as a plan, and after the typed phrase the host does it, step by proven step."""

import argparse
import functools
import shlex
from collections.abc import Coroutine
from typing import Any

from console.config import Host
from console.core import reading, transition_live, transition_next
from console.core.action import Action
from console.core.transition_next import Next
from console.core.transition_plan import TransitionPlan
from console.headless import actions, freeing, hosts, launching, run_settings, transition_lines, transitions
from console.headless.actions import Following
from console.headless.follow import attach_command
from console.headless.output import CannotTellError, Output, Result
from console.headless.run import no_interpreter
from console.headless.session import Session
from pipeline.contract import free, transition
from pipeline.contract.stages import STAGES
from pipeline.errors import EXIT_DONE, EXIT_FAILED, UserError

_ONLY_CONFIRM = ("digest", "detach", "release_s")
_ONLY_PLANS = ("armed", "before", "service", "interpreter")


def command(arguments: argparse.Namespace, output: Output) -> Coroutine[Any, Any, int]:
    if arguments.override and arguments.confirm is None:
        raise UserError("--override: it is of a transition that is confirmed; --plan shows what it would let through")
    actions.refuse_idle(arguments, _ONLY_CONFIRM if arguments.plan else _ONLY_CONFIRM + _ONLY_PLANS)
    return _next(arguments, hosts.find(arguments.host, output), output)


async def _next(arguments: argparse.Namespace, host: Host, output: Output) -> int:
    async with Session(host, output, arguments.run, interval_s=0.5) as session:
        await session.connect()
        await session.frame_of(arguments.run)
        view = session.store.view
        if view is None or view.run is None or not view.run.exists:
            raise UserError(f"no run {arguments.run} on {arguments.host}; eaglewatch status {arguments.host} lists its runs")
        following = Following(session, output, transitions.way(arguments.host, arguments.run))
        more = functools.partial(_more, arguments, output)
        if arguments.show or arguments.cancel:
            newest = _newest(following, arguments)
            if arguments.cancel:
                await following.cancel(arguments.host, newest, f"no transition of run {arguments.run} runs or is armed")
            return await following.follow(newest.run, newest.attempt.id, more)
        made = await _plan(session, arguments, host)
        if arguments.plan:
            return _show_plan(session, arguments, made, output)
        attempt = await _launch(session, arguments, made, output)
        if arguments.detach:
            return await _detached(session, arguments, following, output, attempt)
        return await following.follow(arguments.run, attempt, more)


async def _plan(session: Session, arguments: argparse.Namespace, host: Host) -> TransitionPlan:
    """Raises UserError where there is no next transition."""
    copy = await launching.host_copy(session, arguments.run)
    wanted = transition_next.of(session.store.view, run_settings.resolved(copy.toml) if copy else {}, arguments.before)
    if isinstance(wanted, str):
        told = f"how its stages stand: eaglewatch status {arguments.host} --run {arguments.run}"
        raise UserError(f"no next transition of run {arguments.run} on {arguments.host}: {wanted}; {told}")
    if arguments.armed and not wanted.runs:
        raise UserError(f"--armed: {wanted.before} does not run, so there is nothing to wait for; without --armed it goes on now")
    if transition.needs_gpus(wanted.goal) and not host.expected_gpus:
        start = f"eaglewatch run {wanted.stages[0]} --host {arguments.host} --run {arguments.run}"
        raise UserError(f"expected_gpus of {arguments.host} is 0: there are no GPUs to free on the way to {wanted.goal}; by hand: {start}")
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


def _show_plan(session: Session, arguments: argparse.Namespace, made: TransitionPlan, output: Output) -> int:
    _print(session, arguments, made, output)
    live = transition_next.live(session.store.view, arguments.run)
    if live is not None:
        why = f"one is there already ({transition_live.standing(live)}), so this cannot be confirmed now"
        output.say(f"eaglewatch: {why}. {_ways(arguments)}")
    phrases = {"phrase": made.phrase_now, "phrase_armed": made.phrase_armed}
    simulated = made.simulated or session.store.simulated
    told = {"plan": made.source, **phrases, "digest": made.digest, "command": _command(arguments, made, arguments.armed)}
    if _could_be_armed(session, arguments, made):
        told["command_armed"] = _command(arguments, made, True)
    output.json({**Result(EXIT_DONE, simulated, {}).to_json(), **told})
    return EXIT_DONE


def _print(session: Session, arguments: argparse.Namespace, made: TransitionPlan, output: Output) -> None:
    accepted = session.store.view.baseline_accepted if session.store.view else {}
    simulated = made.simulated or session.store.simulated
    for line in transition_lines.plan(arguments.host, arguments.run, made, arguments.armed, simulated, accepted):
        output.data(line)
    if not _could_be_armed(session, arguments, made):
        output.data(f"\nplan {made.digest}; to do this: {_command(arguments, made, arguments.armed)}")
        return
    why = f"{made.before} still runs: begun now it stops at the first step, armed it waits on the host until {made.before} is verified"
    output.data(f"\nplan {made.digest}; {why}\nto arm it: {_command(arguments, made, True)}")
    output.data(f"once {made.before} is verified, to begin by hand: eaglewatch next {arguments.host} --run {arguments.run} --plan")


def _could_be_armed(session: Session, arguments: argparse.Namespace, made: TransitionPlan) -> bool:
    """Whether the stage before still runs, and nobody asked for the armed one."""
    one = session.store.attempt(made.before)
    return not arguments.armed and one is not None and one.live and not STAGES[made.before].service


def _command(arguments: argparse.Namespace, made: TransitionPlan, armed: bool) -> str:
    """What is to be typed to confirm this plan, and no other one."""
    words = ["eaglewatch", "next", arguments.host, "--run", arguments.run]
    for option, value in (
        ("from", arguments.before),
        ("service", arguments.service),
        ("interpreter", arguments.interpreter),
        ("override", arguments.override),
    ):
        words += [f"--{option}", value] if value else []
    words += ["--armed"] if armed else []
    return shlex.join([*words, "--digest", made.digest, "--confirm", made.phrase(armed)])


async def _launch(session: Session, arguments: argparse.Namespace, made: TransitionPlan, output: Output) -> str:
    """Begin it, when what was typed fits what is there now. Raises UserError when it does not, and shows what is."""
    phrase = " ".join(arguments.confirm.split())
    why = ""
    if arguments.digest and arguments.digest != made.digest:
        why = f"the plan {arguments.digest} is not what is there now, which is {made.digest}"
    elif phrase == made.phrase(not arguments.armed):
        why = f"{phrase!r} is the phrase {'without' if arguments.armed else 'with'} --armed"
    elif phrase != made.phrase(arguments.armed):
        why = f"the phrase {phrase!r} does not fit what is there now"
    elif made.source.get("untested") and not arguments.digest:  # the phrase does not name them: without the digest nobody has seen them
        why = f"versions that are not tested are let through only with the digest of the plan that shows them: --digest {made.digest}"
    if why:
        _print(session, arguments, made, output)
        raise UserError(f"{why}; nothing was done. Read the plan, and confirm that one")
    try:
        return await transitions.launch(
            session, arguments.host, arguments.run, made, arguments.armed, phrase, arguments.override, release_s=arguments.release_s
        )
    except transitions.ThereError as error:
        raise UserError(f"{error}. {_ways(arguments)}") from None


def _newest(following: Following, arguments: argparse.Namespace) -> Action:
    nothing = f"run {arguments.run} on {arguments.host} had no transition yet, as far as the host keeps record"
    one = following.known(nothing)
    if one.run != arguments.run:
        theirs = f"eaglewatch next {arguments.host} --run {one.run} --show"
        raise UserError(f"no transition of run {arguments.run} on {arguments.host} runs; one of run {one.run} does: {theirs}")
    return one


async def _more(arguments: argparse.Namespace, output: Output, found: dict[str, Any]) -> dict[str, Any]:
    """What to type now."""
    host, run, goal = arguments.host, arguments.run, reading.text(found, "goal", 40)
    if found.get("verified") is True:
        lines = [f"to follow {goal}: {attach_command(host, run, goal)}"]
    else:
        held = reading.count(found, "exit_code") in (free.EXIT_HELD, free.EXIT_BASELINE)
        lines = [f"what the GPUs hold: eaglewatch free-gpus {host} --run {run} --plan"] if held else []
        lines.append(f"to go on: eaglewatch next {host} --run {run} --plan")
    for line in lines:
        output.say(f"eaglewatch: {line}")
    return {}


def _ways(arguments: argparse.Namespace) -> str:
    return f"To follow it: eaglewatch next {arguments.host} --run {arguments.run} --show; to stop or disarm it: the same with --cancel"


async def _detached(session: Session, arguments: argparse.Namespace, following: Following, output: Output, attempt: str) -> int:
    """Once it has said where it is."""

    def told() -> bool:
        one = following.mine(attempt)
        return one is not None and (one.attempt.ended or transition_live.is_armed(one) or (bool(one.step) and not arguments.armed))

    await session.until(told, actions.PATIENCE_S)
    one = following.mine(attempt)
    if one is None:
        raise CannotTellError(f"it was launched, and no frame about it came. {following.again}")
    mark = "SIMULATED  " if session.store.simulated else ""
    output.data(f"{mark}{transition_live.standing(one)}. {following.again}")
    code = EXIT_DONE if one.live_now or one.attempt.done else EXIT_FAILED
    error = "" if code == EXIT_DONE else transition_live.standing(one)
    output.json({**Result(code, session.store.simulated, {}, error).to_json(), "attempt": attempt, "state": one.attempt.state})
    return code
