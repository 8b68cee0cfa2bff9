"""Whether a stage can start now: the console's own answer (``core.gates``), told before anything is launched."""

from typing import Any

from console.core import gates, runs
from console.headless.output import CannotTellError
from console.headless.session import FRAME_S, Session
from pipeline.contract.stages import STAGES
from pipeline.errors import UserError

RELEASE_S = 20.0
"""So long after its end a server of ours may still be in the host's list, or its memory in the readings."""


async def check(session: Session, host: str, run: str, stage: str, resolved: dict[str, Any], gpus_apart: bool = False) -> None:
    """Raises UserError with the reason why the stage cannot start, as the console gives it; CannotTellError where the host does not tell
    which servers it runs; RemoteError. The session has a frame about the run. ``resolved``: the run's settings by section.
    ``gpus_apart``: who holds the GPUs is no reason here: the stage needs none this time, or the host's gate lets it through and logs it.
    """
    if gpus_apart:
        return _raise(host, run, stage, gates.start(session.store.view, stage, resolved, gpus_apart=True))
    if STAGES[stage].gpus == gates.ALL_GPUS and not await session.until(lambda: _servers_told(session), FRAME_S):
        raise CannotTellError(f"{host}: which servers run there was not told within {FRAME_S:.0f} s, so one may hold the GPUs")
    reason = gates.start(session.store.view, stage, resolved)
    if reason is not None and _is_leaving(session):
        await session.until(lambda: gates.start(session.store.view, stage, resolved) is None, RELEASE_S)
        reason = gates.start(session.store.view, stage, resolved)
    if reason is None:
        return await check_other_runs(session, host, run, stage)
    busy = gates.in_the_way(session.store.view, stage)
    _raise(host, run, stage, reason, f": eaglewatch stop {host} --run {run} --stage {busy}" if busy else "")


def _raise(host: str, run: str, stage: str, reason: str | None, hint: str = "") -> None:
    if reason is not None:
        raise UserError(f"{stage} of run {run} on {host} was not started: {gates.for_host(reason, host)}{hint}")


async def check_other_runs(session: Session, host: str, run: str, stage: str) -> None:
    """Raises UserError when a stage of another run has all the GPUs, which this one needs too; RemoteError."""
    if STAGES[stage].gpus == gates.ALL_GPUS and (holder := runs.gpu_holder(await session.runs(), run)):
        raise UserError(f"{stage} of run {run} on {host} was not started: {gates.for_host(gates.held_by_run(*holder), host)}")


def check_sources(session: Session, host: str, run: str, stage: str, resolved: dict[str, Any]) -> None:
    """Raises UserError when the stage reads what another one of this run has never made; a person can go past that with a reason."""
    if source := gates.never_made(session.store.view, stage, resolved):
        hint = f"run {source} first, or --override REASON"
        raise UserError(f"{stage} of run {run} on {host} was not started: {source} has not run in this run; {hint}")


def _servers_told(session: Session) -> bool:
    view = session.store.view
    return view is not None and view.servers is not None


def _is_leaving(session: Session) -> bool:
    """Whether the run's own server has ended, and is in the list of servers all the same."""
    own = gates.own_server(session.store.view)
    return own is not None and own.ended and any(one.attempt == own.id for one in gates.other_servers(session.store.view))
