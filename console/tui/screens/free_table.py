"""Who holds the GPUs, a row a process, each to be selected where it may be ended. Enter, space or a click does that."""

from collections.abc import Collection
from typing import ClassVar, NamedTuple

from rich.cells import cell_len, set_cell_size
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from console.core import fmt, free_words
from console.core.free_plan import Key, Plan, Row
from console.tui.draw import MUTED, PLAIN, STRONG

_GAP = " "
_MARK = 3
_MOST = {"pid": 10, "user": 10, "since": 10, "GPUs": 8, "MiB": 9, "whose": 11}
_RIGHT = ("pid", "MiB")
_WHAT_AT_LEAST, _WHY_FROM = 12, 40


class Columns(NamedTuple):
    """Widths by name; ``what`` takes the rest, and shares it with ``why`` where there is much."""

    fixed: dict[str, int]
    what: int
    why: int


class FreeTable(OptionList):
    """Rows of the plan that it was given last."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "select", show=False)]

    class Toggled(Message):
        """A row was chosen: select it, or do not any more."""

        def __init__(self, row: Row) -> None:
            super().__init__()
            self.row = row

    def __init__(self) -> None:
        super().__init__(id="holders", markup=False)
        self._plan: Plan | None = None
        self._selection: frozenset[Key] = frozenset()
        self._width = 0
        self._columns = Columns({}, 1, 0)

    @property
    def row(self) -> Row | None:
        """The one under the cursor."""
        at = self.highlighted
        rows = self._plan.rows if self._plan else ()
        return rows[at] if at is not None and at < len(rows) else None

    def show(self, plan: Plan, selection: Collection[Key], width: int) -> None:
        """Draw these rows; the cursor stays with its process, else at its line, as far as it can."""
        chosen, before = frozenset(selection), self._selection
        same_rows = plan is self._plan and width == self._width
        if same_rows and chosen == before:
            return
        if not same_rows:
            self._columns = fit(plan, width)
        if plan is self._plan:
            changed = chosen ^ before
            for index, one in enumerate(plan.rows):
                if not same_rows or one.key in changed:
                    self.replace_option_prompt_at_index(index, line(one, one.key in chosen, self._columns))
        else:
            at, under = self.highlighted or 0, self.row
            self._plan = plan
            self.clear_options()
            self.add_options(Option(line(one, one.key in chosen, self._columns)) for one in plan.rows)
            at = next((index for index, one in enumerate(plan.rows) if under is not None and _same(one, under)), at)
            self.highlighted = min(at, len(plan.rows) - 1) if plan.rows else None
        self._selection, self._width = chosen, width

    @property
    def head(self) -> Content:
        """The names of the columns that were drawn last."""
        return head(self._columns)

    def action_page_up(self) -> None:
        if self.size.height:  # one without a line has no page, and OptionList would stumble over that
            super().action_page_up()

    def action_page_down(self) -> None:
        if self.size.height:
            super().action_page_down()

    def go_to_new(self, before: Plan | None) -> None:
        """The cursor on the first process that an earlier plan did not have."""
        known = {(one.pid, one.ticks) for one in before.rows} if before is not None else None
        rows = self._plan.rows if self._plan is not None and known is not None else ()
        new = [index for index, one in enumerate(rows) if known is not None and (one.pid, one.ticks) not in known]
        if new:
            self.highlighted = new[0]

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if self.row is not None:
            self.post_message(self.Toggled(self.row))


def fit(plan: Plan, width: int) -> Columns:
    """Columns for a width."""
    names = list(_MOST)
    texts = [_texts(row) for row in plan.rows]
    wide = {name: max([len(name), *(cell_len(one[name]) for one in texts)]) for name in names}
    fixed = {name: min(wide[name], _MOST[name]) for name in names}
    left = width - _MARK - len(_GAP) * (len(names) + 1) - sum(fixed.values())
    if left < _WHAT_AT_LEAST:  # narrow: whose it is says more than how long
        left += fixed["since"]
        fixed["since"] = 0
    why = max(left - max((cell_len(row.title) for row in plan.rows), default=0) - len(_GAP), left // 2)
    if left < _WHAT_AT_LEAST + _WHY_FROM:
        why = 0
    return Columns(fixed, max(left - why - (len(_GAP) if why else 0), 1), why)


def head(columns: Columns) -> Content:
    """The names of the columns."""
    parts = [" " * _MARK, *(_cell(name, columns.fixed[name], name in _RIGHT) for name in columns.fixed if columns.fixed[name])]
    parts.append(_cell("what", columns.what))
    return Content.styled(_GAP.join([*parts, "why"] if columns.why else parts), MUTED)


def line(row: Row, selected: bool, columns: Columns) -> Content:
    """One row. Selected or not is told by its mark, not by its style alone."""
    texts = _texts(row)
    mark = "[x]" if selected else "[ ]" if row.killable else " - "
    parts = [mark, *(_cell(texts[name], wide, name in _RIGHT) for name, wide in columns.fixed.items() if wide)]
    parts.append(_cell(row.title or row.exe or "?", columns.what))
    if columns.why:
        parts.append(_cell(row.why, columns.why))
    return Content.styled(_GAP.join(parts), STRONG if selected else PLAIN if row.killable else MUTED)


def _same(one: Row, other: Row) -> bool:
    return (one.pid, one.ticks) == (other.pid, other.ticks)


def _texts(row: Row) -> dict[str, str]:
    return {
        "pid": str(row.pid),
        "user": row.user or "?",
        "since": fmt.duration(row.since_s),
        "GPUs": row.gpus,
        "MiB": free_words.mib_words(row),
        "whose": row.whose_words,
    }


def _cell(text: str, columns: int, right: bool = False) -> str:
    if cell_len(text) > columns:
        return set_cell_size(text, columns - 1) + "…" if columns > 1 else "…"
    return text.rjust(columns - cell_len(text) + len(text)) if right else set_cell_size(text, columns)
