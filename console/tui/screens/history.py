"""Every attempt that has ended, as the host keeps a line of each: the newest first, of this run and stage or of all."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from console.core import fmt, past, sanitize
from console.core.past import Past
from console.core.since import Times
from console.tui.draw import BAD, GOOD, MUTED, PLAIN, WARN
from console.tui.screens.card import Card, Choice
from console.tui.state import ConsoleState
from pipeline.contract import telemetry
from pipeline.errors import StageError

_AROUND, _SIDES, _FACTS = 4, 7, 5
"""Lines and columns of border, buttons and margins; lines about the row under the cursor."""
_RUN = 16
"""Columns of a run's name."""
_STYLES = {telemetry.DONE: GOOD, telemetry.FAILED: BAD, telemetry.CRASHED: BAD, telemetry.STOPPED: PLAIN}

Ask = Callable[[str | None, str | None], Awaitable[tuple[Past, ...]]]
"""Asks the host for the attempts of a run (None: all) and a stage (None: all)."""


class Column(NamedTuple):
    """``drop``: on a narrow screen those with the highest go first; 0 stays."""

    name: str
    of: Callable[[Past, Times], str]
    right: bool = True
    drop: int = 0


COLUMNS = (
    Column("began", lambda one, times: times.of(one.began_wall_s), right=False),
    Column("run", lambda one, times: sanitize.line(one.run, _RUN), right=False, drop=6),
    Column("stage", lambda one, times: one.stage, right=False),
    Column("outcome", lambda one, times: one.outcome, right=False),
    Column("loaded", lambda one, times: fmt.duration(one.load_s), drop=3),
    Column("tok/s", lambda one, times: fmt.rate(one.tokens_per_s), drop=1),
    Column("units", lambda one, times: fmt.count(one.samples), drop=2),
    Column("tokens", lambda one, times: fmt.tokens(one.tokens), drop=5),
    Column("written", lambda one, times: fmt.size(one.bytes), drop=4),
    Column("trouble", lambda one, times: past.trouble(one)),
    Column("took", lambda one, times: fmt.duration(one.took_s)),
)


class HistoryScreen(Card[None]):
    """Asks the host when it opens, and for each other choice of run and stage; ``open_one`` opens an attempt over this sheet."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "run", show=False), Binding("s", "stage", show=False)]

    def __init__(self, state: ConsoleState, stage: str | None, ask: Ask, open_one: Callable[[Past], None], times: Times) -> None:
        """``stage``: the one that s narrows it to."""
        super().__init__(state)
        self._ask, self._open, self._times = ask, open_one, times
        self._this_stage = stage
        self._stage: str | None = None
        self._run: str | None = state.run
        self._lines: tuple[Past, ...] = ()
        self._said = "asking the host"

    def heading(self) -> str:
        simulated = "SIMULATED  " if self.state.view is not None and self.state.store.simulated else ""
        return f"{simulated}History of {self.state.host}: {self._run or 'every run'}, {self._stage or 'every stage'}, newest first"

    def above(self) -> Iterable[Widget]:
        yield Static(id="columns")
        yield OptionList(id="lines", markup=False)

    def body(self) -> Sequence[Content]:
        if self._said:
            return [Content.styled(f" {self._said}", WARN)]
        one = self._at
        if one is None:
            return [Content.styled(" no attempt has ended yet", MUTED)]
        told = "; ".join(f"{name} {value}" for name, value in past.facts(one))
        why = [Content(f" {one.why}")] if one.why else []
        return [Content(), *why, Content.styled(f" {one.run} {one.stage} {one.attempt}: {told}", MUTED)]

    def choices(self) -> Sequence[Choice]:
        no_run = None if self.state.run else "no run is chosen"
        no_stage = None if self._this_stage else "no stage is looked at"
        return (
            Choice("close", "Close"),
            Choice("open", "Details"),
            Choice("run", "r this run, or all", "default", no_run),
            Choice("stage", f"s {self._this_stage or 'one stage'}, or all", "default", no_stage),
        )

    def chosen(self, choice: str) -> None:
        {"open": self.action_open, "run": self.action_run, "stage": self.action_stage}.get(choice, self.action_close)()

    def focus_first(self) -> None:
        self.set_focus(self.query_one(OptionList))

    def on_mount(self) -> None:
        self._look()

    def on_resize(self, event: events.Resize) -> None:
        if not self.query("#lines") or not self.query("#scroll"):
            return  # while it is taken down
        self.query_one("#lines").styles.max_height = max(event.size.height - _AROUND - _FACTS - 1, 1)
        self.query_one("#scroll").styles.max_height = _FACTS
        self._fill()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self.tick()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_open()

    def action_open(self) -> None:
        """The attempt under the cursor."""
        if self._at is not None:
            self._open(self._at)

    def action_run(self) -> None:
        if self.state.run:
            self._run = None if self._run else self.state.run
            self._look()

    def action_stage(self) -> None:
        if self._this_stage:
            self._stage = None if self._stage else self._this_stage
            self._look()

    @property
    def _at(self) -> Past | None:
        shown = next(iter(self.query(OptionList)), None)
        at = shown.highlighted if shown is not None else None
        return self._lines[at] if at is not None and at < len(self._lines) else None

    def _look(self) -> None:
        self._said = "asking the host"
        self.query_one("#sheet").border_title = Content(sanitize.line(self.heading(), 200))  # type: ignore[assignment]
        self.tick()
        self.run_worker(self._read, group="history", exclusive=True, exit_on_error=False)

    async def _read(self) -> None:
        try:
            self._lines, self._said = await self._ask(self._run, self._stage), ""
        except StageError as error:
            self._lines, self._said = (), f"it cannot be read: {sanitize.line(error, 300)}"
        self._fill()

    def _fill(self) -> None:
        """Draw the rows anew, as wide as the sheet is; nothing while it is put together or taken down."""
        if not self.query("#columns") or not self.query(OptionList):
            return
        shown, head = self.query_one(OptionList), self.query_one("#columns", Static)
        table = drawn(self._lines, self._times, min(self.app.size.width, 160) - _SIDES)
        at = shown.highlighted
        shown.clear_options()
        shown.add_options([Option(one) for one in table[1:]])
        shown.display = head.display = bool(self._lines)
        head.update(table[0] if table else Content())
        shown.highlighted = min(at or 0, len(self._lines) - 1) if self._lines else None
        self.tick()


def drawn(lines: Sequence[Past], times: Times, width: int) -> list[Content]:
    """The head and a row an attempt, in the columns that fit."""
    if not lines:
        return []
    several = len({one.run for one in lines}) > 1
    columns = [one._replace(drop=0) if several and one.name == "run" else one for one in COLUMNS]
    while True:
        cells = [[column.of(one, times) for column in columns] for one in lines]
        wide = [max(len(column.name), *(len(row[at]) for row in cells)) for at, column in enumerate(columns)]
        victim = max(columns, key=lambda one: one.drop)
        if sum(wide) + 2 * (len(wide) - 1) < width or not victim.drop:
            break
        columns.remove(victim)
    head = _row([column.name for column in columns], columns, wide)
    return [Content.styled(f" {head}", MUTED), *(_styled(row, one, columns, wide) for row, one in zip(cells, lines, strict=True))]


def _row(texts: Sequence[str], columns: Sequence[Column], wide: Sequence[int]) -> str:
    padded = (text.rjust(width) if column.right else text.ljust(width) for text, column, width in zip(texts, columns, wide, strict=True))
    return "  ".join(padded)


def _styled(texts: Sequence[str], one: Past, columns: Sequence[Column], wide: Sequence[int]) -> Content:
    row, outcome = _row(texts, columns, wide), next(at for at, column in enumerate(columns) if column.name == "outcome")
    start = sum(wide[:outcome]) + 2 * outcome
    end = start + wide[outcome]
    return Content.assemble(" ", row[:start], (row[start:end], _STYLES.get(one.outcome, WARN)), row[end:])
