"""What is said of a stage agrees wherever it is said, and a launch says before what it does with what is there."""

from typing import Any

import data_scenes
import pytest
import scenes
from fakes import Fixture, confirm, redraw, showing, state_of, until

from console.tui import again, words
from console.tui.draw import GOOD
from console.tui.screens.details import details
from console.tui.screens.done import ended_lines
from console.tui.screens.evidence_facts import fact_lines
from console.tui.screens.samples import SamplesScreen
from console.tui.state import ConsoleState, RunSettings
from console.tui.widgets.evidence import verified
from console.tui.widgets.footer import footer
from console.tui.widgets.progress import progress
from pipeline.contract.stages import STAGES


def said(state: ConsoleState, stage: str) -> dict[str, str]:
    """By place, what the screen says of a stage."""
    one = state.store.attempt(stage)
    assert one is not None
    state.looked_at = stage
    return {
        "strip": words.cell(state, STAGES[stage], words.ROOMY)[0],
        "block": "\n".join(line.plain for line in progress(state, one, 120)),
        "details": "\n".join(line.plain for line in details(state, stage)),
        "evidence": "\n".join(line.plain for line in fact_lines(state)),
        "card": "\n".join(line.plain for line in ended_lines(state, one)),
        "verified": verified(state, 120).plain,
    }


def test_an_outdated_output_is_outdated_in_every_place() -> None:
    state = state_of(data_scenes.outdated()[0])
    for place, text in said(state, "prepare").items():
        assert "OUTDATED" in text, place
    assert not any(span.style == GOOD for span in verified(state, 120).spans)


def test_a_refused_launch_is_told_beside_what_is_there() -> None:
    told = said(state_of(data_scenes.refused_launch()[0]), "vocab")
    assert told.pop("strip") == "vocab ✓98.3%" and "verified: every check passed" in told.pop("verified")
    assert told.pop("card")
    for place, text in told.items():
        assert "refused" in text and data_scenes.REFUSAL in text and "FAILED" not in text, place
    assert told["block"].startswith(" VOCAB done") and "next: > starts extract" in told["block"]


def test_a_refused_launch_with_nothing_before_it_is_refused_and_not_failed() -> None:
    told = said(state_of(scenes.frame(stages={"vocab": data_scenes.refused()})), "vocab")
    assert told["strip"] == "✗vocab refused" and "nothing of an earlier attempt" in told["card"]
    assert not any("FAILED" in text for text in told.values())


@pytest.mark.parametrize("stage", ["generate", "prepare"])
def test_held_out_samples_are_told_in_one_way(stage: str) -> None:
    told = said(state_of(data_scenes.held_out()[0]), stage)
    for place in ("block", "details", "card"):
        assert "160 + 16 held out" in told[place], place
        assert "176" not in told[place] and "160/" not in told[place], place
    assert "176" not in told["verified"]


def test_facts_of_the_moment_end_with_the_attempt() -> None:
    for place, text in said(state_of(data_scenes.held_out()[0]), "generate").items():
        assert "in flight" not in text and "server up" not in text, place


def test_a_card_speaks_in_the_stages_words_and_not_in_keys() -> None:
    told = said(state_of(data_scenes.held_out()[0]), "prepare")
    assert "150 train, 8 validation, 16 held out" in told["card"] and "!2 of 160 + 16 held out: 2 short" in told["card"]
    assert "train samples" not in told["card"] and "train samples" in told["details"], "the rest is under the details"


WHAT = {
    "prepare": ("all rows are made anew", "replace those that are there"),
    "vocab": ("counted anew", "replaces the one that is there"),
    "generate": ("else it refuses", "move /data/x away before, or name another generate.output"),
    "extract": ("It refuses to mix them with others, and touches nothing", "name another extract.output"),
}


@pytest.mark.parametrize("stage", list(WHAT))
def test_before_an_outdated_stage_is_started_again_it_is_said_what_that_does(stage: str) -> None:
    one = {**scenes.ended(stage, 1), "outdated": "made of another output than the present one"}
    state = state_of(scenes.frame(stages={stage: one}))
    attempt = state.store.attempt(stage)
    assert attempt is not None
    text = again.what_happens(state, attempt, ["/data/x"])
    assert all(part in text for part in WHAT[stage]) and "only the rest is made" not in text


async def test_the_dialog_says_it() -> None:
    async with showing(Fixture(frames=data_scenes.outdated())) as pilot:
        await pilot.press("greater_than_sign")
        text = " ".join((await confirm(pilot)).replace("│", " ").split())
        assert "it is OUTDATED: all rows are made anew of the present answers" in text


@pytest.mark.parametrize(("scene", "there"), [
    (scenes.steady, ["S start", "X stop", "d details"]), (scenes.ready, ["> next", "S start", "d details"]),
    (data_scenes.generating, ["S start", "X stop", "d details"]),
])  # fmt: skip
def test_the_keys_that_can_be_used_come_first_and_help_always(scene: Any, there: list[str]) -> None:
    state = state_of(scene()[-1])
    text = footer(state, 80)[0].plain
    assert all(one in text for one in there) and "? help" in text and len(text) <= 80
    for width in range(20, 140):
        content, places = footer(state, width)
        assert "? help" in content.plain and "q quit" in content.plain and content.cell_length <= width
        for start, end, action in places:
            assert content.plain[start:end].strip() == content.plain[start:end] and action


async def test_prompts_that_were_given_up_are_shown_with_their_messages() -> None:
    shown = {"id": "p-7", "reason": "timeout", "detail": "600 s", "tries": 3, "view": [["prompt", "user: A haiku about disks, please."]]}
    fixture = Fixture(frames=data_scenes.held_out())

    def answer(fields: dict[str, Any]) -> dict[str, Any]:
        return {**data_scenes.sample(), "sample": shown} if fields["which"] == "failed" else data_scenes.sample()

    fixture.prepare = lambda link: link.answers.update(sample=answer)
    async with showing(fixture) as pilot:
        await pilot.press("s")
        await until(pilot, lambda: isinstance(pilot.app.screen, SamplesScreen))
        assert "answers of 160 + 16 held out" in await redraw(pilot)
        await pilot.press("x")
        await until(pilot, lambda: bool([one for one in fixture.link.ops("sample") if one["which"] == "failed"]))
        await pilot.pause()
        text = await redraw(pilot)
        assert "given up: timeout 600 s" in text and "user: A haiku about disks, please." in text


def test_the_sheet_has_a_line_a_fact_and_a_line_a_setting() -> None:
    state = state_of(data_scenes.generating()[-1])
    state.settings = RunSettings("", {"generate": {"prompts": "shipped", "max_response_tokens": 8192, "require_reasoning": False}})
    lines = [line.plain for line in details(state, "generate")]
    start = next(number for number, line in enumerate(lines) if line.lstrip().startswith("counted"))
    assert [line.split()[-2:] for line in lines[start : start + 2]] == [["reasoning", "100%"], ["truncated", "17"]]
    assert lines[start + 2].split()[:2] == ["failed", "!3"] and lines[start + 3].split() == ["ids", "differ", "!2"]
    start = next(number for number, line in enumerate(lines) if line.lstrip().startswith("settings"))
    assert [line.split() for line in lines[start : start + 3]] == [
        ["settings", "prompts", "shipped"], ["max_response_tokens", "8192"], ["require_reasoning", "no"],
    ]  # fmt: skip
