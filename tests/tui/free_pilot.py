"""A scripted host whose GPUs are to be freed, and the keys to get there."""

from typing import Any

import free_scenes
from fakes import SETTINGS, FakeLink, Fixture, redraw, until
from textual.pilot import Pilot
from textual.widgets import Input

from console.tui.screens.free_gpus import FreeGpusScreen

PHRASE = "free gpu-host 9 vllm-k25.service"


def host(at: dict[str, Any] | None = None, receipt: Any = None, plan: Any = None, **options: Any) -> Fixture:
    """What the host answers; ``receipt`` may be an error, ``plan`` a function."""

    def read(fields: dict[str, Any]) -> Any:
        if fields["what"] == "receipt" and isinstance(receipt, Exception):
            raise receipt
        return {"value": {"receipt": receipt, "events": free_scenes.events()}.get(fields["what"], SETTINGS)}

    def prepare(link: FakeLink) -> None:
        link.answers["read"] = read
        if plan is not None:
            link.answers["free.plan"] = plan

    return Fixture(frames=[free_scenes.frame(at)], prepare=prepare, **options)


async def on(pilot: Pilot[Any], screen: type) -> Any:
    await until(pilot, lambda: isinstance(pilot.app.screen, screen))
    await pilot.pause()
    return pilot.app.screen


async def planned(pilot: Pilot[Any]) -> FreeGpusScreen:
    """F, and the host has answered."""
    await pilot.press("F")
    screen = await on(pilot, FreeGpusScreen)
    await until(pilot, lambda: screen.plan is not None)
    await redraw(pilot)
    return screen


async def typed(pilot: Pilot[Any], words: str = PHRASE) -> None:
    """The phrase into its field, and Enter."""
    await pilot.press("tab")
    assert isinstance(pilot.app.focused, Input)
    await pilot.press(*("space" if one == " " else one for one in words), "enter")


def flat(text: str) -> str:
    """Without borders and line breaks."""
    return " ".join(text.replace("│", " ").split())


def attempt_of(fixture: Fixture) -> str:
    return fixture.link.ops("launch")[0]["attempt"]
