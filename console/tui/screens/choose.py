"""One out of several; those that cannot be chosen are shown with the reason."""

from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from console.core import sanitize
from console.tui.draw import MUTED, STRONG


class Item(NamedTuple):
    """``why`` not None: it cannot be chosen, for that reason."""

    id: str
    label: str
    about: str = ""
    why: str | None = None


class ChooseScreen(ModalScreen[str | None]):
    """The id of the chosen item, or None."""

    CSS_PATH = "../styles/sheets.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "close", "Close", show=False)]

    def __init__(self, question: str, items: list[Item]) -> None:
        super().__init__()
        self._question, self._items = question, items

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet") as sheet:
            sheet.border_title = Content(sanitize.line(self._question, 200))
            yield OptionList(*(_option(one) for one in self._items), id="items", markup=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._items[event.option_index].id)

    def action_close(self) -> None:
        self.dismiss(None)


def _option(item: Item) -> Option:
    about = item.why or item.about
    label = Content.assemble((item.label, STRONG if item.why is None else MUTED), ("  " + about if about else "", MUTED))
    return Option(label, disabled=item.why is not None)
