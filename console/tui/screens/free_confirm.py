"""What freeing GPUs would end, and in which order, above the phrase that has to be typed for it."""

from collections.abc import Sequence

from textual.content import Content

from console.core import free_words
from console.core.free_plan import Key, Plan
from console.tui.draw import MUTED, rows
from console.tui.free_gate import at_work, may_free
from console.tui.screens.typed import TypedScreen
from console.tui.state import ConsoleState
from console.tui.widgets.header import target

_MOST_ROWS, _TITLE_CHARS = 64, 50


class PhraseScreen(TypedScreen):
    """The phrase, once it was typed; None when it was cancelled."""

    yes = "Free GPUs"

    def __init__(self, state: ConsoleState, plan: Plan, selection: frozenset[Key]) -> None:
        super().__init__(state, plan.phrase(selection), plan.surveyed_boot_s)
        self._plan, self._selection = plan, selection

    def heading(self) -> str:
        mark = "SIMULATED  " if self._plan.simulated else ""
        return f"{mark}Free GPUs of {target(self.state)}: end {_processes(len(self._selection))}?"

    def why_not(self) -> str | None:
        return at_work(self.state) or may_free(self.state)

    def body(self) -> Sequence[Content]:
        named = self._plan.selected(self._selection)
        ends = [(str(one.pid), f"{one.user}  GPU {one.gpus}  {_short(one.title or one.exe)}") for one in named[:_MOST_ROWS]]
        if len(named) > _MOST_ROWS:
            ends.append(("", f"and {len(named) - _MOST_ROWS} more, which the plan lists"))
        if not named:
            ends.append(("nobody", "nothing is ended; the GPUs are read and judged as they are"))
        steps = [(f"{number} {name}", what) for number, (name, what) in enumerate(free_words.steps(self._plan, self._selection), 1)]
        lines = [*rows(ends), Content.styled(" in this order", MUTED), *rows(steps)]
        lines.append(Content.styled(" it runs on the host, whatever becomes of link and console; both sides record it", MUTED))
        return lines


def _short(title: str) -> str:
    return title if len(title) <= _TITLE_CHARS else title[: _TITLE_CHARS - 1] + "…"


def _processes(count: int) -> str:
    return f"{count} process{'' if count == 1 else 'es'}"
