"""``eaglewatch preflight``: everything that a stage needs, looked at on the host, a line each with its evidence."""

import argparse
import contextlib
from collections.abc import Coroutine
from typing import Any

from console.config import Host
from console.core import past, preflight, reading
from console.core.preflight import Report
from console.headless import asking, freeing, hosts, launching, run_settings
from console.headless.output import Output, Result
from console.headless.run import no_interpreter
from console.headless.session import Session
from pipeline.contract import free
from pipeline.contract import preflight as words
from pipeline.errors import StageError, UserError

ANSWER_S = 320.0
"""The host gives itself 300 s."""
EARLIER = 50
"""So many attempts of the stage are looked at."""


def command(arguments: argparse.Namespace, output: Output) -> Coroutine[Any, Any, int]:
    if arguments.accept_baseline and arguments.no_gpu:
        raise UserError("--accept-baseline: with --no-gpu the GPUs are not looked at")
    return _preflight(arguments, hosts.find(arguments.host, output), output)


async def _preflight(arguments: argparse.Namespace, host: Host, output: Output) -> int:
    async with Session(host, output, arguments.run) as session:
        await session.connect()
        copy = await launching.host_copy(session, arguments.run)
        if copy is None:
            raise UserError(f"run {arguments.run} has no settings on {arguments.host}: eaglewatch init writes them")
        interpreter = arguments.interpreter or hosts.interpreter_of(host, arguments.stage)
        if not interpreter:
            await no_interpreter(session, arguments, host)
        output.say(f"eaglewatch: looking at what {arguments.stage} needs on {arguments.host}; nothing is started")
        part = words.NO_GPU if arguments.no_gpu else words.ALL
        report = await ask(session, host, arguments, interpreter, part)
        if await _accept(session, arguments, report, output):
            report = report.with_gpus_of(await ask(session, host, arguments, interpreter, words.GPU_ONLY))
        return _tell(session, arguments, report, await _earlier(session, arguments.stage, copy.toml), output)


async def ask(session: Session, host: Host, arguments: argparse.Namespace, interpreter: str | None, part: str) -> Report:
    """Have the host look. ``part``: one of ``contract.preflight.PARTS``. Raises RemoteError."""
    reply = await session.link.request(
        "preflight",
        ANSWER_S,
        run=arguments.run,
        stage=arguments.stage,
        interpreter=interpreter,
        part=part,
        expected_gpus=host.expected_gpus,
        gpu_uuids=list(host.gpu_uuids),
    )
    return preflight.parse(reply, arguments.host, arguments.stage, arguments.run)


async def _accept(session: Session, arguments: argparse.Namespace, report: Report, output: Output) -> bool:
    """Whether the idle baseline was accepted now: by option, or by whoever sits there, who is asked only while there is one to accept."""
    baseline = report.baseline
    if baseline is None or not baseline.open:
        if arguments.accept_baseline:
            output.say("eaglewatch: --accept-baseline: there is no recorded baseline that is not accepted already")
        return False
    shown = ", ".join(f"{uuid} {free.mib(size)} MiB" for uuid, size in sorted(baseline.recorded.items()) if size >= free.MIB)
    if not arguments.accept_baseline:
        if output.as_json or not asking.can_ask():
            return False
        output.say(f"Idle GPUs hold what no process has: {shown}. Accepted, they count as free for this run, and are never called 0.")
        if not await asking.confirmed(f"Accept it for run {arguments.run}?"):
            return False
    await freeing.accept(session, arguments.host, arguments.run, baseline.recorded)
    output.say(f"eaglewatch: baseline accepted for run {arguments.run}: {shown}")
    return True


async def _earlier(session: Session, stage: str, toml: str) -> str:
    """What earlier attempts of this stage with this model tell of the next one, on this host; empty where nothing is on record."""
    with contextlib.suppress(StageError):  # beside the point: an older host program keeps none
        model = reading.text(reading.mapping(run_settings.resolved(toml), "model"), "path", 1000)
        found = past.parse(await session.link.request("history", run=None, stage=stage, limit=EARLIER))
        return past.before([one for one in found or () if one.model == model])
    return ""


def _tell(session: Session, arguments: argparse.Namespace, report: Report, earlier: str, output: Output) -> int:
    simulated = session.store.simulated
    output.data(f"{'SIMULATED  ' if simulated else ''}preflight of {arguments.stage}, run {arguments.run} on {arguments.host}")
    for line in table(report):
        output.data(line)
    for one in report.checks:
        output.json(one.to_json())
    if earlier:
        output.data(f"earlier attempts with this model on {arguments.host}: {earlier}")
    code, said = words.exit_code(report.ok), preflight.summary(report)
    output.data(said)
    idle = {"baseline": {"recorded": report.baseline.recorded, "accepted": report.baseline.accepted}} if report.baseline else {}
    told = {"verdict": report.ok, "earlier": earlier or None, **idle}
    output.json({**Result(code, simulated, {}, "" if report.ok else said).to_json(), **told})
    return code


def table(report: Report) -> list[str]:
    """A row a check: the word, its name, its evidence; what to do below it."""
    wide = max((len(one.name) for one in report.checks), default=0)
    rows = []
    for one in report.checks:
        rows.append(f" {one.word:<3}  {one.name:<{wide}}  {one.evidence}".rstrip())
        if one.what_to_do and one.ok is not True:
            rows.append(f" {'':<3}  {'':<{wide}}  -> {one.what_to_do}")
    return rows
