"""The phrase that has to be typed before GPUs are freed. Cancel has the focus; nothing but the whole phrase and Enter says yes."""

from collections.abc import Iterable, Sequence

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input

from console.core import free_words, sanitize
from console.core.free_plan import Key, Plan
from console.tui.draw import MUTED, STRONG, WARN, rows
from console.tui.free_gate import may_free
from console.tui.screens.card import Card, Choice
from console.tui.state import ConsoleState

_MOST_ROWS, _TITLE_CHARS = 8, 50


class PhraseScreen(Card[str | None]):
    """The phrase, once it was typed; None when it was cancelled."""

    tone = "bad"
    fixed_lines = 2

    def __init__(self, state: ConsoleState, plan: Plan, selection: frozenset[Key]) -> None:
        super().__init__(state)
        self._plan, self._selection = plan, selection
        self.phrase = plan.phrase(selection)
        self._said = ""

    def heading(self) -> str:
        mark = "SIMULATED  " if self._plan.simulated else ""
        return f"{mark}Free GPUs of {self.state.host}: end {_processes(len(self._selection))}?"

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

    def below(self) -> Iterable[Widget]:
        yield _Hint(self.phrase)
        yield Input(placeholder="type it here: Tab, the phrase, Enter", max_length=400, id="phrase")

    def choices(self) -> Sequence[Choice]:
        return (Choice("cancel", "Cancel"), Choice("yes", "Free GPUs", "error", "the phrase is not typed yet"))

    @property
    def _typed(self) -> bool:
        return " ".join(self.query_one(Input).value.split()) == self.phrase

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.query_one("#choice-yes", Button).disabled = not self._typed

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._yes()

    def chosen(self, choice: str) -> None:
        if choice == "yes":
            self._yes()
        else:
            self.dismiss(None)

    def _yes(self) -> None:
        why = may_free(self.state)
        if not self._typed or why is not None:
            self.notify(why or f"that is not the phrase, which is: {sanitize.line(self.phrase, 400)}", severity="warning", markup=False)
            return
        self.dismiss(self.phrase)


class _Hint(Widget):
    """The phrase, in sight while it is typed."""

    DEFAULT_CSS = "_Hint { height: 1; }"

    def __init__(self, phrase: str) -> None:
        super().__init__()
        self._phrase = phrase

    def render(self) -> Content:
        return Content.assemble((" type  ", WARN), (sanitize.line(self._phrase, 400), STRONG))


def _short(title: str) -> str:
    return title if len(title) <= _TITLE_CHARS else title[: _TITLE_CHARS - 1] + "…"


def _processes(count: int) -> str:
    return f"{count} process{'' if count == 1 else 'es'}"
