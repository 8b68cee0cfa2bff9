"""Every key several times in random order, and clicks: nothing is started or stopped unless its question was answered with its button."""

import random
from typing import Any

import data_scenes
import pytest
import scenes
from fakes import Fixture, app_of, redraw, showing
from textual.pilot import Pilot

from console.tui.screens.confirm import ConfirmScreen, ReasonScreen

KEYS = [
    *"abcdefghijklmnoprstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "greater_than_sign", "slash", "colon", "question_mark", "space",
    "enter", "escape", "escape", "escape", "backspace", "delete", "up", "down", "left", "right", "pageup", "pagedown", "home", "end",
    "tab", "shift+tab", "f1", "ctrl+p", "ctrl+s", "ctrl+c", "ctrl+a", "ctrl+d", "ctrl+u", "ctrl+z", "alt+x", "é", "日",
]  # fmt: skip
"""All but those that leave."""
STILL = [key for key in KEYS if key not in ("tab", "shift+tab", "left", "right", "up", "down")]
"""Keys that do not move the focus: with these no question can be answered with yes."""


def shuffled(keys: list[str], rounds: int, seed: int) -> list[str]:
    """Every key once a round, each round in another order: so every action is tried in many states, with few keys."""
    pick = random.Random(seed)
    return [key for _ in range(rounds) for key in pick.sample(keys, len(keys))]


async def press_many(pilot: Pilot[Any], fixture: Fixture, keys: list[str], seed: int) -> None:
    pick = random.Random(seed)
    moving = [
        scenes.steady()[-1], scenes.nothing_ran()[0], scenes.crashed(), scenes.done(), scenes.second()[-1], scenes.ready()[0],
        data_scenes.generating()[-1], data_scenes.outdated()[0], data_scenes.foreign()[0],
    ]  # fmt: skip
    for number, key in enumerate(keys):
        if number % 20 == 0:
            fixture.link.feed({**pick.choice(moving), "boot_s": scenes.NOW_S + number})
            fixture.link.log(f"{number} [/x]\n" * 20)
        if pick.random() < 0.02:
            await pilot.click(offset=(pick.randrange(80), pick.randrange(24)))
        await pilot.press(key)
        if not app_of(pilot).is_running or app_of(pilot)._exit:
            return


def note(answers: list[bool], monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    real = kind.dismiss

    def dismiss(screen: Any, result: Any = None) -> Any:
        answers.append(bool(result))
        return real(screen, result)

    monkeypatch.setattr(kind, "dismiss", dismiss)


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Every answer to a question, in order."""
    answers: list[bool] = []
    note(answers, monkeypatch, ConfirmScreen)
    note(answers, monkeypatch, ReasonScreen)
    return answers


@pytest.mark.parametrize("seed", [1, 2])
async def test_random_keys_do_nothing_on_the_host_without_a_confirmation(seed: int, answered: list[bool]) -> None:
    fixture = Fixture(frames=scenes.nothing_ran())
    async with showing(fixture) as pilot:
        app_of(pilot).leave = lambda: None  # type: ignore[method-assign]
        await press_many(pilot, fixture, shuffled(KEYS, 3, seed), seed)
        assert app_of(pilot).is_running
        await redraw(pilot)
        asked = (
            len(fixture.link.ops("launch")) + len(fixture.link.ops("stop")) + sum(one["take_over"] for one in fixture.link.ops("control"))
        )
        assert asked <= sum(answered), "each one was confirmed"


async def test_keys_that_do_not_move_the_focus_never_act(answered: list[bool]) -> None:
    fixture = Fixture(frames=scenes.steady())
    async with showing(fixture) as pilot:
        app_of(pilot).leave = lambda: None  # type: ignore[method-assign]
        pick = random.Random(3)
        for number, key in enumerate(shuffled(STILL, 3, 5)):
            if number % 20 == 0:
                fixture.link.feed({**pick.choice([scenes.steady()[-1], scenes.ready()[0]]), "boot_s": scenes.NOW_S + number})
            await pilot.press(key)
        assert answered and not any(answered), "questions were asked, and none was answered with yes"
        assert not fixture.link.ops("launch") and not fixture.link.ops("stop")
