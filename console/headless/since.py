"""``eaglewatch since``: what happened to a run while nobody looked, as the host kept it."""

import argparse
import time
from collections.abc import Coroutine
from typing import Any

from console.config import Host
from console.core import since
from console.headless import hosts
from console.headless.output import CannotTellError, Output, Result
from console.headless.session import Session
from pipeline.errors import EXIT_DONE, UserError

HOURS = 24


def command(arguments: argparse.Namespace, output: Output) -> Coroutine[Any, Any, int]:
    return _since(arguments, hosts.find(arguments.host, output), output)


async def _since(arguments: argparse.Namespace, host: Host, output: Output) -> int:
    async with Session(host, output, arguments.run) as session:
        await session.connect()
        listed = await session.runs()
        if arguments.run not in [one.name for one in listed]:
            there = f"its runs are {', '.join(one.name for one in listed)}" if listed else "it has no runs yet"
            raise UserError(f"no run {arguments.run} on {arguments.host}; {there}")
        await session.watch(arguments.run)
        view = session.store.view
        host_now_s = view.wall_s if view is not None and view.wall_s is not None else time.time()
        reply = await session.link.request("since", run=arguments.run, wall_s=host_now_s - arguments.hours * 3600.0)
        record, now_s = since.parse(reply), time.time()
        if record is None:
            raise CannotTellError(f"{arguments.host}: its host program tells no record of what happened")
        times = since.times(record, now_s, float(time.localtime(now_s).tm_gmtoff))
        for text in since.texts(record.lines, times):
            output.data(text)
        for one in record.lines:
            output.json({"type": "since", **one._asdict()})
        hours = "hour" if arguments.hours == 1 else f"{arguments.hours} hours"
        if not record.lines:
            output.data(f"in the last {hours} nothing happened in run {arguments.run} on {arguments.host}")
        if record.older:
            output.say("eaglewatch: these are the newest; the host keeps older ones of that time")
        result = Result(EXIT_DONE, session.store.simulated, {}).to_json()
        output.json({**result, "lines": len(record.lines), "older": record.older, "now_wall_s": record.now_wall_s})
        return EXIT_DONE
