"""What happened while nobody looked: the first sheet after an absence, from the host's own record. Enter goes on to the dashboard."""

import math
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, OptionList
from textual.widgets.option_list import Option

from console.core import fmt, since
from console.core.clocks import zone_name
from console.core.since import Line
from console.tui.absence import LookBack
from console.tui.draw import BAD, GOOD, MUTED, PLAIN, STRONG, WARN
from console.tui.screens.card import Choice
from console.tui.screens.passing import CARD_KEYS, PassingCard
from console.tui.state import ConsoleState
from pipeline.contract import signals

_AROUND, _SIDES = 4, 7
"""Lines and columns of border, buttons and margins."""
_DETAIL_AT_LEAST = 12
_KEPT = "the host kept this record"
_STYLES = {signals.RED: BAD, signals.AMBER: WARN, signals.OK: GOOD, signals.GREY: PLAIN}
_ZONES_DIFFER_S = 60.0
UNREAD_S = 1.5
"""Nobody has read it sooner: a key that then closes it was typed for what stood there before."""


class SinceScreen(PassingCard[None]):
    """``look_back``: what the host told; ``evidence`` opens what is known about a line, over this sheet."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "dashboard", show=False, priority=True),  # before the list takes it for the evidence of a line
        Binding("e", "evidence", show=False),
        Binding("c", "copy", show=False),
    ]
    own_keys = CARD_KEYS | {"e", "c"}

    def __init__(
        self, state: ConsoleState, look_back: LookBack, evidence: Callable[[Line], None], again: Callable[[LookBack], None]
    ) -> None:
        """``again``: open it once more when that can be."""
        super().__init__(state)
        self._back, self._evidence, self._again = look_back, evidence, again
        self._opened_s = time.monotonic()
        self._times = since.times(look_back.record, look_back.asked_s, state.utc_offset_s)
        self._width = 0
        self.tone = "bad" if look_back.record.severity == signals.RED else ""

    def heading(self) -> str:
        simulated = "SIMULATED  " if self.state.view is not None and self.state.store.simulated else ""
        told = heading(self._back, self._times)
        return f"{simulated}{told.replace(_KEPT, 'kept by the host') if simulated else told}"

    def above(self) -> Iterable[Widget]:
        yield OptionList(id="lines", markup=False)

    def body(self) -> Sequence[Content]:
        lines = [] if self._back.record.lines else [Content.styled(" nothing happened on the host meanwhile", MUTED)]
        if self._back.record.older:
            lines.append(Content.styled(" the host keeps older lines than these: eaglewatch since prints more with --hours", MUTED))
        there_s = self.state.view.utc_offset_s if self.state.view else None
        if there_s is not None and abs(there_s - self.state.utc_offset_s) >= _ZONES_DIFFER_S:
            here = zone_name(self.state.utc_offset_s)
            lines.append(Content.styled(f" times are of this machine, {here}; the host's zone is {zone_name(there_s)}", MUTED))
        return lines

    def choices(self) -> Sequence[Choice]:
        return (Choice("close", "Dashboard"), Choice("evidence", "e evidence"), Choice("copy", "c copy"))

    def chosen(self, choice: str) -> None:
        {"evidence": self.action_evidence, "copy": self.action_copy}.get(choice, self.action_close)()

    def focus_first(self) -> None:
        for shown in self.query(OptionList):
            self.set_focus(shown)

    def on_resize(self, event: events.Resize) -> None:
        if not self.query("#lines") or not self.query("#scroll"):
            return  # while it is taken down
        self._fill(min(event.size.width, 160) - _SIDES)
        below = len(self.body())
        self.query_one("#lines").styles.max_height = max(event.size.height - _AROUND - below, 1)
        self.query_one("#scroll").display = below > 0

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_evidence()  # a click: Enter does not come here

    def perform(self, action: str) -> None:
        if action != "quit" and time.monotonic() - self._opened_s < UNREAD_S:
            self._again(self._back)
        super().perform(action)

    def action_dashboard(self) -> None:
        if isinstance(self.focused, Button):
            self.focused.press()
        else:
            self.dismiss(None)

    def action_evidence(self) -> None:
        """Of the line under the cursor."""
        shown = next(iter(self.query(OptionList)), None)  # none yet, for a key that was typed ahead
        at = None if shown is None else shown.highlighted
        if at is not None and at < len(self._back.record.lines):
            self._evidence(self._back.record.lines[at])

    def action_copy(self) -> None:
        text = "\n".join([heading(self._back, self._times), *since.texts(self._back.record.lines, self._times)])
        self.app.copy_to_clipboard(text + "\n")
        said = "to the clipboard, as far as this terminal allows it (OSC 52)"
        self.notify(f"{len(self._back.record.lines)} lines {said}; or: {command(self._back, self.state.host)}", markup=False)

    def _fill(self, width: int) -> None:
        if width == self._width:
            return
        self._width = width
        shown = self.query_one(OptionList)
        at = shown.highlighted
        shown.clear_options()
        shown.add_options([Option(one) for one in options(self._back.record.lines, self._times, width)])
        shown.display = bool(self._back.record.lines)
        shown.highlighted = at if at is not None else (0 if self._back.record.lines else None)


def heading(back: LookBack, times: since.Times) -> str:
    """``SINCE 22:05 (you were away 9 h 37 min; the host kept this record)``."""
    absence = back.absence
    lasted = f" {fmt.duration(absence.lasted_s)}" if absence.lasted_s else ""
    return f"SINCE {times.of(absence.since_wall_s)} ({absence.how}{lasted}; {_KEPT})"


def command(back: LookBack, host: str) -> str:
    """What prints the same lines."""
    now_s = back.asked_s if back.record.now_wall_s is None else back.record.now_wall_s
    hours = max(1, math.ceil((now_s - back.absence.since_wall_s) / 3600))
    return f"eaglewatch since {host} {back.run} --hours {hours}"


def options(lines: Sequence[Line], times: since.Times, width: int) -> list[Content]:
    """A line each; a detail that is too long goes on below itself."""
    made = []
    for one, (when, sign, what, word, detail) in zip(lines, since.parts(lines, times), strict=True):
        style = _STYLES[one.severity]
        start = len(f" {when} {sign} {what} {word} ")
        pieces = textwrap.wrap(detail, max(width - start, _DETAIL_AT_LEAST)) or [""]
        made.append(
            Content.assemble(
                " ", (when, MUTED), " ", (sign, style), " ", (what, STRONG), " ", (word, style), " ", ("\n" + " " * start).join(pieces)
            )
        )
    return made
