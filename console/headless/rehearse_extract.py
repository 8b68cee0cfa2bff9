"""``eaglewatch rehearse --only extract``: the extraction alone, on prepared data that comes with the rehearsal host."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from console.config import EVERY_STAGE, REHEARSAL, Host
from console.core.attempt import Attempt
from console.headless import hosts, launching, rehearse_settings, run_settings, starting
from console.headless.follow import Followed, Follower, finish
from console.headless.launching import Order
from console.headless.output import Output
from console.headless.run_settings import Wanted
from console.headless.session import FRAME_S, Session
from pipeline.contract.rehearsal import NO_FAULT, extract_only_settings_file
from pipeline.errors import UserError

if TYPE_CHECKING:
    from console.rehearsal.start import RehearsalHost

RUN, STAGE = "extract-only", "extract"


async def rehearse(arguments: argparse.Namespace, running: "RehearsalHost", output: Output) -> int:
    """Its exit code. Raises UserError, FailedError, RemoteError."""
    host = hosts.reach(running)
    wanted = run_settings.from_file(extract_only_settings_file(running.home), [])
    async with Session(host, output, RUN) as session:
        await session.connect()
        await session.frame_of(RUN)
        one = session.store.attempt(STAGE)
        if one is not None and one.live:
            output.say(f"eaglewatch: the rehearsal's {STAGE} runs already (attempt {one.id} by {one.by}); following it")
        elif one is not None and covers(one, arguments.limit):
            if arguments.fault not in (None, NO_FAULT):
                raise UserError(f"the rehearsal's {STAGE} is done already, so no fault can strike it; add --fresh to start anew")
            output.say(f"eaglewatch: the rehearsal's {STAGE} is done already; --fresh starts anew")
        else:
            one = None
        followed = Followed(REHEARSAL, RUN, STAGE, one.id) if one else await _launch(session, arguments, host, wanted, output)
        return finish(output, await Follower(session, followed, output).follow())


async def _launch(session: Session, arguments: argparse.Namespace, host: Host, wanted: Wanted, output: Output) -> Followed:
    await starting.check_other_runs(session, REHEARSAL, RUN, STAGE)
    await rehearse_settings.put_once(session, RUN, wanted)
    order = Order(REHEARSAL, RUN, STAGE, host.interpreters[EVERY_STAGE], ["--limit", str(arguments.limit)] if arguments.limit else [])
    try:
        return await launching.launch(session, order, output)
    except launching.HeldError as error:
        one = await _holder(session)
        if one is None:
            raise
        output.say(f"eaglewatch: {error}; following it")
        return Followed(REHEARSAL, RUN, STAGE, one.id)
    except asyncio.CancelledError:
        raise launching.interrupted(order) from None


async def _holder(session: Session) -> Attempt | None:
    """Whoever was faster by a moment: frames show that attempt now. None when it has ended meanwhile."""

    def live() -> bool:
        one = session.store.attempt(STAGE)
        return one is not None and one.live

    return session.store.attempt(STAGE) if await session.until(live, FRAME_S) else None


def covers(one: Attempt, limit: int | None) -> bool:
    """Whether an attempt is done and made all the samples that are asked for now."""
    receipt = one.receipt
    if not one.done or receipt is None or receipt.samples is None or receipt.planned_samples is None:
        return False
    return receipt.samples >= min(limit or receipt.planned_samples, receipt.planned_samples)
