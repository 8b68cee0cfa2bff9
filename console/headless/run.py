"""``eaglewatch run``: launch a stage on a host and follow it."""

import argparse
import asyncio
from collections.abc import Coroutine
from typing import Any, NoReturn

from console.config import Host
from console.core import fmt, reading, sanitize
from console.headless import hosts, launching, outcome, run_settings, starting
from console.headless.follow import Followed, Follower, attach_command, finish
from console.headless.launching import HostCopy, Order
from console.headless.output import CannotTellError, Output, Result
from console.headless.run_settings import Wanted
from console.headless.session import FRAME_S, Session
from pipeline.contract import telemetry, transition
from pipeline.contract.stages import STAGES
from pipeline.errors import EXIT_DONE, UserError

SURVEY_S = 45.0
"""The host gives itself 30 s."""


def command(arguments: argparse.Namespace, output: Output) -> Coroutine[Any, Any, int]:
    _check_options(arguments)
    wanted = run_settings.from_file(arguments.settings, arguments.overrides) if arguments.settings else None
    host = hosts.find(arguments.host, output)
    return _run(arguments, host, wanted, output)


async def _run(arguments: argparse.Namespace, host: Host, wanted: Wanted | None, output: Output) -> int:
    name, run, stage = arguments.host, arguments.run, arguments.stage
    async with Session(host, output, run) as session:
        await session.connect()
        await session.frame_of(run)
        copy = await launching.host_copy(session, run)
        wanted = wanted or _changed_copy(arguments, copy)
        interpreter = arguments.interpreter or hosts.interpreter_of(host, stage) or ""
        order = Order(name, run, stage, interpreter, stage_arguments(arguments), arguments.override_gpus)
        followed = await launching.live_attempt(session, order, copy, wanted, output)
        if followed is None:
            if not interpreter:
                await no_interpreter(session, arguments, host)
            resolved = _resolved(copy, wanted)
            apart = bool(order.override_gpus) or not transition.needs_gpus(stage, order.args)
            await starting.check(session, name, run, stage, resolved, gpus_apart=apart)
            if not (arguments.override or arguments.verify):
                starting.check_sources(session, name, run, stage, resolved)
            if wanted is not None:
                await launching.put_settings(session, name, run, wanted, arguments.replace_settings)
            followed = await _launch(session, order, wanted, output)
        if not arguments.detach:
            return finish(output, await Follower(session, followed, output, until_up=STAGES[stage].service).follow())
        return finish(output, await _detached(session, followed, output))


async def _launch(session: Session, order: Order, wanted: Wanted | None, output: Output) -> Followed:
    """Launch it, or follow the same launch by somebody who was faster by a moment. Raises as ``launching.launch`` does."""
    try:
        return await launching.launch(session, order, output)
    except launching.HeldError:
        if not await _is_live(session, order.stage):
            raise
        copy = await launching.host_copy(session, order.run)
        followed = await launching.live_attempt(session, order, copy, wanted, output)
        if followed is None:
            raise
        return followed
    except asyncio.CancelledError:
        raise launching.interrupted(order) from None


async def _is_live(session: Session, stage: str) -> bool:
    """Whether a frame shows the stage at work, within the time that one takes."""

    def live() -> bool:
        one = session.store.attempt(stage)
        return one is not None and one.live

    return await session.until(live, FRAME_S)


def _resolved(copy: HostCopy | None, wanted: Wanted | None) -> dict[str, Any]:
    """The settings that the stage will get, by section; empty where the host's copy cannot be read, which the stage itself tells."""
    if wanted is not None:
        return wanted.resolved
    try:
        return run_settings.resolved(copy.toml) if copy else {}
    except UserError:
        return {}


def stage_arguments(arguments: argparse.Namespace) -> list[str]:
    """What the stage gets on its own command line."""
    words = ["--override", arguments.override] if arguments.override else []
    for option, value in _given(arguments).items():
        words += [f"--{option}"] if value is True else [f"--{option}", str(value)]
    return words


def _check_options(arguments: argparse.Namespace) -> None:
    """Raise UserError for an option that the stage does not have; it names those that have it."""
    if arguments.override_gpus and not transition.needs_gpus(arguments.stage):
        raise UserError(f"--override-gpus: {arguments.stage} needs no GPUs for itself, so nothing keeps it from starting there")
    for option in _given(arguments):
        if option not in STAGES[arguments.stage].options:
            having = ", ".join(stage.name for stage in STAGES.values() if option in stage.options)
            raise UserError(f"--{option} is no option of {arguments.stage}; it is one of {having}")


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that only some stages have, of those that were given."""
    given = {"limit": arguments.limit, "verify": arguments.verify, "greedy-holdout": arguments.greedy_holdout}
    return {option: value for option, value in given.items() if value}


def _changed_copy(arguments: argparse.Namespace, copy: HostCopy | None) -> Wanted | None:
    """The host's copy with ``--set`` applied; None when the copy stays as it is. Raises UserError without one."""
    name, run = arguments.host, arguments.run
    there = copy.toml if copy else None
    if there is None and not arguments.overrides:
        raise UserError(
            f"run {run} has no settings on {name}; to make them: eaglewatch init {name} {run} --preset NAME; or give a file with --settings"
        )
    if not arguments.overrides:
        return None
    origin = f"the settings of run {run} on {name}" if there is not None else "--set"
    return run_settings.from_text(there or "", origin, arguments.overrides)


async def no_interpreter(session: Session, arguments: argparse.Namespace, host: Host) -> NoReturn:
    """Never chooses: raises UserError with the interpreters that the host has, and the lines for hosts.toml. RemoteError."""
    stage = arguments.stage
    reply = await session.link.request("interpreters", SURVEY_S)
    found = [one for one in reading.sequence(reply, "found") or [] if isinstance(one, dict)]
    able = [one for one in found if stage in (reading.sequence(one, "stages") or [])]
    lines = [f"no interpreter is named for {stage} on {arguments.host}, and none is chosen silently. Found there:"]
    for one in able + [other for other in found if other not in able][:8]:
        verdict = "can run it" if one in able else reading.text(one, "why_not", 300) or "cannot run it"
        lines.append(f"  {_described(one)}  {verdict}")
    best = reading.text(able[0], "path") if able else "/path/to/python"
    lines.append("To use one, add --interpreter PATH, or to hosts.toml:")
    lines += [f"  {line}" for line in hosts.interpreter_lines(host, stage, best)]
    raise UserError("\n".join(lines))


def _described(interpreter: dict[str, Any]) -> str:
    versions = reading.mapping(interpreter, "versions") or {}
    shown = ", ".join(f"{sanitize.line(key, 40)} {sanitize.line(value, 40)}" for key, value in versions.items())
    python = reading.text(interpreter, "python") or fmt.UNKNOWN
    return f"{reading.text(interpreter, 'path') or fmt.UNKNOWN}  Python {python}{f' ({shown})' if shown else ''}"


async def _detached(session: Session, followed: Followed, output: Output) -> Result:
    """The result of a launch that is not followed: ok when it runs, or has ended well already."""

    def told() -> bool:
        one = session.store.attempt(followed.stage)
        return one is not None and one.id == followed.attempt

    attach = attach_command(followed.host, followed.run, followed.stage)
    await session.until(told, 15.0)
    one, view = session.store.attempt(followed.stage), session.store.view
    if one is None or not told():
        raise CannotTellError(f"{followed.stage} was launched, and no frame about it came; {attach}")
    if one.ended:
        return Follower(session, followed, output).result(one)
    output.data(f"{followed.stage} is {one.state}; {attach}")
    code = EXIT_DONE if one.state in telemetry.LIVE_STATES else outcome.exit_code(one)
    return Result(code, session.store.simulated, {followed.stage: outcome.row(one, view.boot_s if view else None)})
