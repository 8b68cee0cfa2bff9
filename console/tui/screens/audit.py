"""What was done to hosts, newest first: by this machine, out of the audit log here; and on the host by anybody, out of the one there."""

import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from textual.content import Content

from console.core import audit_words, fmt, reading, sanitize
from console.core.audit_words import Log
from console.core.clocks import clock
from console.tui.draw import MUTED, STRONG, WARN
from console.tui.screens.card import Card, Choice
from console.tui.state import ConsoleState
from pipeline.errors import StageError

_BYTES = 256 << 10
HERE, THERE = "here", "there"


class AuditScreen(Card[None]):
    """The log of this machine is read when it opens; that of the host when it is asked for."""

    def __init__(self, state: ConsoleState, path: Path, ask_host: Callable[[], Awaitable[Log]]) -> None:
        super().__init__(state)
        self._path, self._ask_host = path, ask_host
        self._here = _read_here(path, state)
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
        else:
            self._here = _read_here(self._path, self.state)
        self._draw_again()

    async def _read_there(self) -> None:
        try:
            self._there = lines_of(await self._ask_host(), self.state, "nothing is on record on the host yet")
        except StageError as error:
            self._there = [Content.styled(f" it cannot be read: {error}", WARN)]
        if self.query("#body"):  # else it was closed meanwhile
            self._draw_again()

    def _draw_again(self) -> None:
        self.query_one("#sheet").border_title = Content(sanitize.line(self.heading(), 200))  # type: ignore[assignment]
        self.action_scroll(-(1 << 20))
        self.tick()


def _read_here(path: Path, state: ConsoleState) -> list[Content]:
    empty = "nothing was done from this machine yet"
    try:
        with open(path, "rb") as file:
            start = max(0, os.fstat(file.fileno()).st_size - _BYTES)
            file.seek(start)
            raw = file.read().splitlines()[1 if start else 0 :]  # the first one is cut
    except FileNotFoundError:
        return [Content.styled(f" {empty}", MUTED)]
    except OSError as error:
        return [Content.styled(f" it cannot be read: {error.strerror}", WARN)]
    return lines_of(audit_words.of_lines(raw, older=bool(start)), state, empty)


def lines_of(log: Log, state: ConsoleState, empty: str) -> list[Content]:
    """What cannot be read is counted first; then a line an entry, the newest first; then whether there is more."""
    lines = []
    if log.unreadable:
        lines.append(Content.styled(f" {fmt.count(log.unreadable)} of its lines cannot be read: they are no entries", WARN))
    lines += [_line(entry, state) for entry in reversed(log.entries)]
    if log.older:
        lines.append(Content.styled(f" these are the newest {fmt.count(len(log.entries))}; the file has older ones", MUTED))
    return lines or [Content.styled(f" {empty}", MUTED)]


def _line(entry: dict[str, Any], state: ConsoleState) -> Content:
    when = reading.number(entry, "wall_s")
    time = "time unknown" if when is None else clock(when, state.utc_offset_s, state.wall_s)
    told, host = audit_words.words(entry), reading.text(entry, "host")
    where = f" on {host}" if host else ""
    return Content.assemble(f" {time:<18}", (told.what or "?", STRONG), where, (f"  by {told.who or 'unknown'}: {told.text}", MUTED))
