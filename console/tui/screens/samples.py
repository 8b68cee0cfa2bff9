"""The answers, read while they are being generated: the cheapest look at whether five hours are well spent."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Static

from console.core import counted, sanitize
from console.tui import sample
from console.tui.draw import MUTED, STRONG, WARN
from console.tui.sample import Sample
from console.tui.screens.card import Card, Choice
from console.tui.state import ConsoleState
from pipeline.errors import StageError

Ask = Callable[[str, str, int | None], Awaitable[dict[str, Any]]]
"""Asks the host for a sample: which file, which way, from which byte."""

RESPONSES, HOLDOUT, FAILED = "responses", "holdout", "failed"
_NAMES = {RESPONSES: "answers", HOLDOUT: "held-out answers", FAILED: "prompts given up"}
_FOLLOW_TICKS, _ANYWAY_TICKS = 2, 20
"""The newest is asked for each second (two ticks) in which frames tell of more; without that each 10 s, for what they do not count."""
_MOST_REQUESTS = 8
_AROUND = 6
"""Columns of border, padding and scroll bar."""


class SamplesScreen(Card[None]):
    """Reads one sample at a time from the host; keys and buttons do the same."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "show('previous')", show=False),
        Binding("right", "show('next')", show=False),
        Binding("home", "show('first')", show=False),
        Binding("end", "show('last')", show=False),
        Binding("f", "follow", show=False),
        Binding("h", "file('holdout')", show=False),
        Binding("x", "file('failed')", show=False),
        Binding("r", "raw", show=False),
    ]
    fixed_lines = 3

    def __init__(self, state: ConsoleState, ask: Ask) -> None:
        super().__init__(state)
        self._ask = ask
        self._which = RESPONSES
        self._sample: Sample | None = None
        self._said = "asking the host"
        self._following = True
        self._raw = False
        self._ticks = 0
        self._asking = False
        self._told: tuple[Any, ...] = ()
        """How much there was, by the frames, when the newest was asked for."""
        self._drawn: tuple[Any, Content] = (None, Content())
        self._around: tuple[str, Content, Content] = ("", Content(), Content())

    def heading(self) -> str:
        how = "newest, followed" if self._following else "standing still: f follows"
        one = self.state.store.attempt("generate")
        of = f" of {counted.made(one)}" if one is not None and self._which != FAILED else ""
        return f"Samples of {self.state.run}: {_NAMES[self._which]}{of}, {how}"

    def choices(self) -> Sequence[Choice]:
        return (
            Choice("close", "Close"),
            Choice("previous", "←"),
            Choice("next", "→"),
            Choice("follow", "f follow"),
            Choice("holdout", "h held"),
            Choice("failed", "x failed"),
            Choice("raw", "r raw"),
        )

    def chosen(self, choice: str) -> None:
        if choice == "close":
            self.dismiss(None)
        elif choice in (HOLDOUT, FAILED):
            self.action_file(choice)
        else:
            {"follow": self.action_follow, "raw": self.action_raw}.get(choice, lambda: self.action_show(choice))()

    def above(self) -> Iterable[Widget]:
        yield Static(id="head")

    def below(self) -> Iterable[Widget]:
        yield Static(id="legend")

    def body(self) -> Sequence[Content]:
        if self._sample is None:
            return [Content.styled(f" {self._said}", MUTED)]
        width = self._columns()
        key = (self._sample, self._raw, width)
        if key != self._drawn[0]:
            self._drawn = (key, (sample.raw if self._raw else sample.text)(self._sample, width))
        return [self._drawn[1]]

    def on_mount(self) -> None:
        self.tick()

    def tick(self) -> None:
        self._ticks += 1
        if self._following and self.query_one("#scroll", VerticalScroll).scroll_y > 0:
            self._following = False  # somebody reads it
        if self._following and not self._asking and self._ticks % _FOLLOW_TICKS == 1 and self.state.current and self._more():
            self._look("last", None)
        super().tick()
        self._draw_around()

    def _more(self) -> bool:
        """Whether there may be a newer one: a look costs up to a quarter of a megabyte of the link."""
        one, before = self.state.store.attempt("generate"), self._told
        self._told = (one.id, one.state, one.progress.done if one.progress else None) if one is not None else ()
        return self._told != before or self._ticks % _ANYWAY_TICKS == 1

    def _draw_around(self) -> None:
        width = self._columns()
        lines = sample.head(self.state, self._sample, width) if self._sample else [Content(), Content()]
        if self._said and self._sample is not None:
            lines[1] = Content.styled(f" {self._said}", WARN)
        around = (self.heading(), Content("\n").join(lines), sample.legend(width))
        if around[0] == self._around[0] and all(new.is_same(old) for new, old in zip(around[1:], self._around[1:], strict=True)):
            return
        self._around = around
        self.query_one("#sheet").border_title = Content.styled(sanitize.line(around[0], 200), STRONG)
        self.query_one("#head", Static).update(around[1])
        self.query_one("#legend", Static).update(around[2])

    def action_show(self, direction: str) -> None:
        """Another sample; looking at any but the newest ends following."""
        here = self._sample
        self._following = direction == "last"
        if self._following:
            self._to_the_top()
        self._look(direction, None if here is None else here.end if direction == "next" else here.offset)

    def action_follow(self) -> None:
        self._following = not self._following
        if self._following:
            self._to_the_top()
            self._look("last", None)
        self.tick()

    def action_file(self, which: str) -> None:
        """This file, or back to the answers."""
        self._which = RESPONSES if self._which == which else which
        self._sample, self._said, self._following = None, "asking the host", True
        self._look("last", None)

    def action_raw(self) -> None:
        self._raw = not self._raw
        self.tick()

    def _look(self, direction: str, offset: int | None) -> None:
        self._asking = True
        look = partial(self._read, self._which, direction, offset)  # no coroutine yet: one that a later look ends first is never begun
        self.run_worker(look, group="sample", exclusive=True, exit_on_error=False)

    async def _read(self, which: str, direction: str, offset: int | None) -> None:
        try:
            reply = await self._reach(which, direction, None if direction in ("first", "last") else offset)
        except StageError as error:
            self._said = sanitize.line(str(error), 300)
        else:
            self._take(reply, direction)
        self._asking = False
        self.tick()

    async def _reach(self, which: str, direction: str, offset: int | None) -> Sample:
        """Ask, and go on where lines that cannot be read fill what one request may read. Raises StageError."""
        for _ in range(_MOST_REQUESTS - 1):
            reply = sample.parse(await self._ask(which, direction, offset))
            further = reply.offset if direction == "previous" else reply.end
            if reply.shown or further == offset or direction not in ("next", "previous"):
                return reply
            offset = further
        return sample.parse(await self._ask(which, direction, offset))

    def _take(self, reply: Sample, direction: str) -> None:
        """Show it; where there is none that way, say so and stay."""
        if not reply.shown and self._sample is not None:
            self._said = "there is no newer one yet" if direction == "next" else "there is no older one"
            return
        moved = self._sample is None or reply.offset != self._sample.offset
        self._sample, self._said = reply, ""
        if moved:
            self._to_the_top()

    def _to_the_top(self) -> None:
        self.query_one("#scroll", VerticalScroll).scroll_to(y=0, animate=False, immediate=True)

    def _columns(self) -> int:
        size: Size = self.app.size
        return max(min(size.width, 160) - _AROUND, 4)
