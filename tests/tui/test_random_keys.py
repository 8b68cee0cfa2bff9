"""Five thousand random keys, and clicks: nothing is started or stopped unless its question was answered with its own button."""

import random
from typing import Any

import pytest
import scenes
from fakes import Fixture, app_of, redraw, showing
from textual.pilot import Pilot

from console.tui.screens.confirm import ConfirmScreen

KEYS = [
    *"abcdefghijklmnoprstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "greater_than_sign", "slash", "colon", "question_mark", "space",
    "enter", "escape", "escape", "escape", "backspace", "delete", "up", "down", "left", "right", "pageup", "pagedown", "home", "end",
    "tab", "shift+tab", "f1", "ctrl+p", "ctrl+s", "ctrl+c", "ctrl+a", "ctrl+d", "ctrl+u", "ctrl+z", "alt+x", "é", "日",
]  # fmt: skip
"""All but those that leave."""
STILL = [key for key in KEYS if key not in ("tab", "shift+tab", "left", "right", "up", "down")]
"""Keys that do not move the focus: with these no question can be answered with yes."""


async def press_many(pilot: Pilot[Any], fixture: Fixture, keys: list[str], count: int, seed: int) -> None:
    pick = random.Random(seed)
    moving = [scenes.steady()[-1], scenes.nothing_ran()[0], scenes.crashed(), scenes.done(), scenes.second()[-1]]
    for number in range(count):
        if number % 50 == 0:
            fixture.link.feed({**pick.choice(moving), "boot_s": scenes.NOW_S + number})
            fixture.link.log(f"{number} [/x]\n" * 20)
        if pick.random() < 0.02:
            await pilot.click(offset=(pick.randrange(80), pick.randrange(24)))
        await pilot.press(pick.choice(keys))
        if not app_of(pilot).is_running or app_of(pilot)._exit:
            return


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Every answer to a question, in order."""
    answers: list[bool] = []
    real = ConfirmScreen.dismiss

    def dismiss(screen: ConfirmScreen, result: bool | None = None) -> Any:
        answers.append(bool(result))
        return real(screen, result)

    monkeypatch.setattr(ConfirmScreen, "dismiss", dismiss)
    return answers


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
async def test_random_keys_do_nothing_on_the_host_without_a_confirmation(seed: int, answered: list[bool]) -> None:
    fixture = Fixture(frames=scenes.nothing_ran())
    async with showing(fixture) as pilot:
        app_of(pilot).leave = lambda: None  # type: ignore[method-assign]
        await press_many(pilot, fixture, KEYS, 1500, seed)
        assert app_of(pilot).is_running
        await redraw(pilot)
        asked = (
            len(fixture.link.ops("launch")) + len(fixture.link.ops("stop")) + sum(one["take_over"] for one in fixture.link.ops("control"))
        )
        assert asked <= sum(answered), "each one was confirmed"


@pytest.mark.timeout(600)
async def test_keys_that_do_not_move_the_focus_never_act(answered: list[bool]) -> None:
    fixture = Fixture(frames=scenes.steady())
    async with showing(fixture) as pilot:
        app_of(pilot).leave = lambda: None  # type: ignore[method-assign]
        pick = random.Random(3)
        for number in range(2000):
            if number % 40 == 0:
                fixture.link.feed({**pick.choice([scenes.steady()[-1], scenes.nothing_ran()[0]]), "boot_s": scenes.NOW_S + number})
            await pilot.press(pick.choice(STILL))
        assert answered and not any(answered), "questions were asked, and none was answered with yes"
        assert not fixture.link.ops("launch") and not fixture.link.ops("stop")
