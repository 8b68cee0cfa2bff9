"""An app with nothing but a log pane, for the tests of it."""

import asyncio
from collections.abc import Callable
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.pilot import Pilot

from console.core.logring import LogRing
from console.tui.state import ConsoleState, LogSource
from console.tui.widgets.log_pane import LogPane


class Pane(App[None]):
    """Nothing but a log pane, with the keys that the console has for it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("G,end", "log_end", ""),
        ("slash", "find", ""),
        ("n", "go(-1)", ""),
        ("N", "go(1)", ""),
        ("f", "follow", ""),
    ]

    def __init__(self, ring: LogRing) -> None:
        super().__init__()
        self.state = ConsoleState("h", log_source=LogSource("extract", "a1"))
        self.state.ring = ring
        self.pane = LogPane(self.state)

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_mount(self) -> None:
        self.pane.tail.focus()
        self.set_interval(0.1, self.pane.tick)

    def action_log_end(self) -> None:
        self.pane.tail.log_end()

    def action_find(self) -> None:
        self.pane.ask()

    def action_go(self, step: int) -> None:
        self.pane.tail.search.go(step)

    def action_follow(self) -> None:
        self.pane.tail.toggle_follow()

    def screen_lines(self) -> list[str]:
        """Title and lines as painted."""
        return [strip.text.rstrip() for strip in self.screen._compositor.render_strips()]

    @property
    def title_line(self) -> str:
        return self.screen_lines()[0]

    @property
    def shown(self) -> list[str]:
        return self.screen_lines()[1:]


def filled(count: int, max_lines: int = 100, text: str = "line") -> LogRing:
    ring = LogRing(max_lines=max_lines)
    ring.feed("".join(f"{text} {number}\n" for number in range(count)))
    return ring


def more(ring: LogRing, start: int, count: int) -> None:
    ring.feed("".join(f"line {number}\n" for number in range(start, start + count)))


async def until(pilot: Pilot, condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await pilot.pause(0.02)


async def find(pilot: Pilot, text: str) -> None:
    await pilot.press("slash")
    await pilot.press("ctrl+u", *text, "enter")
