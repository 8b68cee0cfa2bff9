"""``eaglewatch log``: the end of a stage's log, and what comes to it."""

import argparse
import asyncio
from collections.abc import Coroutine
from typing import Any

from console.config import Host
from console.core.attempt import Attempt
from console.core.logring import LogRing, Note
from console.headless import actions, hosts
from console.headless.attach import choose_attempt, choose_run
from console.headless.output import CannotTellError, Output, Result
from console.headless.session import Session
from pipeline.contract import layout
from pipeline.contract.stages import ACTIONS
from pipeline.errors import EXIT_CANNOT_TELL, EXIT_DONE, UserError

_BYTES_A_LINE, _MOST_BYTES = 256, 4 << 20
_COMES_S = 30.0
"""The host sends a quarter of a megabyte a second."""
_LOOK_S = 0.5


def command(arguments: argparse.Namespace, output: Output) -> Coroutine[Any, Any, int]:
    if arguments.attempt and not (arguments.run and arguments.stage):
        raise UserError("--attempt is one of a stage of a run: name them with --run and --stage")
    return _log(arguments, hosts.find(arguments.host, output), output)


async def _log(arguments: argparse.Namespace, host: Host, output: Output) -> int:
    printer = _Printer(output, arguments.lines)
    async with Session(host, output, arguments.run, on_log=printer.take) as session:
        await session.connect()
        run, stage, attempt = await _which(session, arguments)
        output.say(f"eaglewatch: log of {stage} of run {run} on {arguments.host}, attempt {attempt}")
        offset = -min(max(1 << 16, arguments.lines * _BYTES_A_LINE), _MOST_BYTES)
        reply = await session.link.request("tail", run=run, stage=stage, attempt=attempt, offset=offset, follow=False)
        size = reply.get("size")
        if not await session.until(lambda: isinstance(size, int) and printer.end >= size, _COMES_S):
            raise CannotTellError(f"the log did not come whole within {_COMES_S:.0f} s; link {session.now().words}")
        printer.flush(last=not arguments.follow)
        code = await _follow(session, run, stage, attempt, printer) if arguments.follow else EXIT_DONE
        output.json(Result(code, session.store.simulated, {}, "" if code == EXIT_DONE else session.now().words).to_json())
        return code


async def _which(session: Session, arguments: argparse.Namespace) -> tuple[str, str, str]:
    """Run, stage (or action) and attempt. Raises UserError."""
    if arguments.attempt is not None:
        await session.watch(arguments.run)
        return arguments.run, arguments.stage, arguments.attempt
    if arguments.stage in ACTIONS:
        await session.watch(arguments.run)
        action = actions.newest(session, arguments.stage)
        if action is None or (arguments.run is not None and action.run not in (None, arguments.run)):
            of = f"of run {arguments.run} on {arguments.host}" if arguments.run else f"on {arguments.host} outside runs"
            hint = "" if arguments.run else "; for one of a run: --run NAME"
            raise UserError(f"no {arguments.stage} {of}, as far as the host keeps record{hint}")
        return action.run or layout.HOST_RUN, arguments.stage, action.attempt.id
    run = arguments.run or choose_run(await session.runs(), arguments.host, arguments.stage)
    await session.watch(run)
    one = choose_attempt(session, arguments.host, run, arguments.stage)
    return run, one.stage, one.id


def _standing(session: Session, stage: str) -> Attempt | None:
    if stage not in ACTIONS:
        return session.store.attempt(stage)
    action = actions.newest(session, stage)
    return action.attempt if action is not None else None


async def _follow(session: Session, run: str, stage: str, attempt: str, printer: "_Printer") -> int:
    """Until the attempt has ended and all of its log is printed, or it is interrupted, which is a normal end."""
    await session.link.tail(run, stage, attempt, printer.end, True)
    try:
        while not session.over:
            one = _standing(session, stage)
            over = one is None or one.id != attempt or (one.ended and printer.end >= (one.log_bytes or 0))
            printer.flush(last=over)
            if over:
                session.output.say(f"eaglewatch: {_end(one, attempt)}")
                return EXIT_DONE
            await session.wait(_LOOK_S)
    except asyncio.CancelledError:
        return EXIT_DONE
    session.output.say(f"eaglewatch: {session.now().words}")
    return EXIT_CANNOT_TELL


def _end(one: Attempt | None, attempt: str) -> str:
    return f"attempt {attempt} is {one.state}: nothing more will come" if one and one.id == attempt else f"attempt {attempt} has ended"


class _Printer:
    """Prints whole lines as they come; of the first piece only the last ``lines``."""

    def __init__(self, output: Output, lines: int):
        self._output, self._ring, self._lines = output, LogRing(max_lines=max(lines, 1000)), lines
        self._printed: int | None = None
        self.end = 0
        """The next byte of the log."""

    def take(self, piece: dict[str, Any]) -> None:
        end = piece.get("end")
        self._ring.take(piece)
        self.end = end if isinstance(end, int) else self.end

    def flush(self, last: bool) -> None:
        """Print what has not been. ``last``: also a line that has no end."""
        frozen = self._ring.freeze()
        stop = frozen.end if last else frozen.closed_end
        start = max(stop - self._lines, 0) if self._printed is None else self._printed
        for number in range(max(start, frozen.first), stop):
            line = frozen.line(number)
            if isinstance(line, Note):
                self._output.say(f"eaglewatch: {line}")
            else:
                self._output.data(line)
                self._output.json({"type": "log", "line": line})
        self._printed = max(stop, self._printed or 0)
