"""``eaglewatch rehearse``: the pipeline, start to finish, on a rehearsal host of one's own; or only its extraction, on ready-made data."""

import argparse
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from console.config import EVERY_STAGE, REHEARSAL
from console.core import chain, counted, fmt
from console.core.attempt import Attempt
from console.headless import hosts, launching, outcome, rehearse_extract, rehearse_settings, run_settings
from console.headless.chain import Plan, Runner
from console.headless.follow import finish
from console.headless.output import CannotTellError, Output, Result
from console.headless.rehearse_settings import LIMIT, RUN
from console.headless.run_settings import Wanted
from console.headless.session import FRAME_S, Session
from pipeline.contract.rehearsal import NO_FAULT, set_fault
from pipeline.contract.stages import STAGES
from pipeline.errors import EXIT_DONE, EXIT_FAILED, UserError

if TYPE_CHECKING:
    from console.rehearsal.start import RehearsalHost


def command(arguments: argparse.Namespace, output: Output) -> "int | Coroutine[Any, Any, int]":
    if arguments.stop:
        return _stop(output)
    running = hosts.start_rehearsal(output, arguments.fresh, arguments.fault)
    if arguments.fault is None and (still := set_fault(running.home)):
        output.say(f"eaglewatch: fault {still} is still set; to clear it: eaglewatch rehearse --headless --fault {NO_FAULT}")
    if arguments.only is not None:
        return rehearse_extract.rehearse(arguments, running, output)
    return _rehearse(arguments, running, wanted_settings(running, arguments.limit), output)


def _stop(output: Output) -> int:
    """End the rehearsal host and what runs on it; its runs stay. Raises UserError when a stage that was started otherwise still runs."""
    from console.rehearsal import home, start

    there = home.running_server(home.default_home()) is not None
    start.stop_all(home.default_home(), lambda line: output.say(f"eaglewatch: {line}"))
    output.data(f"the rehearsal host {'has ended' if there else 'did not run'}; its runs stay, and eaglewatch rehearse goes on with them")
    output.json(Result(EXIT_DONE, True, {}).to_json())
    return EXIT_DONE


def wanted_settings(running: "RehearsalHost", limit: int | None) -> Wanted:
    """The settings of the rehearsal's run; ``limit``: only so many prompts. Raises UserError."""
    return run_settings.from_file(running.settings_file, [f"{LIMIT}={limit}"] if limit else [])


async def _rehearse(arguments: argparse.Namespace, running: "RehearsalHost", wanted: Wanted, output: Output) -> int:
    host = hosts.reach(running)
    async with Session(host, output, RUN) as session:
        await session.connect()
        await session.frame_of(RUN)
        resolved = await rehearse_settings.put(session, wanted, arguments.limit)
        await _told_of_settings(session)
        if arguments.fault not in (None, NO_FAULT) and _is_done(session):
            raise UserError("the rehearsal is done already, so no fault can strike it; add --fresh to start anew")
        again = "eaglewatch rehearse --headless" + (f" --limit {arguments.limit}" if arguments.limit else "")
        plan = Plan(REHEARSAL, RUN, lambda _stage: host.interpreters[EVERY_STAGE], again, resolved)
        result = await Runner(session, plan, output).run()
        return finish(output, _closed(session, result, output) if result.code == EXIT_DONE else result)


async def _told_of_settings(session: Session) -> None:
    """Until frames are about the settings that rule now: what is outdated depends on them. Raises RemoteError, CannotTellError."""
    copy = await launching.host_copy(session, RUN)

    def told() -> bool:
        view = session.store.view
        return view is not None and view.run is not None and copy is not None and view.run.settings_sha256 == copy.sha256

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
    output.data(f"  {chain.service_words(stages)}")
    if not doubted:
        output.say(
            f"eaglewatch: to look at it: eaglewatch {REHEARSAL}; to end its host before it ends by itself: eaglewatch rehearse --stop"
        )
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
        f"{counted.both(known.samples, receipt.holdout if receipt else None):>17} samples",
        f"{fmt.count(known.tokens):>9} tokens",
    ]
    parts += [verified, f"{fmt.count(known.bad)} bad"] + ([f"coverage {coverage:.1%}"] if coverage is not None else [])
    return "  ".join(parts)
