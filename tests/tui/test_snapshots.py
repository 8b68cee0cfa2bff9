"""The whole screen in each of its states, as pictures: at 80x24 and 120x40; the steady one also in the light and the mono theme.

`pytest tests/tui/test_snapshots.py --snapshot-update` makes them anew; look at them before they are kept.
"""

from collections.abc import Callable
from typing import Any

import data_scenes
import free_scenes
import pytest
import scenes
import transition_scenes
from fakes import SETTINGS, FakeLink, Fixture, app_of, painted, until
from textual.pilot import Pilot

from console.headless import audit
from console.remote.state import LinkStatus
from console.tui.widgets.tail import TailView

STORY = free_scenes.receipt(free_scenes.STORY_MIB)
SIZES = [(80, 24), (120, 40)]
HELD = {"yours": False, "holder": {"by": "anna on laptop", "since_boot_s": scenes.NOW_S - 1260}, "boot_s": scenes.NOW_S}


def steady(**options: Any) -> Fixture:
    return Fixture(frames=scenes.steady(), log=scenes.LOG, **options)


def second() -> Fixture:
    return Fixture(frames=scenes.second(), log=scenes.LOG, prepare=lambda link: link.answers.update(control=HELD))


def no_runs() -> Fixture:
    def prepare(link: FakeLink) -> None:
        link.answers["runs"] = {"runs": []}

    return Fixture(run=None, frames=[scenes.frame(run=None, stages={})], prepare=prepare)


def freeing(at: dict[str, Any] | None, receipt: dict[str, Any] | None = None) -> Fixture:
    """GPUs that a vLLM of nobody's run holds, and how freeing them stands."""

    def prepare(link: FakeLink) -> None:
        told = {"receipt": receipt, "events": free_scenes.events()}
        link.answers["read"] = lambda fields: {"value": told.get(fields["what"], SETTINGS)}

    return Fixture(frames=[free_scenes.frame(at)], prepare=prepare)


def baseline() -> Fixture:
    """Idle GPUs that are not at 0 MiB, before the first start of a stage that needs them."""
    recorded = {uuid: mib * scenes.MIB for uuid, mib in zip(free_scenes.UUIDS, (0, 0, 0, 1, 1, 1, 3, 3), strict=True)}
    gpus = [scenes.gpu(index, used_bytes=size, util_pct=0, procs=[]) for index, size in enumerate(recorded.values())]
    return Fixture(frames=[{**scenes.ready()[0], "gpus": gpus, "baseline_recorded": recorded}])


def transiting(at: dict[str, Any]) -> Fixture:
    """A transition that the host does."""

    def prepare(link: FakeLink) -> None:
        link.answers["read"] = lambda fields: {"value": transition_scenes.events() if fields["what"] == "events" else SETTINGS}

    return Fixture(frames=[transition_scenes.frame(at)], prepare=prepare)


def says(*status: Any) -> Callable[[Fixture], None]:
    def then(fixture: Fixture) -> None:
        fixture.link.now = LinkStatus(*status)

    return then


def asleep(fixture: Fixture) -> None:
    fixture.clock.boot_s += 25_920
    fixture.clock.asleep_s += 25_920
    fixture.link.now = LinkStatus("RECONNECTING", 25_921.0, 1, None, "gpu-host: connection lost (this machine slept)")


def feeds(frame: dict[str, Any]) -> Callable[[Fixture], None]:
    return lambda fixture: fixture.link.feed(frame)


def doubted(fixture: Fixture) -> None:
    fixture.made.flows.start("extract")


def quiet(fixture: Fixture) -> None:
    """Without what passes by: it would be gone on a slow machine."""
    fixture.made.clear_notifications()


def nothing(fixture: Fixture) -> None:
    return


LOST = ("RECONNECTING", 94.0, 3, 4.0, "gpu-host: connection lost (no answer to keepalive)")
SILENT = ("NO DATA", 41.0, 0, None, "the connection stands, the host program is silent")
REFUSED = ("AUTH NEEDED", None, 1, None, "gpu-host: login refused: no key of the ssh config or the ssh agent is accepted")
State = tuple[Callable[[], Fixture], Callable[[Fixture], None], tuple[str, ...]]
STATES: dict[str, State] = {
    "steady": (steady, nothing, ()),
    "loading": (lambda: Fixture(frames=scenes.loading(), log=scenes.LOG), nothing, ()),
    "verifying": (lambda: Fixture(frames=scenes.verifying(), log=scenes.LOG), nothing, ()),
    "done": (steady, feeds(scenes.done()), ()),
    "crashed": (steady, feeds(scenes.crashed()), ()),
    "crashed_after": (steady, feeds(scenes.crashed()), ("escape",)),
    "reconnecting": (steady, says(*LOST), ()),
    "no_data": (steady, says(*SILENT), ()),
    "asleep": (steady, asleep, ()),
    "login_refused": (lambda: Fixture(connected=False), says(*REFUSED), ()),
    "second_console": (second, nothing, ()),
    "free_gpus": (lambda: freeing(None), nothing, ("F",)),
    "free_phrase": (lambda: freeing(None), nothing, ("F", "a", "tab", "tab", "enter")),
    "free_live": (lambda: freeing(free_scenes.action()), quiet, ("F",)),
    "free_receipt": (lambda: freeing(free_scenes.ended(STORY), STORY), quiet, ("F", "shift+tab", "enter")),
    "transition_plan": (lambda: Fixture(frames=[transition_scenes.frame()]), nothing, ("greater_than_sign",)),
    "transition_live": (lambda: transiting(transition_scenes.action()), quiet, ("t",)),
    "baseline_dialog": (baseline, nothing, ("greater_than_sign",)),
    "start_dialog": (lambda: Fixture(frames=scenes.ready()), nothing, ("greater_than_sign",)),
    "reason_dialog": (lambda: Fixture(frames=data_scenes.outdated()), doubted, ()),
    "serve_loading": (lambda: Fixture(frames=data_scenes.serve_loading(), log=scenes.LOG), nothing, ()),
    "generating": (lambda: Fixture(frames=data_scenes.generating(), log=scenes.LOG), nothing, ()),
    "serve_looked_at": (lambda: Fixture(frames=data_scenes.generating(), log=scenes.LOG), nothing, ("tab",)),
    "samples": (lambda: Fixture(frames=data_scenes.generating()), nothing, ("s",)),
    "outdated": (lambda: Fixture(frames=data_scenes.outdated(), log=scenes.LOG), nothing, ()),
    "foreign_server": (lambda: Fixture(frames=data_scenes.foreign()), nothing, ("tab", "enter")),
    "vocab_done": (lambda: Fixture(frames=scenes.ready(), log=scenes.LOG), nothing, ()),
    "stop_dialog": (steady, nothing, ("X",)),
    "details": (steady, nothing, ("d",)),
    "evidence": (steady, nothing, ("e",)),
    "help": (steady, nothing, ("question_mark",)),
    "nothing_ran": (lambda: Fixture(frames=scenes.nothing_ran()), nothing, ()),
    "no_run": (no_runs, nothing, ()),
    "strip_in_focus": (steady, nothing, ("tab",)),
}


@pytest.fixture(autouse=True)
def somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "who", lambda: "me on here")


def check(snap_compare: Any, fixture: Fixture, then: Callable[[Fixture], None], presses: tuple[str, ...], size: tuple[int, int]) -> None:
    async def settle(pilot: Pilot[Any]) -> None:
        app = app_of(pilot)
        await until(pilot, lambda: hasattr(fixture, "_made") and bool(fixture.link.asked))
        if fixture.connected:
            await until(pilot, lambda: app.state.runs is not None)
        if fixture.connected and fixture.run is not None:
            await until(pilot, lambda: app.state.settings is not None and bool(fixture.link.ops("control")))
        if fixture.log:
            await until(pilot, lambda: app.state.log_source is not None and "Loading model weights" in "\n".join(painted(app)))
        if app.state.attempt is not None and app.state.attempt.log_bytes is not None:
            await until(pilot, lambda: app.state.log_source is not None)  # the pane says another thing before
        then(fixture)
        app.tick()
        for tail in app.screen_stack[0].query(TailView):
            tail.flush()
        await pilot.pause()
        app.tick()
        for key in presses:
            await pilot.pause()
            await pilot.press(key)
        await pilot.pause()
        app.tick()
        await pilot.pause()

    assert snap_compare(fixture.app(), terminal_size=size, run_before=settle)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", list(STATES))
def test_the_screen_looks_as_it_did(snap_compare: Any, name: str, size: tuple[int, int]) -> None:
    make, then, presses = STATES[name]
    check(snap_compare, make(), then, presses, size)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("theme", ["light", "mono"])
@pytest.mark.parametrize("name", ["steady", "stop_dialog"])
def test_the_other_themes_look_as_they_did(snap_compare: Any, name: str, theme: str, size: tuple[int, int]) -> None:
    _, then, presses = STATES[name]
    check(snap_compare, steady(theme=theme), then, presses, size)


def test_ascii_looks_as_it_did(snap_compare: Any) -> None:
    check(snap_compare, steady(ascii_only=True), nothing, (), (80, 24))
