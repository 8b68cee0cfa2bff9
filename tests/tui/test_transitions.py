"""From one stage to the next on the screen: the plan, the typed phrase, now or armed, the live state, what it came to. Scripted host."""

import json
from pathlib import Path
from typing import Any

import pytest
import scenes
import transition_scenes as way
from fakes import SETTINGS, FakeLink, Fixture, redraw, showing, until
from free_pilot import flat, on, typed
from textual.widgets import Button

from console.core import transition_live, transition_next
from console.core.views import parse
from console.remote.errors import AgentError
from console.tui.screens.confirm import ConfirmScreen
from console.tui.screens.free_gpus import FreeGpusScreen
from console.tui.screens.gpus_held import GpusHeldScreen
from console.tui.screens.transition_confirm import TransitionConfirmScreen
from console.tui.screens.transition_live import TransitionLiveScreen
from console.tui.screens.transition_plan import TransitionPlanScreen
from console.tui.screens.transition_receipt import TransitionReceiptScreen
from pipeline.contract import transition


def host(frame: dict[str, Any], runs: bool = False, receipt: Any = None, **options: Any) -> Fixture:
    def read(fields: dict[str, Any]) -> Any:
        return {
            "value": {"receipt": receipt, "events": frame.get("actions", {}).get(transition.ACTION, {}).get("events") or way.events()}.get(
                fields["what"], SETTINGS
            )
        }

    def prepare(link: FakeLink) -> None:
        link.answers["read"] = read
        link.answers["transition.plan"] = lambda fields: {"plan": way.plan(runs, service=fields["service"] or way.SERVICE)}

    return Fixture(frames=[frame], prepare=prepare, **options)


async def planned(pilot: Any) -> TransitionPlanScreen:
    await pilot.press("greater_than_sign")
    screen = await on(pilot, TransitionPlanScreen)
    await until(pilot, lambda: screen.plan is not None)
    await redraw(pilot)
    return screen


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_now_from_the_key_to_the_receipt(state_home: Path, size: tuple[int, int]) -> None:
    receipt = way.receipt()
    fixture = host(way.frame(), receipt=receipt)
    async with showing(fixture, *size) as pilot:
        screen = await planned(pilot)
        (asked,) = fixture.link.ops("transition.plan")
        assert (asked["from"], [one["stage"] for one in asked["stages"]], asked["service"]) == ("generate", list(way.STAGES), None)
        text = flat(await redraw(pilot))
        assert "✓ OUTPUT" in text and f"stops {way.SERVICE}" in text and "[ Now... ]" in text and "[ Receipt ]" in text
        assert screen.query_one("#choice-armed", Button).disabled, "generate has ended: there is nothing to wait for"
        await pilot.press("tab", "enter")
        question = await on(pilot, TransitionConfirmScreen)
        assert pilot.app.focused is question.query_one("#choice-cancel", Button) and question.query_one("#choice-yes", Button).disabled
        assert way.PHRASE in await redraw(pilot)
        await typed(pilot, way.PHRASE)
        live = await on(pilot, TransitionLiveScreen)
        await until(pilot, lambda: fixture.link.ops("launch"))
        (launched,) = fixture.link.ops("launch")
        order = launched["order"]
        assert (launched["stage"], order["phrase"], order["armed"], order["plan"]) == (transition.ACTION, way.PHRASE, False, way.plan())
        fixture.link.feed(way.frame(way.action(attempt=launched["attempt"]), boot_s=scenes.NOW_S + 1))
        await until(pilot, lambda: len(live.events) == len(way.events()))
        text = flat(await redraw(pilot))
        assert "VERIFY 2 of 5 readings, 3 s left at most" in text and "✓ STOP_SERVER" in text
        fixture.link.feed(way.frame(way.ended(receipt, attempt=launched["attempt"]), boot_s=scenes.NOW_S + 2))
        await on(pilot, TransitionReceiptScreen)
        assert "extract: 1 new sample; hs_0 is whole" in await redraw(pilot)
        lines = [json.loads(line) for line in (state_home / "audit.jsonl").read_text().splitlines()]
        assert [(one["what"], one["phrase"], one["reply"]) for one in lines] == [
            ("transition", way.PHRASE, reply) for reply in (None, "RUNNING")
        ]
        assert not fixture.link.ops("stop")


async def test_armed_beforehand_is_shown_after_a_reconnect_and_disarmed() -> None:
    fixture = host(way.frame(runs=True), runs=True)
    async with showing(fixture) as pilot:
        screen = await planned(pilot)
        assert screen.query_one("#choice-now", Button).disabled
        await pilot.press("tab", "enter")
        await on(pilot, TransitionConfirmScreen)
        assert "once generate has ended verified" in flat(await redraw(pilot))
        await typed(pilot, way.PHRASE_ARMED)
        await on(pilot, TransitionLiveScreen)
        await until(pilot, lambda: fixture.link.ops("launch"))
        assert fixture.link.ops("launch")[0]["order"]["armed"] is True
    later = host(way.frame(way.action(armed=True), runs=True), runs=True)
    async with showing(later) as pilot:
        text = await redraw(pilot)
        assert "ARMED, t disarms: when generate is verified: prepare, vocab, stop k25" in text, "another console says the same"
        await pilot.press("greater_than_sign")
        await on(pilot, TransitionLiveScreen)
        text = flat(await redraw(pilot))
        assert "ARMED, generate is RUNNING" in text and "▶ ARMED" in text and "until generate has ended verified" in text
        await pilot.press("tab", "enter")
        await until(pilot, lambda: later.link.ops("stop"))
        (stopped,) = later.link.ops("stop")
        assert (stopped["stage"], stopped["attempt"]) == (transition.ACTION, way.ACTION)
        assert not later.link.ops("launch") and not later.link.ops("transition.plan")


async def test_nothing_but_the_whole_phrase_begins_it() -> None:
    fixture = host(way.frame())
    async with showing(fixture) as pilot:
        await planned(pilot)
        await pilot.press("tab", "enter")
        await on(pilot, TransitionConfirmScreen)
        await typed(pilot, way.PHRASE_ARMED)
        await redraw(pilot)
        assert isinstance(pilot.app.screen, TransitionConfirmScreen) and not fixture.link.ops("launch")
        await pilot.press("escape")
        await on(pilot, TransitionPlanScreen)
        assert not fixture.link.ops("launch")


async def test_an_alert_stays_on_the_dashboard_and_the_key_resumes() -> None:
    stopped = way.receipt(stopped=True)
    fixture = host(way.frame(way.ended(stopped)), receipt=stopped)
    async with showing(fixture, 120, 40) as pilot:
        assert "ALERT, t shows it: the transition stopped at HOLDERS: GPU 3 is held by 5150 anna" in await redraw(pilot)
        await pilot.press("t")
        await on(pilot, TransitionReceiptScreen)
        text = flat(await redraw(pilot))
        assert "NOT HOLDERS" in text and "the next transition resumes at HOLDERS" in text and "ALERT" in text
        await pilot.press("tab", "enter")
        await on(pilot, TransitionPlanScreen)
        assert "last time" in flat(await redraw(pilot))


async def test_another_service_can_be_named_as_the_one_to_stop() -> None:
    foreign = way.plan(service="vllm-k25.service")
    here = way.plan(free={**way.plan()["free"], "services": [{"how": "systemd", "name": "vllm-k25.service"}]})
    fixture = host(way.frame())
    async with showing(fixture) as pilot:
        fixture.link.answers["transition.plan"] = lambda fields: {"plan": foreign if fields["service"] else here}
        screen = await planned(pilot)
        assert "also on the GPUs: vllm-k25.service" in flat(await redraw(pilot))
        await pilot.press("v")
        await until(pilot, lambda: screen.plan is not None and screen.plan.service == "vllm-k25.service")
        assert fixture.link.ops("transition.plan")[1]["service"] == "vllm-k25.service"


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("generate", "stopped, generate is not verified: that disarms it, and none of it is done"),
        ("serve", "generate cannot be verified without it: if generate ends otherwise, that disarms it"),
        ("vocab", "it stays armed"),
    ],
)
def test_what_a_stop_means_for_one_that_is_armed(stage: str, words: str) -> None:
    view = parse(way.frame(way.action(armed=True), runs=True))
    said = transition_live.met_by_stop(view, scenes.RUN, stage)
    assert said == f"a transition is ARMED (when generate is verified: prepare, vocab, stop {way.SERVICE}, extract); {words}"
    assert transition_live.met_by_stop(view, "other", stage) == transition_live.met_by_stop(parse(way.frame()), scenes.RUN, stage) == ""
    assert "is under way (VERIFY); it stops where" in transition_live.met_by_stop(parse(way.frame(way.action())), scenes.RUN, stage)


async def test_the_stop_dialog_tells_of_an_armed_one() -> None:
    async with showing(host(way.frame(way.action(armed=True), runs=True)), 120, 40) as pilot:
        await pilot.press("X")
        await redraw(pilot)
        await pilot.press("enter")
        await on(pilot, ConfirmScreen)
        assert "a transition is ARMED (when generate is verified: " in flat(await redraw(pilot))


async def test_read_only_takes_it_away() -> None:
    fixture = host(way.frame(way.action(armed=True), runs=True), read_only=True)
    async with showing(fixture) as pilot:
        assert "ARMED, t disarms: " in await redraw(pilot)
        await pilot.press("greater_than_sign")
        await redraw(pilot)
        assert len(pilot.app.screen_stack) == 1
        await pilot.press("t")
        live = await on(pilot, TransitionLiveScreen)
        await redraw(pilot)
        assert live.query_one("#choice-cancel", Button).disabled, "who only looks sees it, and cannot disarm it"


async def test_the_hosts_gate_is_shown_with_the_holders_and_f_frees() -> None:
    line = "extract needs its GPUs verified free: NOT FREE: GPU 3 NOT FREE: held by 5150 anna python train.py"
    fixture = host(scenes.ready()[0])
    async with showing(fixture) as pilot:
        fixture.link.answers["launch"] = AgentError("gpus", line, "free the GPUs first; an override needs a reason, which is logged")
        await pilot.press("greater_than_sign")
        await on(pilot, ConfirmScreen)
        await pilot.press("tab", "enter")
        await on(pilot, GpusHeldScreen)
        (asked,) = fixture.link.ops("launch")
        assert asked["override"] is None, "the screen sends none"
        text = flat(await redraw(pilot))
        assert "5150 anna python train.py" in text and "extract was not started" in text
        await pilot.press("F")
        await on(pilot, FreeGpusScreen)


def test_which_transition_is_next() -> None:
    def at(stages: dict[str, Any], before: str | None = None, **changes: Any) -> Any:
        return transition_next.of(parse(scenes.frame(stages=stages, **changes)), {}, before)

    assert at(way.stages(runs=True)) == ("generate", way.STAGES, True)
    assert at(way.stages(runs=False)) == ("generate", way.STAGES, False)
    assert at({"serve": way.server()}) == ("serve", ("generate", *way.STAGES), False)
    assert at(way.stages(runs=False), "serve").before == "serve"
    assert at(scenes.stages(), "vocab") == ("vocab", ("extract",), False)
    assert "nothing to go on from" in at({})
    assert at(scenes.stages(extract=scenes.attempt())) == "extract runs already"
    assert "nothing that needs the GPUs follows extract" in at(scenes.stages(), "extract")
    outdated = {**way.stages(runs=False)}
    outdated["generate"] = {**outdated["generate"], "outdated": "the prompts changed"}
    assert at(outdated, "generate") == "generate is OUTDATED: the prompts changed: there is nothing to go on from"
    assert transition_next.proposed(parse(scenes.ready()[0]), {}) is None, "nothing is to be stopped or waited for: a plain start"
    stopped = way.ended(way.receipt(stopped=True))
    found = transition_next.proposed(parse(scenes.frame(stages=scenes.stages(), actions={transition.ACTION: stopped})), {})
    assert found is not None and found.before == "generate", "what was stopped is resumed, though the server has gone"


def test_steps_of_freeing_are_told_within_theirs() -> None:
    told = transition_live.steps(way.events())
    assert [(one.name, one.inner, one.result is None) for one in told][-3:] == [
        ("FREE", False, True), ("SURVEY", True, False), ("VERIFY", True, True),
    ]  # fmt: skip
    assert [one.name for one in told if one.state == "proven"] == ["OUTPUT", "STAGE", "HOLDERS", "STOP_SERVER"]
