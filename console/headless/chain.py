"""Taking the pipeline's steps on a host, one after the other or beside each other, until all is done or a person is needed."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from console.core import chain, service, transition_live, transition_next
from console.core.attempt import Attempt
from console.core.chain import Step
from console.headless import actions, freeing, launching, outcome, starting, stopping, transitions
from console.headless.actions import Following
from console.headless.follow import Followed, Follower
from console.headless.launching import Order
from console.headless.output import Output, Result
from console.headless.session import Session
from pipeline.contract.stages import STAGES
from pipeline.errors import EXIT_CANNOT_TELL, EXIT_DONE, EXIT_FAILED, StageError

_LOOK_S = 0.5
_LAST_WORDS_S = 5.0


@dataclass(frozen=True)
class Plan:
    """What to take the steps of."""

    host: str
    run: str
    interpreter_of: Callable[[str], str]
    again: str
    """How to go on when this command ends before the work does."""
    resolved: dict[str, Any]
    """The run's settings by section."""
    through: tuple[str, ...] = chain.DATA_STAGES


class Runner:
    """Starts, follows and stops stages of one run. The session watches that run, and has a frame about it.

    What ended badly before is what it goes on from; what ends badly meanwhile ends it.
    """

    def __init__(self, session: Session, plan: Plan, output: Output):
        self._session, self._plan, self._output = session, plan, output
        self._followers: dict[str, asyncio.Task[Result]] = {}
        """By attempt id; each attempt has one, once."""
        self._forgiven = chain.bad_ends(self._stages())

    async def run(self) -> Result:
        """To the end: done, or why not, with a row for every stage. A cancelled one says what goes on without it."""
        try:
            return await self._steps()
        except asyncio.CancelledError:
            return self._left("interrupted")
        except StageError as error:  # of one stage; what the others do is told with it
            return self._ended(error.exit_code, str(error))
        finally:
            for task in self._followers.values():
                task.cancel()
            await asyncio.gather(*self._followers.values(), return_exceptions=True)

    async def _steps(self) -> Result:
        while not self._session.over:
            self._follow_live()
            if transition_next.live(self._session.store.view, self._plan.run) is not None:
                await self._session.wait(_LOOK_S)  # whoever confirmed it: the host takes the steps
                continue
            step = chain.next_step(self._session.store.view, self._plan.through, self._forgiven)
            if step.kind == "finished" or step.kind == "failed":
                if self._followers:
                    await asyncio.wait(self._followers.values(), timeout=_LAST_WORDS_S)
                return self._ended(EXIT_DONE, "") if step.kind == "finished" else self._failed(step)
            if step.kind == "wait":
                await self._session.wait(_LOOK_S)
            else:
                stopped = await (self._start if step.kind == "start" else self._make_room)(step)
                if stopped is not None:
                    return stopped
        return self._left(self._session.now().words)

    async def _start(self, step: Step) -> None:
        plan, stage, store = self._plan, step.stage, self._session.store
        before = store.attempt(stage)
        self._output.say(f"eaglewatch: start {stage}: {step.why}")
        await starting.check(self._session, plan.host, plan.run, stage, plan.resolved)
        try:
            followed = await launching.launch(
                self._session, Order(plan.host, plan.run, stage, plan.interpreter_of(stage), []), self._output
            )
            self._follow(followed)
        except launching.HeldError as error:
            self._output.say(f"eaglewatch: {error}; following it")
        while not chain.told(step, before, store.attempt(stage)) and not self._session.over:
            await self._session.wait(_LOOK_S)

    async def _make_room(self, step: Step) -> Result | None:
        """From the answers to the stage that needs the server's GPUs, as one transition of the host: it frees and verifies them between.

        What it came to, when it is not done. Raises StageError.
        """
        plan, session = self._plan, self._session
        wanted = transition_next.of(session.store.view, plan.resolved, transition_next.BEFORE)
        if isinstance(wanted, str):
            return await self._stop(step)
        interpreters = {stage: plan.interpreter_of(stage) for stage in wanted.stages}
        made = await transitions.plan(session, session.host, freeing.label_of(plan.host), plan.run, wanted, interpreters)
        self._output.say(
            f"eaglewatch: {step.why}: {wanted.words}; stops {made.service or 'nothing'}; confirmed by this command: {made.phrase_now}"
        )
        attempt = await transitions.launch(session, plan.host, plan.run, made, False, made.phrase_now)
        following = Following(session, self._output, transitions.way(plan.host, plan.run))
        task = asyncio.ensure_future(following.to_the_end(plan.run, attempt))
        try:
            while not task.done():
                self._follow_live()
                await session.wait(_LOOK_S)
            end = task.result()
        finally:
            task.cancel()
        after = chain.next_step(session.store.view, plan.through, self._forgiven)
        if end.done or after.kind == "failed":  # a stage that ended badly is told as that
            return None
        code = actions.exit_code(end.done, end.state, await following.receipt(plan.run, attempt))
        return self._ended(code or EXIT_CANNOT_TELL, f"transition: {end.line}")

    async def _stop(self, step: Step) -> None:
        """Stop a service, and wait until it has ended."""
        plan, one = self._plan, self._session.store.attempt(step.stage)
        if one is None:
            return
        self._output.say(f"eaglewatch: stop {step.stage}: {step.why}")
        await stopping.ask(self._session, plan.host, plan.run, one)
        await Follower(self._session, Followed(plan.host, plan.run, step.stage, one.id), self._output).watch()

    def _follow_live(self) -> None:
        """Have a follower for everything of the chain that runs, whoever started it."""
        for name, one in self._stages().items():
            if name in self._plan.through and one.live:
                self._follow(Followed(self._plan.host, self._plan.run, name, one.id))

    def _follow(self, followed: Followed) -> None:
        """A service until it is up, everything else to its end."""
        if followed.attempt not in self._followers:
            follower = Follower(self._session, followed, self._output, until_up=STAGES[followed.stage].service)
            self._followers[followed.attempt] = asyncio.ensure_future(follower.watch())

    def _exit_code(self, step: Step) -> int:
        one = self._session.store.attempt(step.stage)
        code = outcome.exit_code(one.newest) if one is not None else EXIT_FAILED
        return EXIT_FAILED if code == EXIT_DONE else code

    def _failed(self, step: Step) -> Result:
        """What a follower has told is not told again."""
        one = self._session.store.attempt(step.stage)
        told = one is not None and one.newest.id in self._followers
        return self._ended(self._exit_code(step), step.why, f"{step.stage} ended so, and needs a person" if told else step.why)

    def _ended(self, code: int, error: str, words: str = "") -> Result:
        """``words``: in place of the error, for people."""
        if error:
            self._output.say(f"eaglewatch: {words or error}; {self._what_goes_on()}")
        return self._result(code, error)

    def _left(self, reason: str) -> Result:
        text = f"{reason}; {self._what_goes_on()}"
        self._output.say(f"eaglewatch: {text}")
        return self._result(EXIT_CANNOT_TELL, text)

    def _result(self, code: int, error: str) -> Result:
        view, stages = self._session.store.view, self._stages()
        rows = {name: outcome.row(stages[name], view.boot_s if view else None) for name in self._plan.through if name in stages}
        return Result(code, self._session.store.simulated, rows, error)

    def _what_goes_on(self) -> str:
        words = [f"{one.stage} ({service.word(one)})" if STAGES[one.stage].service else one.stage for one in self._live()]
        way = transition_next.live(self._session.store.view, self._plan.run)
        words += [f"the transition ({transition_live.standing(way)})"] if way is not None else []
        goes_on = f"{' and '.join(words)} {'go' if len(words) > 1 else 'goes'} on" if words else "nothing of it runs now"
        return f"{goes_on}; to go on from here: {self._plan.again}"

    def _live(self) -> list[Attempt]:
        return [one for one in self._stages().values() if one.live]

    def _stages(self) -> dict[str, Attempt]:
        view = self._session.store.view
        return (view.stages if view else None) or {}
