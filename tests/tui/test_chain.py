"""The rehearsal on the screen: it takes the steps by itself, says each, and leaves the rest to the operator after a bad end."""

from typing import Any

import data_scenes
import scenes
import transition_scenes as way
from fakes import FakeLink, Fixture, redraw, showing, until
from textual.pilot import Pilot

from console.remote.state import LinkStatus
from console.tui.options import CHAIN
from console.tui.screens.done import EndedScreen
from pipeline.contract import transition

STAGES = ("serve", "generate", "prepare", "vocab", "extract")


class PlayedHost:
    """Every stage that is launched runs, and has ended a frame later, as the test says; the server is up until it is stopped."""

    def __init__(self, ends: dict[str, str] | None = None):
        self._ends = ends or {}
        self.stages: dict[str, Any] = {}
        self.actions: dict[str, Any] = {}
        self.rounds = 0
        self._boot_s = scenes.NOW_S
        self.link: FakeLink

    def prepare(self, link: FakeLink) -> None:
        self.link = link
        link.answers["launch"] = self.launched
        link.answers["stop"] = self.stopped

    def frame(self) -> None:
        self.rounds += 1
        self._boot_s += 1
        self.link.feed(scenes.frame(self._boot_s, stages=dict(self.stages), gpus=scenes.idle_gpus(), actions=self.actions))

    def launched(self, fields: dict[str, Any]) -> dict[str, Any]:
        stage = fields["stage"]
        one = data_scenes.serve() if stage == "serve" else scenes.attempt(stage=stage)
        self.stages[stage] = {**one, "attempt": fields["attempt"]}
        self.frame()
        return {"state": "RUNNING", "pid": 4243, "attempt": fields["attempt"]}

    def stopped(self, fields: dict[str, Any]) -> dict[str, Any]:
        self.stages[fields["stage"]].update(state="STOPPED", why="stopped by me", ended_boot_s=self._boot_s)
        self.frame()
        return {"state": "STOPPING"}

    def go_on(self) -> None:
        """A frame later: what ran has ended."""
        for stage, one in self.stages.items():
            if one["state"] == "RUNNING" and stage != "serve":
                done = scenes.done()["stages"]["extract"] if stage == "extract" else scenes.ended(stage, 0)
                bad = {"state": self._ends.get(stage), "why": "because", "ended_boot_s": self._boot_s}
                self.stages[stage] = {**done, "attempt": one["attempt"], **(bad if stage in self._ends else {})}
        self.frame()

    def fixture(self, **options: Any) -> Fixture:
        return Fixture(frames=[scenes.frame(stages={}, gpus=scenes.idle_gpus())], prepare=self.prepare, start=CHAIN, **options)

    @property
    def order(self) -> list[str]:
        return [f"{op} {fields['stage']}" for op, fields in self.link.asked if op in ("launch", "stop")]


class MuteHost(PlayedHost):
    """Answers each launch, and no frame tells of it."""

    def launched(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {"state": "RUNNING", "pid": 4243, "attempt": fields["attempt"]}


def said(pilot: Pilot[Any]) -> str:
    return "\n".join(one.message for one in pilot.app._notifications)


def card(pilot: Pilot[Any]) -> str:
    """The title of the card that is open; notes cover the rest of it."""
    assert isinstance(pilot.app.screen, EndedScreen)
    return pilot.app.screen.heading()


async def test_every_step_is_taken_in_order_and_said_and_the_last_one_has_its_card() -> None:
    host = PlayedHost()
    fixture = host.fixture()
    async with showing(fixture) as pilot:
        seen = ""

        def ended() -> bool:
            nonlocal seen
            seen += said(pilot)
            host.go_on()
            return isinstance(pilot.app.screen, EndedScreen)

        await until(pilot, ended)
        assert host.order == ["launch serve", "launch generate", "launch prepare", "launch vocab", "stop serve", "launch extract"]
        for words in (
            "the rehearsal starts serve",
            "the rehearsal starts generate",
            "generate is done and verified",
            "stops serve: extract needs its GPUs",
        ):
            assert words in seen
        await until(pilot, lambda: "the rehearsal is done" in said(pilot))
        assert card(pilot) == "extract of k25-10k on gpu-host: done"


async def test_it_stops_at_the_first_bad_end_and_leaves_the_next_step_to_the_operator() -> None:
    host = PlayedHost({"prepare": "FAILED"})
    async with showing(host.fixture()) as pilot:

        def stopped() -> bool:
            host.go_on()
            return "the rehearsal stops here: prepare is FAILED: because" in said(pilot)

        await until(pilot, stopped)
        assert host.order == ["launch serve", "launch generate", "launch prepare"]
        await until(pilot, lambda: isinstance(pilot.app.screen, EndedScreen))
        assert card(pilot) == "prepare of k25-10k on gpu-host: FAILED"


async def test_while_a_transition_of_the_run_is_there_the_host_takes_the_steps() -> None:
    host = PlayedHost()
    async with showing(host.fixture()) as pilot:
        await until(pilot, lambda: host.order == ["launch serve", "launch generate"])
        host.actions = {transition.ACTION: way.action(armed=True)}
        host.frame()
        await until(pilot, lambda: "transition" in (pilot.app.state.view.actions if pilot.app.state.view else {}))  # type: ignore[attr-defined]
        host.go_on()
        looks = host.rounds
        await until(pilot, lambda: host.rounds >= looks + 8 or bool(host.frame()))
        assert host.order == ["launch serve", "launch generate"]
        host.actions = {}
        host.frame()
        await until(pilot, lambda: "launch prepare" in host.order)


async def test_who_takes_control_ends_it_and_a_console_that_only_looks_never_begins() -> None:
    host = PlayedHost()
    async with showing(host.fixture()) as pilot:
        await until(pilot, lambda: host.order == ["launch serve", "launch generate"])
        hers = {"by": "anna on laptop", "since_boot_s": scenes.NOW_S, "yours": False}
        host.link.feed(scenes.frame(scenes.NOW_S + 50, stages=dict(host.stages), control=hers))
        await until(pilot, lambda: "goes no further by itself: anna on laptop has control" in said(pilot))
        assert len(host.order) == 2
    looking = PlayedHost()
    async with showing(looking.fixture(read_only=True)) as pilot:
        for _ in range(4):
            looking.frame()
            await redraw(pilot)
        assert looking.order == []


async def test_waiting_for_a_frame_ends_with_control_and_with_the_link_and_says_so() -> None:
    hers = {"by": "anna on laptop", "since_boot_s": scenes.NOW_S, "yours": False}
    host = MuteHost()
    async with showing(host.fixture()) as pilot:
        await until(pilot, lambda: host.order == ["launch serve"])
        host.link.feed(scenes.frame(scenes.NOW_S + 50, stages={}, gpus=scenes.idle_gpus(), control=hers))
        await until(pilot, lambda: "goes no further by itself: anna on laptop has control" in said(pilot))
    host = MuteHost()
    async with showing(host.fixture()) as pilot:
        await until(pilot, lambda: host.order == ["launch serve"])
        host.link.now = LinkStatus("AUTH NEEDED", None, 1, None, "gpu-host: no key fits")
        await until(pilot, lambda: "goes no further by itself: the link is AUTH NEEDED: gpu-host: no key fits" in said(pilot))
        assert host.order == ["launch serve"]
