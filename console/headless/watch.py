"""``eaglewatch watch``: any directory that grows, of a run that was started by hand. Nothing is launched and nothing is signalled."""

import argparse
import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from console.config import Host
from console.core import watched
from console.headless import hosts, lines, watch_lines
from console.headless.output import Output, Result
from console.headless.session import Session
from console.headless.status import EVERY_KEPT_S, EVERY_S, WAIT_S
from console.headless.watching import Target, Watching
from console.remote import state
from pipeline.contract.clock import boot_s
from pipeline.errors import EXIT_CANNOT_TELL, EXIT_DONE


def command(arguments: argparse.Namespace, output: Output) -> Coroutine[Any, Any, int]:
    wanted = target(arguments)  # before the host is looked for: a rehearsal would be started
    return _watch(arguments, wanted, hosts.find(arguments.host, output), output)


def target(arguments: argparse.Namespace) -> Target:
    return Target(arguments.host, arguments.dir, arguments.total, arguments.pid, arguments.log)


async def _watch(arguments: argparse.Namespace, wanted: Target, host: Host, output: Output) -> int:
    async with Session(host, output) as session:
        await session.connect()
        watching = Watching(session, wanted)
        await watching.start()
        if wanted.pid is None:
            output.say(f"eaglewatch: {watch_lines.UNSEEN}")
        for note in watching.notes:
            output.say(f"eaglewatch: {note}")
        printer = _Printer(session, watching, output)
        try:
            if arguments.once:
                return await _once(session, watching, printer)
            return await _to_the_end(session, watching, printer)
        except asyncio.CancelledError:
            return printer.result(EXIT_CANNOT_TELL, "interrupted; what was watched goes on")


async def _once(session: Session, watching: Watching, printer: "_Printer") -> int:
    """One whole reading: the files counted, and the GPUs read or refused."""
    deadline_s = boot_s() + WAIT_S
    while True:
        await watching.keep()
        attempt = watching.attempt
        counted = attempt is not None and attempt.directory is not None
        if counted and session.now().state == state.LIVE and boot_s() > deadline_s - WAIT_S + 1.0:
            printer.show()
            return printer.result(EXIT_DONE, "")
        if session.over or (boot_s() > deadline_s and not _counting(watching)):
            printer.show()
            return printer.result(EXIT_CANNOT_TELL, f"no count within {WAIT_S:.0f} s; link {session.now().words}")
        await session.wait(0.5)


def _counting(watching: Watching) -> bool:
    """Whether the host says that its first count goes on: it may take minutes where there are a million files."""
    attempt = watching.attempt
    return attempt is not None and attempt.progress is not None and attempt.progress.note.startswith("counting")


async def _to_the_end(session: Session, watching: Watching, printer: "_Printer") -> int:
    while True:
        await watching.keep()
        printer.show_when_due()
        end, attempt = watching.watched.end, watching.attempt
        if end:
            printer.show()
            words = watch_lines.ended(end, attempt, watching.target.total)
            if end == watched.REACHED:
                printer.output.data(words)
                return printer.result(EXIT_DONE, "")
            return printer.result(EXIT_CANNOT_TELL, words)
        if session.over:
            return printer.result(EXIT_CANNOT_TELL, session.now().words)
        await session.wait(0.5)


class _Printer:
    """Lines as ``status --watch`` prints them: each second on a terminal, else on a change and each 10 s."""

    def __init__(self, session: Session, watching: Watching, output: Output):
        self.output = output
        self._session, self._watching = session, watching
        one = watching.target
        self._names = watch_lines.names(one.host, one.directory, one.total, one.pid)
        self._told: tuple[str, ...] = ()
        self._told_s = self._json_s = float("-inf")

    def show_when_due(self) -> None:
        attempt, link = self._watching.attempt, self._session.now()
        if attempt is None and link.state == state.LIVE and not self._told:
            return  # the next frame tells
        verdict = self._session.store.verdict(attempt, link.frame_age_s) if attempt is not None else None
        key = (link.state, attempt.state if attempt else "", verdict.level if verdict else "")
        every_s = EVERY_S if self.output.to_terminal or self.output.as_json else EVERY_KEPT_S
        if key != self._told or boot_s() - self._told_s >= every_s:
            self._told, self._told_s = key, boot_s()
            self.show()

    def show(self) -> None:
        store, attempt, link = self._session.store, self._watching.attempt, self._session.now()
        text = watch_lines.line(store, attempt, link, self._watching.target.total)
        self.output.data(lines.wrapped(text, time.strftime("%H:%M:%S")))
        self.output.json(watch_lines.as_json(store, attempt, link, self._names))

    def result(self, code: int, why: str) -> int:
        """Say how it ended; the exit code."""
        store = self._session.store
        if why:
            self.output.say(f"eaglewatch: {why}")
        attempt = self._watching.attempt
        files = attempt.directory if attempt else None
        told = {"dir": self._watching.target.directory, "total": self._watching.target.total}
        told |= {"files": files.files if files else None, "bytes": files.bytes if files else None}
        self.output.json({**Result(code, store.simulated, {}, why).to_json(), "watch": told})
        return code
