"""``eaglewatch status``: one reading of a host, or one each second."""

import argparse
import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from console.config import REHEARSAL, Host
from console.core.runs import Listed, only
from console.headless import hosts, lines, standing, status_lines
from console.headless.output import Output
from console.headless.session import Session
from console.remote import state
from pipeline.contract import telemetry
from pipeline.contract.clock import boot_s
from pipeline.errors import EXIT_CANNOT_TELL, EXIT_DONE, UserError

WAIT_S = 15.0
EVERY_S, EVERY_KEPT_S = 1.0, 10.0
"""Between the lines of --watch; the latter where every line is kept and no stage's state has changed."""


def command(arguments: argparse.Namespace, output: Output) -> Coroutine[Any, Any, int]:
    host = hosts.find(arguments.host, output)
    return (_watch if arguments.watch else _once)(arguments, host, output)


async def _once(arguments: argparse.Namespace, host: Host, output: Output) -> int:
    async with Session(host, output, arguments.run) as session:
        await session.connect()
        runs = await _choose_run(session, arguments)
        if arguments.run is not None and arguments.run not in [one.name for one in runs]:
            raise UserError(f"no run {arguments.run} on {arguments.host}; {_runs_there(runs)}")
        await session.until(lambda: session.now().state == state.LIVE and (_has_reading(session) or _has_refusal(session)), WAIT_S)
        complete = session.now().state == state.LIVE and _has_reading(session)
        link = session.now()
        for row in status_lines.table(session.store, arguments.host, link, _rows(session, runs, arguments.host)):
            output.data(row)
        why = "" if complete else _why_not(session)
        code = EXIT_DONE if complete else EXIT_CANNOT_TELL
        output.json(_object(session, arguments.host, code, why, runs))
        if why:
            output.say(f"eaglewatch: {why}")
        return code


async def _watch(arguments: argparse.Namespace, host: Host, output: Output) -> int:
    """Until it is interrupted, which is its normal end; or until the link needs a person (cannot tell)."""
    async with Session(host, output, arguments.run) as session:
        await session.connect()
        runs = await _choose_run(session, arguments)
        due_s, told_s, told = boot_s(), float("-inf"), []
        try:
            while not session.over:
                states = status_lines.states(session.store)
                if output.to_terminal or states != told or boot_s() - told_s >= EVERY_KEPT_S:
                    line = status_lines.line(session.store, arguments.host, session.now())
                    output.data(lines.wrapped(line, time.strftime("%H:%M:%S")))
                    told, told_s = states, boot_s()
                ready = session.now().state == state.LIVE and _has_reading(session)
                code = EXIT_DONE if ready else EXIT_CANNOT_TELL
                output.json(_object(session, arguments.host, code, "" if ready else _why_not(session), runs))
                due_s = max(due_s + EVERY_S, boot_s())
                while (left_s := due_s - boot_s()) > 0 and not session.over:
                    await session.wait(left_s)
        except asyncio.CancelledError:
            return EXIT_DONE
        output.say(f"eaglewatch: {session.now().words}")
        return EXIT_CANNOT_TELL


async def _choose_run(session: Session, arguments: argparse.Namespace) -> list[Listed]:
    """Watch the run that was named, else the only live one, else the only one; the host's runs."""
    listed = await session.runs()
    if arguments.run is None and (one := only(listed)):
        await session.watch(one.name)
    return listed


def _runs_there(runs: list[Listed]) -> str:
    return f"its runs are {', '.join(one.name for one in runs)}" if runs else "it has no runs yet"


def _rows(session: Session, runs: list[Listed], host: str) -> list[str]:
    """The host's runs in a word a stage, as the table has them; what to do where there is none, or none is shown."""
    if not runs:
        return [f"none yet; to make one: eaglewatch init {host} RUN --preset {'rehearsal' if host == REHEARSAL else 'generic'}"]
    view = session.store.view
    shown = view.run.name if view is not None and view.run is not None else None
    rows = []
    for one in runs:
        words = {stage: standing.state_word(stage, word, one.outdated[stage]) for stage, word in one.states.items()}
        if one.name == shown and view is not None and view.stages is not None:
            age_s = session.now().frame_age_s
            words = {key: standing.word(session.store, attempt, age_s) for key, attempt in view.stages.items()}
        rows.append(f"{one.name} ({', '.join(f'{stage} {word}' for stage, word in words.items()) or 'nothing launched'})")
    return rows + ([f"for the stages of one: eaglewatch status {host} --run NAME"] if shown is None else [])


def _has_reading(session: Session) -> bool:
    """Whether the GPUs were read: NVML answers, and at least one GPU's memory is a number."""
    view = session.store.view
    if view is None or view.nvml is None or view.nvml.state != telemetry.NVML_OK:
        return False
    return any(gpu.used_bytes.known for gpu in view.gpus or ())


def _has_refusal(session: Session) -> bool:
    """Whether NVML has said that it cannot be read: waiting for more would only look like thinking."""
    view = session.store.view
    return view is not None and view.nvml is not None and view.nvml.state in (telemetry.NVML_ERROR, telemetry.NVML_STUCK)


def _why_not(session: Session) -> str:
    """What is missing for a complete reading."""
    view, link = session.store.view, session.now()
    if link.state != state.LIVE or view is None:
        return f"no live data: {link.words}"
    if view.nvml is None:
        return "the host tells nothing of NVML"
    return f"GPUs not read: NVML {view.nvml.state}{': ' + view.nvml.detail if view.nvml.detail else ''}"


def _object(session: Session, host: str, code: int, why: str, runs: list[Listed]) -> dict[str, Any]:
    error = {"error": {"message": why, "exit_code": code}} if why else {}
    listed = [{"name": one.name, "stages": one.states} for one in runs]
    return {"ok": code == EXIT_DONE, **status_lines.as_json(session.store, host, session.now(), listed), **error}
