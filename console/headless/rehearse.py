"""``eaglewatch rehearse``: the pipeline, start to finish, on a rehearsal host of one's own; or only its extraction, on ready-made data."""

import argparse
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from console.config import EVERY_STAGE, REHEARSAL
from console.core import chain, fmt
from console.core.attempt import Attempt
from console.headless import hosts, launching, outcome, rehearse_extract, run_settings
from console.headless.chain import Plan, Runner
from console.headless.follow import finish
from console.headless.output import CannotTellError, Output, Result
from console.headless.run_settings import Wanted
from console.headless.session import FRAME_S, Session
from pipeline.contract.stages import STAGES
from pipeline.errors import EXIT_DONE, EXIT_FAILED, UserError

if TYPE_CHECKING:
    from console.rehearsal.start import RehearsalHost

RUN = "rehearsal"
_LIMIT = "generate.max_prompts"
_LAST = chain.DATA_STAGES[-1]
_FRESH = "--fresh removes the rehearsal with all its runs"


def command(arguments: argparse.Namespace, output: Output) -> Coroutine[Any, Any, int]:
    running = hosts.start_rehearsal(output, arguments.fresh, arguments.fault)
    if arguments.only is not None:
        return rehearse_extract.rehearse(arguments, running, output)
    return _rehearse(arguments, running, wanted_settings(running, arguments.limit), output)


def wanted_settings(running: "RehearsalHost", limit: int | None) -> Wanted:
    """The settings of the rehearsal's run; ``limit``: only so many prompts. Raises UserError."""
    return run_settings.from_file(running.settings_file, [f"{_LIMIT}={limit}"] if limit else [])


async def _rehearse(arguments: argparse.Namespace, running: "RehearsalHost", wanted: Wanted, output: Output) -> int:
    host = hosts.reach(running)
    async with Session(host, output, RUN) as session:
        await session.connect()
        await session.frame_of(RUN)
        await put_settings(session, wanted)
        await _told_of_settings(session)
        if arguments.fault is not None and _is_done(session):
            raise UserError("the rehearsal is done already, so no fault can strike it; add --fresh to start anew")
        again = "eaglewatch rehearse --headless" + (f" --limit {arguments.limit}" if arguments.limit else "")
        plan = Plan(REHEARSAL, RUN, lambda _stage: host.interpreters[EVERY_STAGE], again)
        result = await Runner(session, plan, output).run()
        return finish(output, _closed(session, result, output) if result.code == EXIT_DONE else result)


async def put_settings(session: Session, wanted: Wanted) -> None:
    """The run's settings as they are wanted. A copy that differs in nothing but the limit is replaced, while nothing is extracted:
    hidden states are of one set of samples. Raises UserError, RemoteError."""
    copy = await launching.host_copy(session, RUN)
    rows = run_settings.differences(copy[0], wanted.resolved) if copy else []
    replace = bool(rows) and all(row.startswith(f"{_LIMIT}:") for row in rows) and session.store.attempt(_LAST) is None
    await launching.put_settings(session, REHEARSAL, RUN, wanted, replace, hint=_FRESH)


async def _told_of_settings(session: Session) -> None:
    """Until frames are about the settings that rule now: what is outdated depends on them. Raises RemoteError, CannotTellError."""
    copy = await launching.host_copy(session, RUN)

    def told() -> bool:
        view = session.store.view
        return view is not None and view.run is not None and copy is not None and view.run.settings_sha256 == copy[1]

    if not await session.until(told, FRAME_S):
        raise CannotTellError(f"no frame about the new settings of run {RUN} within {FRAME_S:.0f} s; link {session.now().words}")


def _is_done(session: Session) -> bool:
    return chain.next_step(session.store.view).kind == "finished"


def _closed(session: Session, result: Result, output: Output) -> Result:
    """The closing lines, and the result: done only if every stage's own receipt says verified."""
    view = session.store.view
    stages = (view.stages if view else None) or {}
    worked = [stages[name] for name in chain.DATA_STAGES if name in stages and not STAGES[name].service]
    doubted = [one.stage for one in worked if one.receipt is None or not one.receipt.verified or one.receipt.bad != 0]
    output.data(f"{'SIMULATED  ' if session.store.simulated else ''}run {RUN} on {REHEARSAL}: {'NOT ' if doubted else ''}all verified")
    for one in worked:
        output.data(f"  {_line(one)}")
    if not doubted:
        return result
    text = f"no receipt that says verified: {', '.join(doubted)}"
    output.say(f"eaglewatch: {text}")
    return Result(EXIT_FAILED, result.simulated, result.stages, text)


def _line(one: Attempt) -> str:
    known, receipt = outcome.numbers(one), one.receipt
    verified = "verified" if receipt and receipt.verified else "NOT VERIFIED"
    coverage = receipt.coverage if receipt else None
    parts = [
        f"{one.stage:<9} {fmt.duration(known.seconds):>8}",
        f"{fmt.count(known.samples):>7} samples",
        f"{fmt.count(known.tokens):>9} tokens",
    ]
    parts += [verified, f"{fmt.count(known.bad)} bad"] + ([f"coverage {coverage:.1%}"] if coverage is not None else [])
    return "  ".join(parts)
