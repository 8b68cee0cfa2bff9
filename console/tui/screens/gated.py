"""A sheet whose buttons follow the present: what cannot be done now is off, and a line says why, where everybody sees it."""

from typing import TypeVar

from textual.content import Content
from textual.widgets import Button

from console.tui.draw import WARN
from console.tui.screens.card import Card

Result = TypeVar("Result")


class GatedCard(Card[Result]):
    """Base: ``choices`` is asked again at each tick for what can be pressed."""

    def tick(self) -> None:
        if not self.query("#body"):  # not there yet, or not any more: an answer may come late
            return
        for choice in self.choices():
            for button in self.query(f"#choice-{choice.id}").results(Button):
                button.disabled = choice.why is not None
                button.tooltip = None if choice.why is None else Content(choice.why)
        super().tick()


def off(label: str, why: str | None) -> list[Content]:
    """A line that says why a button is off; none when it is not."""
    return [] if why is None else [Content.styled(f" {label} is off: {why}", WARN)]
