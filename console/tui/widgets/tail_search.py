"""The search of a log view: the pattern, the match that is shown, and what to say about it."""

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

from rich.cells import cell_len

from console.core import fmt, sanitize
from console.core.logsearch import Pattern, PatternError, Search

if TYPE_CHECKING:
    from console.tui.widgets.tail import TailView

OLDER, NEWER = -1, 1
_PAINT_SECONDS = 0.004
"""A pattern that takes longer on what is visible of one line is not highlighted any more."""
_MAX_KEPT = 500


class TailSearch:
    """Matching runs in a thread, on lines that do not change; a newer search ends the one before."""

    def __init__(self, view: "TailView") -> None:
        self._view = view
        self.pattern: Pattern | None = None
        self.found: int | None = None
        """Number of the line that the view stands at."""
        self.said = ""
        """How the search stands, in words; empty without one."""
        self._search: Search | None = None
        self._spans: dict[int, tuple[str, list[tuple[int, int]]]] = {}
        self._highlights = True

    @property
    def text(self) -> str:
        return self.pattern.text if self.pattern else ""

    @property
    def words(self) -> str:
        """``said``, or how far a running search is."""
        search = self._search
        return f"searching {search.looked * 100 // search.count}%" if search and search.count else self.said

    def find(self, text: str) -> None:
        """Look for the newest match at or above the last visible line. Without text: no search any more."""
        self.cancel()
        if not text:
            self._forget()
            self._view.refresh()
            return
        self._view.run_worker(partial(self._find, text), name="find", group="find", exclusive=True, exit_on_error=False)

    def go(self, step: int) -> None:
        """To the next match: OLDER or NEWER."""
        self.cancel()
        if self.pattern is not None:
            self._view.run_worker(partial(self._look, step), name="find", group="find", exclusive=True, exit_on_error=False)

    def restart(self) -> None:
        """The view shows other lines now: look for the same pattern in them."""
        self.found = None
        self._spans.clear()
        if self.text:
            self.find(self.text)

    def cancel(self) -> None:
        search, self._search = self._search, None
        if search is not None:
            search.cancel()

    def spans(self, number: int, seen: str) -> list[tuple[int, int]]:
        """Where the pattern is in the visible part of a line."""
        if self.pattern is None or not self._highlights:
            return []
        kept = self._spans.get(number)
        if kept is not None and kept[0] == seen:
            return kept[1]
        if len(self._spans) > _MAX_KEPT:
            self._spans.clear()
        started = time.perf_counter()
        spans = self.pattern.spans(seen)
        if time.perf_counter() - started > _PAINT_SECONDS:
            self._highlights = False
        self._spans[number] = (seen, spans)
        return spans

    async def _find(self, text: str) -> None:
        try:
            pattern = await asyncio.to_thread(Pattern, text)
        except PatternError as error:
            self._say(f"/{sanitize.line(text, 40)}: {error}")
            return
        self._forget()
        self.pattern = pattern
        self._view.state.pattern = text
        await self._look(OLDER, first=True)

    async def _look(self, step: int, first: bool = False) -> None:
        view = self._view
        if step == NEWER:
            view.hold_more()
        lines = view.lines()
        visible = self.found is not None and view.top <= self.found <= view.bottom
        start = self.found + step if visible and not first and self.found is not None else view.bottom if step == OLDER else view.top
        assert self.pattern is not None
        search = self._search = Search(self.pattern, lines, start, step)
        number = await asyncio.to_thread(search.run)
        if self._search is not search:
            return  # a newer one took its place
        self._search = None
        if number is None:
            self._say(f"/{self._shown()}: not in {fmt.count(search.count)} lines")
            return
        self.found = number
        other_side = (", past the oldest line" if step == OLDER else ", past the newest line") if search.wrapped else ""
        view.show_line(number, lines)
        self._say(f"/{self._shown()}: line {fmt.count(number + 1)}{other_side}")
        line = lines.line(number)
        spans = await asyncio.to_thread(self.pattern.spans, line)
        if spans:
            start, end = spans[0]
            view.sideways_to(cell_len(line[:start]), cell_len(line[start:end]))

    def _say(self, text: str) -> None:
        self.said = text
        self._view.post_message(self._view.Moved())

    def _shown(self) -> str:
        return sanitize.line(self.text, 40)

    def _forget(self) -> None:
        self.pattern = self.found = None
        self.said = self._view.state.pattern = ""
        self._spans.clear()
        self._highlights = True
