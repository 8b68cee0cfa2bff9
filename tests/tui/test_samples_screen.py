"""The samples, read while they are made: what is shown of each, the ways between them, and nothing of their text that acts."""

from typing import Any

import data_scenes
import pytest
import scenes
from fakes import FakeLink, Fixture, app_of, painted, redraw, showing, until
from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets import Button

from console.core import sanitize
from console.remote.errors import AgentError
from console.tui.screens.samples import SamplesScreen

EVIL = "\x1b[2J\x1b]52;c;b3duZWQ=\x07[bold]x[/bold] [@click=app.quit]q[/] \u202egnp\u200b\ud800 日本語 <|im_end|> " + "y" * 400


def answering(count: int = 10, **changes: Any) -> Fixture:
    """A host that has ``count`` samples of 1,000 bytes."""

    def reply(fields: dict[str, Any]) -> dict[str, Any]:
        offset, last = fields["offset"], count - 1
        number = {"last": last, "first": 0}.get(fields["direction"], 0)
        if fields["direction"] in ("next", "previous"):
            number = offset // 1000 if fields["direction"] == "next" else offset // 1000 - 1
        none = number < 0 or number > last
        one = data_scenes.sample(min(max(number, 0), last), **changes)
        return {**one, "sample": None, "end": one["end"]} if none else one

    return Fixture(frames=data_scenes.generating(), prepare=lambda link: link.answers.update(sample=reply))


async def opened(pilot: Pilot[Any]) -> str:
    await pilot.press("s")
    await until(pilot, lambda: isinstance(pilot.app.screen, SamplesScreen))
    await until(pilot, lambda: "perfectblend" in text(pilot))
    return await redraw(pilot)


def text(pilot: Pilot[Any]) -> str:
    return "\n".join(painted(app_of(pilot)))


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_sample_shows_its_parts_its_special_tokens_and_what_the_loss_is_taken_on(size: tuple[int, int]) -> None:
    async with showing(answering(), *size) as pilot:
        shown = await opened(pilot)
        for words in (
            "perfectblend-00009  train  finish stop  ids match ✓", "prompt 133, response 1,970 tokens", "prompt: no loss",
            "reasoning: the loss is taken on it", "answer: the loss is taken on it", "⟦<|im_user|>⟧user↵", "▌⟦<think>⟧The user asks",
            "please.␛ <202E>right to", "▌written, read, verified.⟦<|im_end|>⟧", "▌ the loss is taken on this", "[ r raw ]",
        ):  # fmt: skip
            assert words in shown, words
        lines = shown.splitlines()
        lossy = [line for line in lines if "│ ▌" in line]
        assert not any("im_user" in line or "Be brief" in line for line in lossy), "the prompt has no mark"
        assert len(lines) == size[1] and all(cell_len(line) == size[0] for line in lines)


async def test_the_keys_go_to_older_newer_first_and_newest_and_the_ends_say_so() -> None:
    fixture = answering()
    async with showing(fixture) as pilot:
        await opened(pilot)
        await pilot.press("left", "left")
        await until(pilot, lambda: "perfectblend-00007" in text(pilot) and "standing still" in text(pilot))
        await pilot.press("right")
        await until(pilot, lambda: "perfectblend-00008" in text(pilot))
        await pilot.press("home")
        await until(pilot, lambda: "perfectblend-00000" in text(pilot))
        await pilot.press("left")
        await until(pilot, lambda: "there is no older one" in text(pilot) and "perfectblend-00000" in text(pilot))
        await pilot.press("end")
        await until(pilot, lambda: "perfectblend-00009" in text(pilot) and "newest, followed" in text(pilot))
        asked = [(one["direction"], one["offset"]) for one in fixture.link.ops("sample")]
        assert ("previous", 9000) in asked and ("next", 8000) in asked and ("first", None) in asked


async def test_the_newest_is_followed_until_somebody_reads_and_buttons_do_what_keys_do() -> None:
    long = [["response", "\n".join(f"row {number}" for number in range(200))]]
    fixture = answering(view=long)
    async with showing(fixture) as pilot:
        await opened(pilot)
        frame = data_scenes.generating()[-1]
        for more in (1, 2):
            before = len(fixture.link.ops("sample"))
            frame = {**frame, "boot_s": frame["boot_s"] + 1}
            told = frame["stages"]["generate"]["progress"]
            frame["stages"]["generate"]["progress"] = {**told, "done": told["done"] + more}
            fixture.link.feed(frame)
            await until(pilot, lambda asked=before: len(fixture.link.ops("sample")) > asked)
        await pilot.press("pagedown")
        await until(pilot, lambda: "standing still" in text(pilot) and "row 10" in text(pilot))
        await pilot.click("#choice-follow")
        await until(pilot, lambda: "newest, followed" in text(pilot))
        await pilot.click("#choice-raw")
        await until(pilot, lambda: '"finish_reason": "stop"' in text(pilot))
        await pilot.click("#choice-holdout")
        await until(pilot, lambda: any(one["which"] == "holdout" for one in fixture.link.ops("sample")))
        assert "held-out answers" in await redraw(pilot)
        assert len(pilot.app.screen.query(Button)) == 7
        await pilot.press("x")
        await until(pilot, lambda: any(one["which"] == "failed" for one in fixture.link.ops("sample")))
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)


async def test_without_anything_new_the_newest_is_hardly_asked_for() -> None:
    fixture = answering()
    async with showing(fixture) as pilot:
        await opened(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, SamplesScreen)
        before, ticks = len(fixture.link.ops("sample")), screen._ticks
        await until(pilot, lambda: (app_of(pilot).tick(), screen._ticks > ticks + 40)[1])
        assert 0 < len(fixture.link.ops("sample")) - before <= (screen._ticks - ticks) // 20 + 1


async def test_what_is_wrong_with_a_sample_is_marked() -> None:
    mismatch = {"part": "response", "position": 412, "server_id": 163_586, "template_id": 11}
    fixture = answering(finish_reason="length", ids_match=False, mismatch=mismatch, view_cut_chars=70_000)
    async with showing(fixture, 120, 40) as pilot:
        shown = await opened(pilot)
        assert "!finish length" in shown and "!ids differ in the response at 412: 163,586 for 11" in shown
        assert "70,000 characters not shown" in shown


async def test_a_held_out_sample_is_never_said_to_be_trained_on() -> None:
    async with showing(answering(split="holdout")) as pilot:
        shown = await opened(pilot)
        assert "held out, never trained on" in shown and "the loss is taken on it" not in shown


@pytest.mark.parametrize("kind", ["prompt", "prompt_special", "response", "response_special"])
async def test_hostile_text_is_only_shown(kind: str) -> None:
    fixture = answering(id=f"perfectblend {EVIL}", view=[["prompt", "x\n"], [kind, EVIL * 3], ["response", EVIL]], reason=EVIL, detail=EVIL)
    async with showing(fixture, 100, 30) as pilot:
        await opened(pilot)
        for key in ("r", "down", "r"):
            await pilot.press(key)
            await redraw(pilot)
            for line in painted(app_of(pilot)):
                assert sanitize.is_safe(line), repr(line)
        assert app_of(pilot).is_running


async def test_the_gate_says_why_there_is_nothing_to_read() -> None:
    async with showing(Fixture(frames=scenes.nothing_ran())) as pilot:
        await pilot.press("s")
        await until(pilot, lambda: any("generate has not run" in one.message for one in pilot.app._notifications))
        assert len(pilot.app.screen_stack) == 1


async def test_a_host_that_has_none_or_cannot_read_says_so_in_its_own_words() -> None:
    def prepare(link: FakeLink) -> None:
        link.answers["sample"] = AgentError("missing", "no prompt has been answered yet")

    async with showing(Fixture(frames=data_scenes.generating(), prepare=prepare)) as pilot:
        await pilot.press("s")
        await until(pilot, lambda: "no prompt has been answered yet" in text(pilot))
        await pilot.press("left", "home", "r", "h", "escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)


async def test_lines_that_cannot_be_read_are_passed_over_by_asking_again() -> None:
    def reply(fields: dict[str, Any]) -> dict[str, Any]:
        if fields["direction"] == "previous" and fields["offset"] > 3000:  # a long line: this request came no further
            return {**data_scenes.sample(1), "sample": None, "offset": fields["offset"] - 3000, "end": fields["offset"]}
        return data_scenes.sample(2 if fields["direction"] == "previous" else 9)

    fixture = Fixture(frames=data_scenes.generating(), prepare=lambda link: link.answers.update(sample=reply))
    async with showing(fixture) as pilot:
        await opened(pilot)
        await pilot.press("left")
        await until(pilot, lambda: "perfectblend-00002" in text(pilot))
        assert [one["offset"] for one in fixture.link.ops("sample") if one["direction"] == "previous"] == [9000, 6000, 3000]
