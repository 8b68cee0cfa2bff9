"""Every size from 20x5 to 200x60, while frames, log and sheets are busy; and resizing in the middle."""

import random
from typing import Any

import pytest
import scenes
from fakes import Fixture, app_of, redraw, showing
from rich.cells import cell_len
from textual.pilot import Pilot

from console.remote.state import LinkStatus
from console.tui.layout import plan

SIZES = [(20, 5), (20, 24), (33, 9), (40, 12), (60, 15), (79, 23), (80, 24), (81, 25), (100, 30), (120, 40), (200, 5), (20, 60), (200, 60)]


async def busy(pilot: Pilot[Any], fixture: Fixture) -> None:
    """Whatever the operator may open, while everything moves."""
    for number, key in enumerate(("l", "e", "question_mark", "d", "F", "A", "X", "colon", "slash", "o", "s")):
        fixture.link.log(f"line {number} [/not markup] {'x' * 300}\n" * 50, offset=0)
        fixture.link.feed(scenes.frame(scenes.NOW_S + number + 1))
        await pilot.press(key)
        await redraw(pilot)
        await pilot.press("escape")
    fixture.link.now = LinkStatus("RECONNECTING", 99.0, 2, 3.0, "lost " * 60)
    await redraw(pilot)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_it_works_at_this_size_while_busy(size: tuple[int, int]) -> None:
    fixture = Fixture(frames=scenes.steady(), log=scenes.LOG)
    async with showing(fixture, *size) as pilot:
        lines = (await redraw(pilot)).splitlines()
        assert len(lines) == size[1] and all(cell_len(line) == size[0] for line in lines)
        assert "root@gpu-host" in lines[0]
        assert any("EXTRACT" in line for line in lines)
        assert "quit" in lines[-1] or size[0] < 30
        await busy(pilot, fixture)
        assert app_of(pilot).is_running and not app_of(pilot)._exception


async def test_it_follows_a_terminal_that_is_dragged_around() -> None:
    fixture = Fixture(frames=scenes.steady(), log=scenes.LOG)
    pick = random.Random(7)
    async with showing(fixture) as pilot:
        for _ in range(25):
            width, height = pick.randint(1, 200), pick.randint(1, 60)
            await pilot.resize_terminal(width, height)
            if pick.random() < 0.3:
                await pilot.press(pick.choice(["e", "d", "question_mark", "escape", "F"]))
            await redraw(pilot)
        await pilot.press("escape", "escape")
        await pilot.resize_terminal(80, 24)
        lines = (await redraw(pilot)).splitlines()
        assert len(lines) == 24 and "LIVE" in lines[0] and "EXTRACT STEADY" in "\n".join(lines)


@pytest.mark.parametrize("height", range(1, 61))
@pytest.mark.parametrize("banner", [0, 2, 4])
@pytest.mark.parametrize("gpus", [1, 8, 16])
def test_the_plan_uses_every_line_and_no_more(height: int, banner: int, gpus: int) -> None:
    chosen = plan(height, banner, gpus)
    used = 1 + sum(chosen)
    assert used == height
    assert height < 3 or chosen.progress >= 1, "what runs is never left out"


def test_at_24_lines_all_eight_gpus_and_six_lines_of_log_are_seen() -> None:
    chosen = plan(24, 0, 8)
    assert (chosen.gpus, chosen.progress, chosen.log) == (9, 3, 6)
    assert plan(24, 2, 8).gpus == 9, "also while a banner is up"


async def test_wider_shows_more_not_other_things() -> None:
    async def words(width: int, height: int) -> set[str]:
        async with showing(Fixture(frames=scenes.steady(), log=scenes.LOG), width, height) as pilot:
            text = await redraw(pilot)
            return {word for word in text.replace("›", " ").split() if not set(word) & set("█▉▊▋▌▍▎▏·─")}

    narrow, wide = await words(80, 24), await words(120, 40)
    assert narrow <= wide and len(wide) > len(narrow) + 20
