"""``eaglewatch incident``: one file with all that tells of this moment on a host, for whoever has to find out what went wrong."""

import argparse
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from console.config import Host
from console.core.logring import LogRing
from console.headless import dumping, hosts, incident_file, incident_parts
from console.headless.output import FailedError, Output, Result
from console.headless.session import Session
from pipeline.contract import signals
from pipeline.errors import EXIT_CANNOT_TELL, EXIT_DONE, StageError, UserError

_FRAMES, _FRAMES_S = 4, 8.0
_LOG_BYTES, _LOG_S = 256 << 10, 5.0
_NO_SCREEN = "this command has none; ctrl+s in the console keeps it too"


def command(arguments: argparse.Namespace, output: Output) -> Coroutine[Any, Any, int]:
    if arguments.output is not None and Path(arguments.output).exists():
        raise UserError(f"{arguments.output}: is there already, and is not written over; give another name with -o")
    return _incident(arguments, hosts.find(arguments.host, output), output)


async def _incident(arguments: argparse.Namespace, host: Host, output: Output) -> int:
    ring, end = LogRing(), [0]

    def take(piece: dict[str, Any]) -> None:
        ring.take(piece)
        end[0] = piece["end"] if isinstance(piece.get("end"), int) else end[0]

    async with Session(host, output, arguments.run, on_log=take) as session:
        why = await _reach(session, arguments, output)
        dumps, no_dumps = ([], why) if why else await _dump(session, arguments, output)
        about = ("", why) if why else await _follow_log(session, arguments, end)
        bundle = incident_file.new(arguments.host, arguments.run, [("link", session.now().words)])
        collector = incident_parts.Collector(bundle, None if why else session.link, arguments.run, why)
        await collector.settings()
        for name in ("screen.txt", "screen.svg"):
            bundle.miss(name, _NO_SCREEN)
        incident_parts.add_local(bundle, arguments.host, session.frames.lines(), ring.lines(ring.first, ring.end), *about)
        found = incident_parts.concerned(session.store, arguments.stage)
        incident_parts.add_verdicts(bundle, session.store, [one for one in found if one.live])
        incident_parts.add_versions(bundle, session.link.hello, session.now().words)
        await collector.attempts(found)
        await collector.record()
        incident_parts.add_dumps(bundle, dumps, no_dumps)
        try:
            path = incident_file.write(bundle, Path(arguments.output) if arguments.output else None)
        except OSError as error:
            raise FailedError(f"{error.filename or arguments.output}: {error.strerror}; the bundle is not written") from None
        output.data(str(path))
        for what, reason in bundle.missing:
            output.say(f"eaglewatch: without {what}: {reason}")
        code, said = (EXIT_CANNOT_TELL, f"the host could not be asked: {why}; the bundle has what is here") if why else (EXIT_DONE, "")
        if said:
            output.say(f"eaglewatch: {said}")
        missing = [{"what": what, "why": reason} for what, reason in bundle.missing]
        simulated = session.store.simulated if not why else output.simulated
        output.json({**Result(code, simulated, {}, said).to_json(), "path": str(path), "missing": missing})
        return code


async def _reach(session: Session, arguments: argparse.Namespace, output: Output) -> str:
    """Connect and wait for some frames; why the host cannot be asked, else empty. Raises UserError where it has no such run."""
    try:
        await session.connect()
        listed = [one.name for one in await session.runs()]
        if arguments.run not in listed:
            there = f"its runs are {', '.join(listed)}" if listed else "it has no runs yet"
            raise UserError(f"no run {arguments.run} on {arguments.host}; {there}")
        await session.watch(arguments.run)
        output.say(f"eaglewatch: collecting what tells of {arguments.run} on {arguments.host}; nothing is changed there")
        await session.until(lambda: len(session.frames) >= _FRAMES, _FRAMES_S)
    except UserError:
        raise
    except StageError as error:
        return str(error)
    return ""


async def _follow_log(session: Session, arguments: argparse.Namespace, end: list[int]) -> tuple[str, str]:
    """The newest part of the log of the attempt that matters most: what it is of, and why there is none."""
    found = incident_parts.concerned(session.store, arguments.stage)
    if not found:
        return "", "nothing of the run was launched yet"
    one = found[0]
    fields = {"run": arguments.run, "stage": one.stage, "attempt": one.id, "offset": -_LOG_BYTES, "follow": False}
    try:
        size = (await session.link.request("tail", **fields)).get("size")
        await session.until(lambda: isinstance(size, int) and end[0] >= size, _LOG_S)
    except StageError as error:
        return "", str(error)
    return f"the newest lines of the log of {one.stage}, attempt {one.id}", f"the log of {one.stage} is empty"


async def _dump(session: Session, arguments: argparse.Namespace, output: Output) -> tuple[list[str], str]:
    """Stack dumps of what runs, if they are asked for; and why there is none."""
    live = [one for one in incident_parts.concerned(session.store, arguments.stage) if one.live and arguments.stage in (None, one.stage)]
    if not live:
        return [], "nothing of it runs"
    if not arguments.dump:
        red = [one.stage for one in live if (found := session.store.verdict(one)) is not None and found.severity == signals.RED]
        if red:
            output.say(f"eaglewatch: {', '.join(red)} is judged red; --dump takes the stacks of its processes too, and ends nothing")
        return [], "none was asked for; --dump takes one" + (f", and {', '.join(red)} is judged red" if red else "")
    texts, failed = [], []
    for one in live:
        try:
            came = await dumping.ask(session, arguments.host, arguments.run, one.stage, one.id)
        except StageError as error:
            failed.append(f"{one.stage}: {error}")
            continue
        texts += [came.whole] if came.text else []
        failed += [] if came.text else [f"{one.stage}: {came.trouble or 'nothing came'}"]
    return texts, "; ".join(failed)
