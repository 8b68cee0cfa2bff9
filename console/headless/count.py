"""``eaglewatch count``: every file of a stage's output asked for its size, and held against the ledger. Changes nothing."""

import argparse
import asyncio
from collections.abc import Coroutine
from typing import Any

from console.config import Host
from console.core import reading
from console.core.full_count import Counted, parse
from console.headless import audit, hosts
from console.headless.output import CannotTellError, Output
from console.headless.session import Session
from pipeline.contract.clock import boot_s
from pipeline.errors import EXIT_CANNOT_TELL, EXIT_DONE, EXIT_FAILED

COUNT_S = 6 * 3600.0
"""A million files on a cold disk take minutes; a slow one is waited for."""
_TOLD_EVERY_S = 10.0


def command(arguments: argparse.Namespace, output: Output) -> Coroutine[Any, Any, int]:
    return _count(arguments, hosts.find(arguments.host, output), output)


async def _count(arguments: argparse.Namespace, host: Host, output: Output) -> int:
    async with Session(host, output, arguments.run) as session:
        await session.connect()
        await session.watch(arguments.run)
        asking = asyncio.ensure_future(ask(session, arguments.run, arguments.stage))
        told_s = boot_s()
        try:
            while not asking.done():
                await asyncio.wait([asking], timeout=1.0)
                count = session.store.view.counting if session.store.view else None
                if not asking.done() and count and boot_s() - told_s >= _TOLD_EVERY_S:
                    output.say(f"eaglewatch: counting: {count}")
                    told_s = boot_s()
        finally:
            asking.cancel()  # the host ends the count with the connection
        found = asking.result()
        for line in found.lines():
            output.data(line)
        code = EXIT_CANNOT_TELL if found.agrees is None else EXIT_DONE if found.agrees else EXIT_FAILED
        error = {} if code == EXIT_DONE else {"error": {"message": found.lines()[0], "exit_code": code}}
        output.json({"ok": code == EXIT_DONE, "simulated": session.store.simulated, "stages": {}, "count": found.raw, **error})
        return code


async def ask(session: Session, run: str, stage: str) -> Counted:
    """Have the host count. Raises RemoteError; CannotTellError for an answer that cannot be understood."""
    reply = await session.link.request("count", COUNT_S, run=run, stage=stage, attempt=None, by=audit.who())
    found = parse(reply)
    if found is None:
        raise CannotTellError(f"the host's answer is none of a count: {reading.text(reply, 'dir') or 'no directory named'}")
    return found
