"""``eaglewatch attach``: follow what was launched before, by whomever."""

import argparse
from collections.abc import Coroutine, Sequence
from typing import Any

from console.config import Host
from console.core import runs, transition_live, transition_next
from console.core.attempt import Attempt
from console.core.runs import Listed
from console.headless import hosts, outcome
from console.headless.follow import Followed, Follower, finish
from console.headless.output import Output
from console.headless.session import Session
from pipeline.contract.stages import STAGES
from pipeline.errors import UserError


def command(arguments: argparse.Namespace, output: Output) -> Coroutine[Any, Any, int]:
    return _attach(arguments, hosts.find(arguments.host, output), output)


async def _attach(arguments: argparse.Namespace, host: Host, output: Output) -> int:
    async with Session(host, output, arguments.run) as session:
        await session.connect()
        run = arguments.run or choose_run(await session.runs(), arguments.host, arguments.stage)
        await session.watch(run)
        one = choose_attempt(session, arguments.host, run, arguments.stage)
        followed = Followed(arguments.host, run, one.stage, one.id)
        way = transition_next.live(session.store.view, run)
        if way is not None:
            seen = f"eaglewatch next {arguments.host} --run {run} --show"
            output.say(f"eaglewatch: a transition of run {run} goes on beside it ({transition_live.standing(way)}): {seen}")
        if one.refused is not None:
            why = one.refused.why or outcome.words(one.refused)
            output.say(f"eaglewatch: the last launch of {one.stage} was refused: {why}; what follows is of the one before it")
        return finish(output, await Follower(session, followed, output).follow())


def choose_run(listed: Sequence[Listed], host: str, stage: str | None = None) -> str:
    """The only run with something live in it, else the only run: how it ended while nobody watched is what is asked for then.

    Raises UserError, which lists what there is.
    """
    one = runs.only(listed, stage)
    if one is not None and one.states and stage in (None, *one.states):
        return one.name
    what = "several runs are live" if any(other.is_live(stage) for other in listed) else "nothing is live"
    if not listed:
        raise UserError(f"{what} on {host}; there are no runs; to make one: eaglewatch init {host} RUN --preset NAME")
    if one is not None and stage is None:
        raise UserError(f"nothing of {one.name}, the only run on {host}, was launched yet; {_begin(host, one.name)}")
    rows = [f"{one.name} ({', '.join(f'{key} {state}' for key, state in one.states.items()) or 'nothing launched'})" for one in listed]
    raise UserError(f"{what} on {host}; name one with --run; there are {'; '.join(rows)}")


def choose_attempt(session: Session, host: str, run: str, stage: str | None) -> Attempt:
    """The attempt to follow: the live one, which is the one that works where a server is live too; else the one that started last.

    Raises UserError.
    """
    view = session.store.view
    stages = (view.stages if view else None) or {}
    if view is None or view.run is None or not view.run.exists:
        raise UserError(f"no run {run} on {host}; eaglewatch status {host} lists its runs")
    if stage is not None:
        if stage not in stages:
            raise UserError(
                f"{stage} of run {run} on {host} was never launched; to start it: eaglewatch run {stage} --host {host} --run {run}"
            )
        return stages[stage]
    live = [one for one in stages.values() if one.live]
    live = [one for one in live if not STAGES[one.stage].service] or live
    if len(live) > 1:
        raise UserError(f"several stages of run {run} on {host} are live; name one with --stage: {', '.join(one.stage for one in live)}")
    if live:
        return live[0]
    if not stages:
        raise UserError(f"nothing of run {run} on {host} was launched yet; {_begin(host, run)}")
    return max(stages.values(), key=lambda one: one.started_boot_s if one.started_boot_s is not None else float("-inf"))


def _begin(host: str, run: str) -> str:
    return f"to begin: eaglewatch run {next(iter(STAGES))} --host {host} --run {run}"
