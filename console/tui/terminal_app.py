"""What every app of ours owes to the terminal that it runs in: its glyphs and colours, and to leave when it has gone."""

import asyncio
import signal
from collections.abc import Callable
from typing import TypeVar

from textual.app import App
from textual.filter import LineFilter, NoColor

from console.tui import terminal, themes

Result = TypeVar("Result")


class TerminalApp(App[Result]):
    """Without animations, in one of our themes; ``ascii_only``: no other glyphs."""

    def __init__(self, theme: str, ascii_only: bool) -> None:
        super().__init__()
        self.animation_level = "none"
        self._ascii_only = ascii_only
        for one in themes.themes():
            self.register_theme(one)
        self.theme = theme

    def get_line_filters(self) -> list[LineFilter]:
        filters: list[LineFilter] = [NoColor()] if self.theme == "mono" else list(super().get_line_filters())
        return [*filters, themes.AsciiOnly()] if self._ascii_only else filters

    def leave_with_terminal(self, leave: Callable[[], object]) -> None:
        """Call ``leave`` on SIGHUP, on SIGTERM, and once the terminal has gone, so that it is given back in order. Needs the event loop."""
        if self.is_headless:
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGHUP, signal.SIGTERM):
            loop.add_signal_handler(number, leave)
        terminal.watch(lambda: loop.call_soon_threadsafe(leave))
