"""Following one attempt to its end. Used by every command that watches: the words come from the host's frames, never from the link."""

import asyncio
import time
from dataclasses import dataclass

from console.core import attempt as attempts
from console.core import service
from console.core.attempt import Attempt
from console.headless import lines, outcome, standing
from console.headless.output import Output, Result
from console.headless.session import Session
from console.remote import state
from console.remote.errors import AgentError, RemoteError
from pipeline.contract import telemetry
from pipeline.contract.clock import boot_s
from pipeline.errors import EXIT_CANNOT_TELL, EXIT_DONE

EVERY_S, EVERY_DOWN_S = 2.0, 5.0
"""Between lines while nothing but numbers and ages changes: with the link up, and down. Of ``--json``, and on a terminal."""
EVERY_KEPT_S = 10.0
"""The same for text that goes elsewhere, where every line is kept."""
GONE_AFTER_S = 10.0
"""Frames that do not know the attempt are believed after so much of the host's time; one may have been under way before the launch."""


def attach_command(host: str, run: str, stage: str) -> str:
    """How to come back to it, whatever else runs by then."""
    return f"eaglewatch attach {host} --run {run} --stage {stage}"


@dataclass(frozen=True)
class Followed:
    """What a follower watches."""

    host: str
    run: str
    stage: str
    attempt: str


class Follower:
    """Prints an attempt's progress until it has ended, the link needs a person, or the command is cancelled."""

    def __init__(self, session: Session, followed: Followed, output: Output, until_up: bool = False):
        """``until_up``: of a service, it has done its work as soon as the service is up."""
        self._session = session
        self._until_up = until_up
        self._followed = followed
        self._output = output
        self._names = {"host": followed.host, "run": followed.run, "stage": followed.stage}
        self._printed_s = float("-inf")
        self._key: tuple[str, ...] = ()
        self._missing_since: float | None = None
        self._unknown_since: float | None = None

    async def follow(self) -> Result:
        """Watch it to its end; what it came to. A cancelled follower says that the job goes on, and is told "cannot tell"."""
        try:
            result = await self.watch()
        except asyncio.CancelledError:
            return self._left("interrupted")
        mine = self._mine()
        if mine is not None and mine.ended and not outcome.is_well(mine):
            for line in outcome.what_next(mine, self._followed.host, self._followed.run):
                self._output.say(f"  {line}")
        return result

    async def watch(self) -> Result:
        """The same for a follower beside others, whose cancelling somebody else tells."""
        ended = await self._to_the_end()
        return self._left(self._session.now().words) if ended is None else self.result(ended)

    def result(self, ended: Attempt) -> Result:
        """Say how it ended, or that it is up."""
        name = f"{self._followed.stage} of run {self._followed.run} on {self._followed.host}"
        mark = "SIMULATED  " if self._session.store.simulated else ""
        if service.is_up(ended):
            return self._up(ended, f"{mark}{name}")
        code, words = outcome.exit_code(ended), outcome.words(ended)
        if outcome.is_well(ended):
            self._output.data(f"{mark}{name}: {words}")
        else:
            self._output.say(f"eaglewatch: {mark}{name}: {words}")
        if code == EXIT_DONE:
            for line in outcome.summary(ended):
                self._output.data(f"  {line}")
        error = "" if code == EXIT_DONE else f"{name}: {words}"
        return Result(code, self._session.store.simulated, {self._followed.stage: outcome.row(ended)}, error)

    def _up(self, one: Attempt, name: str) -> Result:
        """A service that stays when this command ends."""
        note = f": {one.progress.note}" if one.progress and one.progress.note else ""
        view, followed = self._session.store.view, self._followed
        stop = f"eaglewatch stop {followed.host} --run {followed.run} --stage {followed.stage}"
        self._output.data(f"{name} is UP{note}")
        self._output.data(f"  it stays; to stop it: {stop}")
        return Result(EXIT_DONE, self._session.store.simulated, {followed.stage: outcome.row(one, view.boot_s if view else None)})

    async def _to_the_end(self) -> Attempt | None:
        while True:
            mine = self._mine()
            self._print(mine)
            if mine is not None and (mine.ended or self._stays_unknown(mine) or (self._until_up and service.is_up(mine))):
                return mine
            if self._session.over:
                return None
            if self._is_gone(mine):
                try:
                    return await self._read_ended()
                except AgentError:
                    self._missing_since = None  # ask again once the link is back
            await self._session.wait(0.5)

    def _mine(self) -> Attempt | None:
        """The attempt, if the newest frame is about it."""
        return self._session.store.launch(self._followed.stage, self._followed.attempt)

    def _stays_unknown(self, mine: Attempt) -> bool:
        """Whether the host has not known for a while, in its time, how the attempt stands: following it would tell nothing."""
        view = self._session.store.view
        if view is None or mine.state != attempts.UNKNOWN:
            self._unknown_since = None
            return False
        if self._unknown_since is None or view.boot_s < self._unknown_since:
            self._unknown_since = view.boot_s
        return view.boot_s - self._unknown_since >= GONE_AFTER_S

    def _is_gone(self, mine: Attempt | None) -> bool:
        """Whether frames have been about something else for a while, in the host's time."""
        view = self._session.store.view
        told = view is not None and view.run is not None and view.run.name == self._followed.run and view.stages is not None
        if mine is not None or view is None or not told:
            self._missing_since = None
            return False
        if self._missing_since is None or view.boot_s < self._missing_since:
            self._missing_since = view.boot_s
        return view.boot_s - self._missing_since >= GONE_AFTER_S

    async def _read_ended(self) -> Attempt | None:
        """An attempt that frames do not show any more: another one stands in its place. Only what its own files prove is said.

        None: the link has given up. Raises AgentError when it was lost before the answer.
        """
        files: dict[str, object] = {}
        for what in ("exit", "receipt", "spec"):
            try:
                followed = self._followed
                reply = await self._session.link.request(
                    "read", run=followed.run, stage=followed.stage, attempt=followed.attempt, what=what
                )
                files[what] = reply.get("value")
            except AgentError as error:
                if error.unanswered:
                    raise
            except RemoteError:
                return None
        ended = files.get("exit")
        code = ended.get("code") if isinstance(ended, dict) else None
        state_word = telemetry.DONE if code == 0 else telemetry.FAILED if isinstance(code, int) else telemetry.ENDED_UNKNOWN
        why = "another attempt stands in its place, its own files were read"
        parsed = attempts.parse({**files, "attempt": self._followed.attempt, "state": state_word, "why": why}, self._followed.stage)
        return parsed

    def _print(self, mine: Attempt | None) -> None:
        link = self._session.now()
        phase = mine.progress.phase if mine is not None and mine.progress else ""
        loud = standing.loud(self._session.store, mine)
        key = (mine.state if mine else "", phase, link.state, loud.level if loud else "")
        every_s = EVERY_S if link.state in (state.LIVE, state.LATE) else EVERY_DOWN_S
        if not self._output.as_json and not self._output.to_terminal:
            every_s = EVERY_KEPT_S
        if key == self._key and boot_s() - self._printed_s < every_s:
            return
        first, self._key, self._printed_s = not self._key, key, boot_s()
        coming = first and mine is None and link.state == state.LIVE  # the next frame tells of it
        if not coming and (mine is None or not mine.ended):  # its end is told by the result
            line = lines.progress_line(self._session.store, mine, self._followed.stage, link)
            self._output.data(lines.wrapped(line, time.strftime("%H:%M:%S")))
        self._output.json(lines.progress_json(self._session.store, mine, self._names, link))

    def _left(self, reason: str) -> Result:
        """This command ends and the job does not: say so, with what was known last."""
        mine, followed = self._mine(), self._followed
        attach = attach_command(followed.host, followed.run, followed.stage)
        if mine is not None and mine.state == telemetry.STOPPING:
            text = f"{reason}; {followed.stage} is being stopped, which needs nobody to watch; {attach}"
        elif mine is not None and mine.live:
            text = f"{reason}; {followed.stage} goes on; {attach}"
        else:
            text = f"{reason}; how {followed.stage} stands is not known here; {attach}"
        self._output.say(f"eaglewatch: {text}")
        view = self._session.store.view
        stages = {followed.stage: outcome.row(mine, view.boot_s if view else None)} if mine is not None else {}
        return Result(EXIT_CANNOT_TELL, self._session.store.simulated, stages, text)


def finish(output: Output, result: Result) -> int:
    """Print the result as the last line of ``--json``, and give the exit code back."""
    output.json(result.to_json())
    return result.code
