"""``eaglewatch alert-test``: have the host send a test alert where a run's settings say, and tell whether it arrived."""

import argparse
from collections.abc import Coroutine
from typing import Any

from console.config import Host
from console.core import alerting
from console.core.alerting import Sent
from console.headless import audit, hosts, launching, run_settings
from console.headless.output import Output, Result
from console.headless.session import Session
from pipeline.errors import EXIT_CANNOT_TELL, EXIT_DONE, EXIT_FAILED, UserError

ANSWER_S = 100.0
"""A command gets 30 s, a webhook three tries; the host gives all of it up after 90 s."""


def command(arguments: argparse.Namespace, output: Output) -> Coroutine[Any, Any, int]:
    return _alert_test(arguments, hosts.find(arguments.host, output), output)


async def _alert_test(arguments: argparse.Namespace, host: Host, output: Output) -> int:
    async with Session(host, output, arguments.run) as session:
        await session.connect()
        copy = await launching.host_copy(session, arguments.run)
        if copy is None:
            raise UserError(f"run {arguments.run} has no settings on {arguments.host}: eaglewatch init writes them")
        ways = alerting.ways(run_settings.resolved(copy.toml))
        if not ways:
            how = f"eaglewatch init {arguments.host} {arguments.run} --preset generic --print explains both keys"
            raise UserError(f"{alerting.NONE}, so nobody is told; set one: {how}")
        for way in ways:
            output.say(f"eaglewatch: {arguments.host} sends a test alert of run {arguments.run} by {way.how}: {way.what}")
        sent = await ask(session, arguments.host, arguments.run)
        for one in sent:
            output.data(alerting.line(one))
            output.json({"type": "alert", "how": one.how, "ok": one.ok, "detail": one.detail})
        code = _exit_code(sent)
        output.json(Result(code, session.store.simulated, {}, "" if code == EXIT_DONE else alerting.words(sent)).to_json())
        if not sent:
            output.say(f"eaglewatch: {alerting.words(sent)}")
        return code


def _exit_code(sent: tuple[Sent, ...]) -> int:
    if alerting.delivered(sent):
        return EXIT_DONE
    return EXIT_FAILED if not sent or any(one.ok is False for one in sent) else EXIT_CANNOT_TELL


async def ask(session: Session, host: str, run: str) -> tuple[Sent, ...]:
    """Have it sent. On record here before and after. Raises StageError."""
    with audit.action("alert-test", host=host, run=run) as told:
        sent = alerting.parse(await session.link.request("alert-test", ANSWER_S, run=run, by=audit.who()))
        told["reply"] = alerting.words(sent)
    return sent
