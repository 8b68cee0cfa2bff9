"""``eaglewatch attach``: follow what was launched before, by whomever."""

import argparse
from collections.abc import Coroutine
from typing import Any

from console.config import Host
from console.core import reading
from console.core.attempt import Attempt, name
from console.headless import hosts, outcome
from console.headless.follow import Followed, Follower, finish
from console.headless.output import Output
from console.headless.session import Session
from pipeline.contract import telemetry
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
        if one.refused is not None:
            why = one.refused.why or outcome.words(one.refused)
            output.say(f"eaglewatch: the last launch of {one.stage} was refused: {why}; what follows is of the one before it")
        return finish(output, await Follower(session, followed, output).follow())


def choose_run(listed: list[dict[str, Any]], host: str, stage: str | None = None) -> str:
    """The only run with something live in it, else the only run. Raises UserError, which lists what there is."""
    live, launched, rows = [], [], []
    for one in listed:
        run = name(one, "name")
        stages = reading.mapping(one, "stages") or {}
        states = {key: reading.text(stages[key], "state") for key in STAGES if key in stages}
        if not run:
            continue
        if any(state in telemetry.LIVE_STATES and stage in (None, key) for key, state in states.items()):
            live.append(run)
        if states and stage in (None, *states):
            launched.append(run)
        rows.append(f"{run} ({', '.join(f'{key} {state}' for key, state in states.items()) or 'nothing launched'})")
    if len(live) == 1:
        return live[0]
    if not live and len(rows) == 1 and launched:
        return launched[0]  # it ended while nobody watched: how it ended is what is asked for
    what = "several runs are live" if live else "nothing is live"
    if not rows:
        raise UserError(f"{what} on {host}; there are no runs; to make one: eaglewatch init {host} RUN --preset NAME")
    if len(rows) == 1 and stage is None:
        raise UserError(
            f"nothing of {rows[0].partition(' ')[0]}, the only run on {host}, was launched yet; {_begin(host, rows[0].partition(' ')[0])}"
        )
    raise UserError(f"{what} on {host}; name one with --run; there are {'; '.join(rows)}")


def choose_attempt(session: Session, host: str, run: str, stage: str | None) -> Attempt:
    """The attempt to follow: the live one, else the one that started last. Raises UserError."""
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
    if len(live) > 1:
        raise UserError(f"several stages of run {run} on {host} are live; name one with --stage: {', '.join(one.stage for one in live)}")
    if live:
        return live[0]
    if not stages:
        raise UserError(f"nothing of run {run} on {host} was launched yet; {_begin(host, run)}")
    return max(stages.values(), key=lambda one: one.started_boot_s if one.started_boot_s is not None else float("-inf"))


def _begin(host: str, run: str) -> str:
    return f"to begin: eaglewatch run {next(iter(STAGES))} --host {host} --run {run}"
