"""What was done to hosts, newest first: by this machine, out of the audit log here; and on the host by anybody, out of the one there."""

import json
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from textual.content import Content

from console.core import audit_words, reading, sanitize
from console.core.clocks import clock
from console.tui.draw import MUTED, STRONG
from console.tui.screens.card import Card, Choice
from console.tui.state import ConsoleState
from pipeline.errors import StageError

_LINES = 200
_BYTES = 256 << 10
HERE, THERE = "here", "there"


class AuditScreen(Card[None]):
    """The log of this machine is read when it opens; that of the host when it is asked for."""

    def __init__(self, state: ConsoleState, path: Path, ask_host: Callable[[], Awaitable[list[dict[str, Any]]]]) -> None:
        super().__init__(state)
        self._path, self._ask_host = path, ask_host
        self._here = audit_lines(path, state)
        self._there: list[Content] = []
        self._shown_side = HERE

    def heading(self) -> str:
        return f"Audit log of {self.state.host}" if self._shown_side == THERE else f"Audit log of this machine: {self._path}"

    def body(self) -> Sequence[Content]:
        return self._there if self._shown_side == THERE else self._here

    def choices(self) -> Sequence[Choice]:
        return (Choice("close", "Close"), Choice(HERE, "Of this machine"), Choice(THERE, "Of the host"))

    def chosen(self, choice: str) -> None:
        if choice not in (HERE, THERE):
            self.dismiss(None)
            return
        self._shown_side = choice
        if choice == THERE:
            self._there = [Content.styled(" asking the host", MUTED)]
            self.run_worker(self._read_there(), exclusive=True, exit_on_error=False)
        self._draw_again()

    async def _read_there(self) -> None:
        try:
            self._there = lines_of(await self._ask_host(), self.state)
        except StageError as error:
            self._there = [Content.styled(f" it cannot be read: {error}", MUTED)]
        if self.query("#body"):  # else it was closed meanwhile
            self._draw_again()

    def _draw_again(self) -> None:
        self.query_one("#sheet").border_title = Content(sanitize.line(self.heading(), 200))  # type: ignore[assignment]
        self.tick()


def audit_lines(path: Path, state: ConsoleState) -> list[Content]:
    """The newest entries, newest first. Lines that are no entries are left out."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _BYTES))
            raw = file.read().splitlines()
    except FileNotFoundError:
        return [Content.styled(" nothing was done from this machine yet", MUTED)]
    except OSError as error:
        return [Content.styled(f" it cannot be read: {error.strerror}", MUTED)]
    entries = [entry for line in raw[-_LINES:] if (entry := _entry(line)) is not None]
    return lines_of(entries, state) if entries else [Content.styled(" nothing was done from this machine yet", MUTED)]


def lines_of(entries: Sequence[dict[str, Any]], state: ConsoleState) -> list[Content]:
    """A line each, the newest first."""
    return [_line(entry, state) for entry in reversed(entries[-_LINES:])] or [Content.styled(" nothing is on record yet", MUTED)]


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _line(entry: dict[str, Any], state: ConsoleState) -> Content:
    when = reading.number(entry, "wall_s")
    time = "time unknown" if when is None else clock(when, state.utc_offset_s, state.wall_s)
    told, host = audit_words.words(entry), reading.text(entry, "host")
    where = f" on {host}" if host else ""
    return Content.assemble(f" {time:<18}", (told.what or "?", STRONG), where, (f"  by {told.who or 'unknown'}: {told.text}", MUTED))
