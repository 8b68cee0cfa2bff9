"""An action of the host, followed by a command to its end and its receipt: what ``free-gpus`` and ``next`` do alike."""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from console.core import reading, receipt_age
from console.core.action import Action
from console.headless import freeing
from console.headless.action_steps import Steps
from console.headless.output import CannotTellError, FailedError, Output, Result
from console.headless.session import Session
from console.remote import errors, state
from console.remote.errors import AgentError
from pipeline.contract import free, telemetry
from pipeline.contract.clock import boot_s
from pipeline.errors import EXIT_CANNOT_TELL, EXIT_DONE, EXIT_FAILED, EXIT_USAGE, UserError

PATIENCE_S = 30.0
"""For frames that tell of it, while the link is there."""
_ASK_S = 2.0
_CODES = (EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_CANNOT_TELL, free.EXIT_BASELINE, free.EXIT_HELD)
_OPTIONS = {"before": "from"}
"""Names of options that are not those of their arguments."""
Json = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """What each command has of its own."""

    action: str
    """Of ``contract.stages.ACTIONS``."""
    show: str
    """The command that shows it again."""
    plan: str
    """The option that looks at how things are now."""
    standing: Callable[[Action], str]
    receipt: Callable[[Json, bool], list[str]]
    line: Callable[[Json], str]


class End(NamedTuple):
    """How it ended, by a frame, or by its own files where no frame tells of it."""

    run: str | None
    done: bool
    state: str
    action: Action | None
    """As a frame told of it."""
    line: str


class Following:
    """One command's attempt. Everything raises StageError: RemoteError of the link, CannotTellError where the end cannot be known."""

    def __init__(self, session: Session, output: Output, way: Way):
        self._session, self._output, self._way = session, output, way

    @property
    def newest(self) -> Action | None:
        """As the newest frame tells of it."""
        return newest(self._session, self._way.action)

    def known(self, nothing: str) -> Action:
        """The newest. Raises UserError (``nothing``) when there is none, CannotTellError when the host cannot tell."""
        one, view = self.newest, self._session.store.view
        if one is None and view is not None and "actions:" in view.broken:
            raise CannotTellError(f"{self._session.host.alias} cannot tell which there were: it could not make {view.broken}")
        if one is None:
            raise UserError(nothing)
        return one

    def mine(self, attempt: str) -> Action | None:
        one = self.newest
        return one if one is not None and one.attempt.id == attempt else None

    @property
    def again(self) -> str:
        return f"To see what comes of it: {self._way.show}"

    async def cancel(self, host: str, newest: Action, nothing: str) -> None:
        """Raises UserError, which begins with ``nothing``, when it has ended."""
        if not newest.live_now:
            raise UserError(f"{nothing}; the newest: {self._way.standing(newest)}")
        found = await freeing.stop(self._session, host, newest.run, newest.attempt.id, self._way.action)
        self._output.say(f"eaglewatch: its stop was asked for: it is {found}")

    async def follow(self, run: str | None, attempt: str, more: Callable[[Json], Awaitable[Json]] | None = None) -> int:
        """Tell its steps until it has ended, then its receipt; the exit code. Interrupted, the host goes on.

        ``more``: what is done with the receipt, and told beside it.
        """
        try:
            end = await self.to_the_end(run, attempt)
            return await self._conclude(end, attempt, more)
        except asyncio.CancelledError:
            raise CannotTellError(f"interrupted; the host goes on. {self.again}") from None

    async def to_the_end(self, run: str | None, attempt: str) -> End:
        """Tell its steps until it has ended; how it has. Cancelled, it has changed nothing."""
        steps = Steps(self._session, self._output, self._way.action, run, attempt)
        untold_s = asked_s = None
        while True:
            one = self.mine(attempt)
            if one is not None:
                await steps.tell(one)
                if one.attempt.ended:
                    made = one.attempt
                    return End(one.run, made.done, made.state, one, self._way.standing(one))
            if self._session.over:
                raise CannotTellError(f"how it ended is not known here ({self._session.now().words}); {self.again}")
            steps.tell_link()
            now = boot_s()
            if (one is not None and one.live_now) or self._session.now().state != state.LIVE:
                untold_s = None
            elif untold_s is None:
                untold_s = asked_s = now
            elif asked_s is None or now - asked_s > _ASK_S:
                if (end := await self._by_its_files(run, attempt)) is not None:
                    return end
                if now - untold_s > PATIENCE_S:
                    raise CannotTellError(f"{self._why_untold(one)}; {self.again}")
                asked_s = now
            await self._session.wait(0.5)

    def _why_untold(self, one: Action | None) -> str:
        view = self._session.store.view
        broken = f" (it could not make {view.broken})" if view is not None and view.broken else ""
        said = f"{self._session.host.alias} does not tell of it for {PATIENCE_S:.0f} s{broken}"
        if one is not None:
            return f"how it stands cannot be told: {one.attempt.state}{f', {one.attempt.why}' if one.attempt.why else ''}"
        return f"{said}; it tells of another one" if self.newest is not None else said

    async def _by_its_files(self, run: str | None, attempt: str) -> End | None:
        """None when it has not ended, as far as its files say."""
        try:
            found = await freeing.ended(self._session, run, attempt, self._way.action)
        except AgentError as error:
            if error.kind != errors.MISSING:
                raise
            return None
        code = reading.count(found, "code")
        word = telemetry.CRASHED if code is None else telemetry.DONE if code == EXIT_DONE else telemetry.FAILED
        said = "without an exit code" if code is None else f"with exit code {code}"
        return End(run, code == EXIT_DONE, word, None, f"it ended {said} and left no receipt")

    async def _conclude(self, end: End, attempt: str, more: Callable[[Json], Awaitable[Json]] | None) -> int:
        """Print the receipt, and give the exit code."""
        found = await self.receipt(end.run, attempt)
        simulated, code = self._session.store.simulated, exit_code(end.done, end.state, found)
        if not found:
            self._output.data(f"{'SIMULATED  ' if simulated else ''}{end.line}")
            error = {EXIT_FAILED: FailedError, EXIT_CANNOT_TELL: CannotTellError}.get(code, UserError)
            raise error(end.line)
        when = receipt_age.of(found, end.action, self._session.store.view, self._session.now().frame_age_s)
        first, *rest = self._way.receipt(found, simulated)
        now_s = time.time()
        old = "" if when.fresh else f"; this is not a reading of now: {self._way.plan} is"
        for line in (first, f"{when.words(now_s, time.localtime(now_s).tm_gmtoff)}{old}", *rest):
            self._output.data(line)
        beside = await more(found) if more is not None else {}
        error = "" if code == EXIT_DONE else self._way.line(found)
        self._output.json({**Result(code, simulated, {}, error).to_json(), "receipt": found, **when.to_json(), **beside})
        return code

    async def receipt(self, run: str | None, attempt: str) -> Json:
        try:
            return await freeing.receipt(self._session, run, attempt, self._way.action)
        except AgentError as error:
            if error.kind != errors.MISSING:
                raise
            return {}


def newest(session: Session, action: str) -> Action | None:
    """As the newest frame tells of it."""
    return session.store.view.actions.get(action) if session.store.view else None


def refuse_idle(arguments: argparse.Namespace, names: Sequence[str]) -> None:
    """Raises UserError for an option that would do nothing here; with ``--confirm`` none is."""
    given = [name for name in names if arguments.confirm is None and getattr(arguments, name)]
    if given:
        what = next(one for one in ("plan", "show", "cancel") if getattr(arguments, one))
        raise UserError(f"{', '.join('--' + _OPTIONS.get(name, name) for name in given)}: does nothing with --{what}")


def exit_code(done: bool, word: str, receipt: Json) -> int:
    """0 only with the proof in the end (``word``: its state) and in the receipt; without a receipt what is known of the attempt."""
    if receipt:
        code = reading.count(receipt, "exit_code")
        if code == EXIT_DONE:
            return code if done and receipt.get("verified") is True else EXIT_CANNOT_TELL
        return code if code is not None and code in _CODES else EXIT_CANNOT_TELL
    if word == telemetry.REFUSED:
        return EXIT_USAGE
    if word in (telemetry.FAILED, telemetry.CRASHED, telemetry.STOPPED, telemetry.LAUNCH_FAILED):
        return EXIT_FAILED
    return EXIT_CANNOT_TELL
