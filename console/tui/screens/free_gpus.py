"""The plan of freeing GPUs: who holds them, which of them would be ended, and in which steps. This sheet ends nothing."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList, Static

from console.core import fmt, free_live, free_words
from console.core.action import Action
from console.core.free_plan import Key, Plan, Row
from console.tui.draw import MUTED, STRONG, WARN, rows
from console.tui.free_gate import at_work, may_free
from console.tui.screens.card import Choice
from console.tui.screens.free_table import FreeTable
from console.tui.screens.gated import GatedCard, off
from console.tui.screens.gpu_readings import readings
from console.tui.state import ConsoleState
from console.tui.widgets.header import link, target
from pipeline.contract import free
from pipeline.errors import StageError

FREE, RECEIPT = "free", "receipt"
_MOST_CHANGES = 3
_OTHER_LINES = 7
"""Of the sheet: border, buttons, and some lines about the row under the cursor."""


class Picked(NamedTuple):
    """What was pressed, and what was selected then."""

    choice: str
    plan: Plan | None
    selection: frozenset[Key]


class FreeGpusScreen(GatedCard[Picked | None]):
    """Asks the host to look when it opens, and when r is pressed. Gives back ``Picked`` when it shall go on, None when it was closed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "all", show=False),
        Binding("p", "proposed", show=False),
        Binding("r", "look", show=False),
    ]
    tone = "bad"

    def __init__(
        self,
        state: ConsoleState,
        survey: Callable[[], Awaitable[Plan]],
        changed: Sequence[str] = (),
        before: Plan | None = None,
        selection: frozenset[Key] | None = None,
    ) -> None:
        """``changed``: why the plan ``before`` is not done; ``selection``: what was selected in it. The cursor goes to what is new."""
        super().__init__(state)
        self._survey, self._changed, self._before, self._kept = survey, changed, before, selection
        self.plan: Plan | None = None
        self.selection: frozenset[Key] = frozenset()
        self._said = _LOOKS
        self._looking = False
        self._head = Content()

    def heading(self) -> str:
        return f"{'SIMULATED  ' if self._simulated else ''}Free GPUs of {target(self.state)}: nothing ends before the phrase"

    @property
    def _simulated(self) -> bool:
        return self.plan.simulated if self.plan else self.state.view is not None and self.state.store.simulated

    def above(self) -> Iterable[Widget]:
        yield Static(id="above")
        yield FreeTable()

    def choices(self) -> Sequence[Choice]:
        return (
            Choice("close", "Close"),
            Choice(FREE, "Free...", "error", self._why_not()),
            Choice("look", "r look"),
            Choice("all", "a all"),
            Choice("proposed", "p ours"),
            Choice(RECEIPT, "Receipt", "default", None if self._last is not None else "none is on record"),
        )

    @property
    def _last(self) -> Action | None:
        return self.state.view.actions.get(free.ACTION) if self.state.view else None

    def body(self) -> Sequence[Content]:
        lines = [Content.styled(f" {self._said}", WARN)] if self._said else []
        if self._looking and not self.state.current:
            lines.append(Content.styled(f" the question waits for the link: {link(self.state)}", WARN))
        if self.plan is None:
            return [*lines, Content(), *readings(self.state)]
        lines += [] if self._looking else off("Free...", None if self.plan.trouble else self._why_not())
        row = next((table.row for table in self.query(FreeTable)), None)
        lines += rows(_detail(row)) if row is not None else [Content.styled(f" {free_words.nobody(self.plan)}", MUTED)]
        lines += [Content.styled(f" ! {one}", WARN) for one in free_words.blind_spots(self.plan)]
        many = f"{len(self.selection)} selected" if self.selection else "nothing is selected"
        lines.append(Content.styled(f" {many} (Space: a row, a: all that may end, p: this run's); steps:", MUTED))
        lines += rows((f"{number} {name}", what) for number, (name, what) in enumerate(free_words.steps(self.plan, self.selection), 1))
        lines += [Content(f" {one}") for one in free_words.cures(self.plan)]
        return [*lines, *self._last_lines()]

    def focus_first(self) -> None:
        self.set_focus(self.query_one(FreeTable))

    def on_mount(self) -> None:
        self.action_look()

    def on_resize(self, event: events.Resize) -> None:
        self.tick()

    def tick(self) -> None:
        parts = ("#body", "#sheet", "#above", "FreeTable")
        if not all(self.query(one) for one in parts):  # not there yet, or not any more: an answer may come late
            return
        width = max(self.query_one("#sheet").size.width - 3, 20)
        above = [Content.styled(f" {one}", WARN) for one in self._changed[:_MOST_CHANGES]]
        if self._changed:
            above.insert(0, Content.styled(" it is not what was confirmed, so nothing was done:", WARN))
        if self.plan is not None:
            self.query_one(FreeTable).show(self.plan, self.selection, width)
            accepted = self.state.view.baseline_accepted if self.state.view else {}
            age = self.state.view.age_s(self.plan.surveyed_boot_s, self.state.age_s) if self.state.view else None
            above.append(Content.assemble(f" {free_words.summary(self.plan, accepted)}", (f"   looked {fmt.age(age)} ago", MUTED)))
            if self.plan.trouble:
                above.append(Content.styled(f" NOT THE EXPECTED GPUs: {self.plan.trouble}: nothing can be freed", WARN))
            if self.plan.rows:
                above.append(self.query_one(FreeTable).head)
        room = max(self.size.height - _OTHER_LINES, 0)
        drawn = Content("\n").join(above[:room])
        if not drawn.is_same(self._head):
            self._head = drawn
            self.query_one("#above", Static).update(drawn)
        table = self.query_one(FreeTable)
        table.display = self.plan is not None and bool(self.plan.rows) and room > len(above)
        table.styles.max_height = max(min(room - len(above), self.size.height // 3), 1)
        self.query_one("#above").display = room > 0
        super().tick()

    def _why_not(self) -> str | None:
        if self.plan is None or self._looking:
            return "the host has not looked yet"
        if busy := at_work(self.state):
            return f"{busy}; Receipt shows it"
        return self.plan.trouble or may_free(self.state)

    def action_look(self) -> None:
        """Ask the host to look (again)."""
        if not self._looking:
            self._looking = True
            self.run_worker(self._look(), exit_on_error=False)

    async def _look(self) -> None:
        self._said = _LOOKS
        self.tick()
        try:
            plan = await self._survey()
            kept = self._kept if self.plan is None else self.selection
            self.selection = plan.proposed() if kept is None else plan.keep(kept)
            self._before, self.plan, self._said = self.plan or self._before, plan, ""
        except StageError as error:
            self._said = f"it did not come to a plan: {error}; r asks again"
        except Exception:
            self._said = "it did not come to a plan, by a mistake of eaglewatch; r asks again"
            raise
        finally:
            self._looking = False
        self.tick()
        for table in self.query(FreeTable):
            table.go_to_new(self._before)
            if self.focused is None:
                self.set_focus(table)

    def on_free_table_toggled(self, event: FreeTable.Toggled) -> None:
        event.stop()
        row = event.row
        if self.plan is None or row.key is None or not row.killable:
            self.notify(f"process {row.pid}: {row.why}", severity="warning", markup=False)
            return
        self.selection ^= self.plan.together(row.key)
        self.tick()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self.tick()

    def action_all(self) -> None:
        if self.plan is not None:
            self.selection = self.plan.killable()
            self.tick()

    def action_proposed(self) -> None:
        if self.plan is not None:
            self.selection = self.plan.proposed()
            self.tick()

    def chosen(self, choice: str) -> None:
        if choice in ("look", "all", "proposed"):
            getattr(self, f"action_{choice}")()
        elif choice == FREE and self._why_not() is not None:
            return
        else:
            self.dismiss(Picked(choice, self.plan, self.selection) if choice in (FREE, RECEIPT) else None)

    def _last_lines(self) -> list[Content]:
        one = self._last
        if one is None or self.state.view is None:
            return []
        if one.live_now:
            return [Content.assemble((f" at work now, by {one.attempt.by or 'somebody'}  ", MUTED), (free_live.standing(one), STRONG))]
        ago = fmt.age(self.state.view.age_s(one.attempt.ended_boot_s, self.state.age_s))
        return [Content.assemble((f" last time, {ago} ago  ", MUTED), (free_live.standing(one), STRONG))]


_LOOKS = "the host looks at GPUs and processes"


def _detail(row: Row) -> list[tuple[str, str]]:
    """The row under the cursor, whole."""
    place = " ".join(filter(None, (row.unit and f"unit {row.unit}", row.container and f"container {row.container}")))
    pairs = [
        (f"pid {row.pid}", row.title or row.exe or "its program cannot be read"),
        ("why", row.why),
        ("how", row.how if row.killable else ""),
        ("seen by", "; ".join(filter(None, (row.evidence, place, row.exe if row.exe and row.exe not in row.title else "")))),
    ]
    return [pair for pair in pairs if pair[1]]
