"""A phrase that has to be typed before something is done. Cancel has the focus; nothing but the whole phrase and Enter says yes."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

from console.core import fmt, sanitize
from console.tui.draw import MUTED, STRONG, WARN
from console.tui.screens.card import Choice
from console.tui.screens.gated import GatedCard, off
from console.tui.state import ConsoleState

_MAX_CHARS = 400
_OLD_S = 60.0
_AROUND, _HINT_SHARE = 4, 4
"""Columns of border and padding; the phrase takes no more than one of so many lines."""


class TypedScreen(GatedCard[str | None]):
    """Base: the phrase, once it was typed; None when it was cancelled. Override ``heading``, ``body`` and ``why_not``."""

    # With priority the field has the focus before the next key is looked at: what is typed ahead is the phrase, and no key.
    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "onward", show=False, priority=True)]
    tone = "bad"
    fixed_lines = 2
    yes = "Yes"

    def __init__(self, state: ConsoleState, phrase: str, surveyed_boot_s: float | None) -> None:
        """``surveyed_boot_s``: host time of the plan that the phrase is of."""
        super().__init__(state)
        self.phrase, self._surveyed_s = phrase, surveyed_boot_s
        self._phrase_fits = True

    def why_not(self) -> str | None:
        """Why it cannot be done now, whatever is typed."""
        raise NotImplementedError

    def below(self) -> Iterable[Widget]:
        yield _Hint(self.phrase)
        yield Input(placeholder="type it here: Tab, the phrase, Enter", max_length=_MAX_CHARS, id="phrase")

    def choices(self) -> Sequence[Choice]:
        why = self._why_off or (None if self._typed else "the phrase is not typed yet")
        return (Choice("cancel", "Cancel"), Choice("yes", self.yes, "error", why))

    @property
    def _why_off(self) -> str | None:
        long = f"its phrase has {len(self.phrase)} characters, and {_MAX_CHARS} can be typed: select less at a time"
        return long if len(self.phrase) > _MAX_CHARS else self.why_not()

    @property
    def _typed(self) -> bool:
        return any(" ".join(one.value.split()) == self.phrase for one in self.query(Input))

    def on_resize(self, event: events.Resize) -> None:
        """The phrase in as many lines as it needs; where that is too much, it is whole at the end of the lines that scroll."""
        width = min(event.size.width, 160) - _AROUND
        needs, most = len(_wrapped(self.phrase, width)), max(event.size.height // _HINT_SHARE, 1)
        self._phrase_fits = needs <= most
        self.query_one(_Hint).styles.height = min(needs, most)
        self.fixed_lines = min(needs, most) + 1
        super().on_resize(event)
        self.tick()

    def _draw(self) -> Content:
        view = self.state.view
        age_s = view.age_s(self._surveyed_s, self.state.age_s) if view else None
        old = age_s is None or age_s > _OLD_S or not self.state.current
        looked = f" the host looked {fmt.age(age_s)} ago, and looks again before it does anything"
        lines = [*off(self.yes, self._why_off), Content.styled(looked, WARN if old else MUTED), *self.body()]
        return Content("\n").join(lines if self._phrase_fits else [*lines, _typeable(sanitize.line(self.phrase, 4000))])

    def action_onward(self) -> None:
        """Cancel, then the field, then, once it holds the phrase, the button that does it."""
        if not self.query(Input) or isinstance(self.focused, Input) or self._typed:
            self.focus_next()
        else:
            self.set_focus(self.query_one(Input))

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.tick()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._yes()

    def chosen(self, choice: str) -> None:
        if choice == "yes":
            self._yes()
        else:
            self.dismiss(None)

    def _yes(self) -> None:
        why = self._why_off
        if not self._typed or why is not None:
            said = why or f"that is not the phrase, which is: {sanitize.line(self.phrase, _MAX_CHARS)}"
            self.notify(said, severity="warning", markup=False)
            return
        self.dismiss(self.phrase)


class _Hint(Widget):
    """The phrase, in sight while it is typed."""

    DEFAULT_CSS = "_Hint { height: 1; }"

    def __init__(self, phrase: str) -> None:
        super().__init__()
        self._phrase = phrase

    def render(self) -> Content:
        lines = _wrapped(self._phrase, self.size.width)
        cut = len(lines) > self.size.height
        shown = lines[: self.size.height]
        if cut and shown:
            shown[-1] = f"{shown[-1][:-10]} … above"
        return _typeable(f"\n{_INDENT}".join(shown))


_INDENT = " " * 7


def _wrapped(phrase: str, width: int) -> list[str]:
    return textwrap.wrap(sanitize.line(phrase, 4000), max(width - len(_INDENT), 10), break_on_hyphens=False)


def _typeable(words: str) -> Content:
    return Content.assemble((" type  ", WARN), (words, STRONG))
