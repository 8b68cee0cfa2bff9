"""What this machine did to hosts, newest first: the local audit log, which nothing rewrites."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from textual.content import Content

from console.core import reading
from console.core.clocks import clock
from console.tui.draw import MUTED, STRONG
from console.tui.screens.card import Card
from console.tui.state import ConsoleState

_LINES = 200
_BYTES = 256 << 10
_OWN = ("wall_s", "who", "what", "host")


class AuditScreen(Card[None]):
    """Read once, when it opens."""

    def __init__(self, state: ConsoleState, path: Path) -> None:
        super().__init__(state)
        self._path = path
        self._lines = audit_lines(path, state)

    def heading(self) -> str:
        return f"Audit log of this machine: {self._path}"

    def body(self) -> Sequence[Content]:
        return self._lines


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
    return [_line(entry, state) for entry in reversed(entries)] or [Content.styled(" nothing was done from this machine yet", MUTED)]


def _entry(line: bytes) -> dict | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _line(entry: dict, state: ConsoleState) -> Content:
    when = reading.number(entry, "wall_s")
    time = "time unknown" if when is None else clock(when, state.utc_offset_s, state.wall_s)
    rest = ", ".join(f"{key} {json.dumps(value)}" for key, value in entry.items() if key not in _OWN and value is not None)
    what, host, who = (reading.text(entry, key) for key in ("what", "host", "who"))
    return Content.assemble(f" {time:<18}", (what, STRONG), f" on {host or 'no host'}  ", (f"by {who}: {rest}"[:400], MUTED))
