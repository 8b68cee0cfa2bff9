"""``eaglewatch stop``: say what will be stopped, ask, ask the host, and wait until it has ended."""

import argparse
from collections.abc import Coroutine
from typing import Any

from console.config import Host
from console.core import fmt, gates, transition_live
from console.core.attempt import Attempt
from console.headless import asking, hosts, outcome, stopping
from console.headless.attach import choose_attempt
from console.headless.follow import Followed, Follower, finish
from console.headless.lines import done_words
from console.headless.output import FailedError, Output, Result
from console.headless.session import Session
from pipeline.contract import telemetry
from pipeline.contract.stages import STAGES
from pipeline.errors import EXIT_DONE, UserError


def command(arguments: argparse.Namespace, output: Output) -> Coroutine[Any, Any, int]:
    if not arguments.yes and not asking.can_ask():
        raise UserError("stop asks before it acts, and there is no terminal to ask on: add --yes")
    return _stop(arguments, hosts.find(arguments.host, output), output)


async def _stop(arguments: argparse.Namespace, host: Host, output: Output) -> int:
    async with Session(host, output, arguments.run) as session:
        await session.connect()
        await session.frame_of(arguments.run)
        one = choose_attempt(session, arguments.host, arguments.run, arguments.stage)
        if not one.live:
            raise UserError(f"{one.stage} of run {arguments.run} on {arguments.host} does not run: {outcome.words(one)}")
        output.say(f"eaglewatch: stops {_what(session, one, arguments.run, arguments.host)}")
        for line in _besides(session, one, arguments.run):
            output.say(f"eaglewatch: {line}")
        if not arguments.yes and not await asking.confirmed("Stop it?"):
            raise FailedError("nothing was stopped")
        state = await stopping.ask(session, arguments.host, arguments.run, one)
        followed = Followed(arguments.host, arguments.run, one.stage, one.id)
        ended = _judge(await Follower(session, followed, output).follow(), one.stage)
        if _ended_by_itself(state, ended, one.stage):
            output.say("eaglewatch: it had ended by itself before the signal")
        return finish(output, ended)


def _what(session: Session, one: Attempt, run: str, host: str) -> str:
    view, progress = session.store.view, one.progress
    since = view.boot_s - one.started_boot_s if view and one.started_boot_s is not None else None
    who = f"{one.stage} of run {run} on {host}: pid {one.pid}, started {fmt.duration(since)} ago by {one.by}"
    if STAGES[one.stage].service:
        return who
    return f"{who}{f', {done_words(one)} done' if progress else ''}. What is finished stays"


def _besides(session: Session, one: Attempt, run: str) -> list[str]:
    """What else the stop reaches: stages that work through this one, and a transition."""
    live = [other for other in ((session.store.view.stages if session.store.view else None) or {}).values() if other.live]
    using = [other.stage for other in live if STAGES[one.stage].service and STAGES[other.stage].gpus == gates.THROUGH_SERVER]
    through = f"{', '.join(using)} works through it now, and fails unless it is started again" if using else ""
    return [line for line in (through, transition_live.met_by_stop(session.store.view, run, one.stage)) if line]


def _ended_by_itself(asked: str, ended: Result, stage: str) -> bool:
    """``asked``: its state by the host's answer to the stop."""
    state = ended.stages.get(stage, {}).get("state")
    return state == telemetry.DONE or (asked not in telemetry.LIVE_STATES and asked == state != telemetry.STOPPED)


def _judge(ended: Result, stage: str) -> Result:
    """STOPPED is what was asked for; DONE says that nothing was left to stop."""
    state = ended.stages.get(stage, {}).get("state")
    if state in (telemetry.STOPPED, telemetry.DONE):
        return Result(EXIT_DONE, ended.simulated, ended.stages)
    return ended
