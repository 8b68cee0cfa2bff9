"""``eaglewatch history``: every attempt that has ended on a host, a line each, the newest first."""

import argparse
import time
from collections.abc import Coroutine
from typing import Any

import msgspec

from console.config import Host
from console.core import fmt, past
from console.core.past import Past
from console.core.since import Times
from console.headless import hosts
from console.headless.output import CannotTellError, Output, Result
from console.headless.session import Session
from pipeline.errors import EXIT_DONE, UserError

LIMIT = 200


def command(arguments: argparse.Namespace, output: Output) -> Coroutine[Any, Any, int]:
    return _history(arguments, hosts.find(arguments.host, output), output)


async def _history(arguments: argparse.Namespace, host: Host, output: Output) -> int:
    async with Session(host, output, arguments.run) as session:
        await session.connect()
        if arguments.run is not None:
            listed = await session.runs()
            if arguments.run not in [one.name for one in listed]:
                there = f"its runs are {', '.join(one.name for one in listed)}" if listed else "it has no runs yet"
                raise UserError(f"no run {arguments.run} on {arguments.host}; {there}")
        await session.watch(arguments.run)
        found = past.parse(await session.link.request("history", run=arguments.run, stage=arguments.stage, limit=LIMIT))
        if found is None:
            raise CannotTellError(f"{arguments.host}: its host program tells no history")
        view, now_s = session.store.view, time.time()
        ahead_s = 0.0 if view is None or view.wall_s is None else view.wall_s - now_s
        times = Times(now_s, float(time.localtime(now_s).tm_gmtoff), ahead_s)
        for one in found:
            for text in lines(one, times):
                output.data(text)
            output.json({"type": "attempt", **msgspec.to_builtins(one)})
        if not found:
            which = " ".join(f"{name} {value}" for name, value in (("of run", arguments.run), ("of stage", arguments.stage)) if value)
            output.data(f"no attempt {which} has ended on {arguments.host} yet".replace("  ", " "))
        if len(found) == LIMIT:
            output.say(f"eaglewatch: these are the newest {LIMIT}; DATA/history.jsonl on the host has all")
        output.json({**Result(EXIT_DONE, session.store.simulated, {}).to_json(), "attempts": len(found)})
        return EXIT_DONE


def lines(one: Past, times: Times) -> list[str]:
    """Two lines: what it was and how it ended; then its numbers, as far as they are known."""
    took = f", took {fmt.duration(one.took_s)}" if one.took_s is not None else ""
    head = f"{times.of(one.began_wall_s)}  {one.run}  {one.stage}  {one.outcome}{took}" + (f": {one.why}" if one.why else "")
    told = "; ".join(f"{name} {value}" for name, value in past.facts(one) if name not in ("took", "model", "by"))
    return [head, *([f"    {told}"] if told else [])]
