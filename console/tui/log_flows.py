"""What the keys of the log's pane do."""

from typing import TYPE_CHECKING

from console.core import fmt
from console.core.worker_lines import workers
from console.tui.screens.choose import ChooseScreen, Item
from console.tui.widgets.tail_search import NEWER, OLDER

if TYPE_CHECKING:
    from console.tui.app import ConsoleApp

_ALL = "all"


class LogFlows:
    """Base of the flows, which set ``_app``."""

    _app: "ConsoleApp"

    def focus_log(self) -> None:
        self._app.log_pane.tail.focus()

    def search_log(self) -> None:
        self._app.log_pane.ask()

    def next_match(self) -> None:
        self._app.log_pane.tail.search.go(OLDER)

    def previous_match(self) -> None:
        self._app.log_pane.tail.search.go(NEWER)

    def toggle_follow(self) -> None:
        self._app.log_pane.tail.toggle_follow()
        self._app.log_pane.tick()

    def log_end(self) -> None:
        self._app.log_pane.tail.log_end()
        self._app.log_pane.tick()

    def worker_lines(self) -> None:
        """Choose whose lines are shown, of those that the lines here name."""
        app, state = self._app, self._app.state
        found = workers(state.ring)
        if not found and not state.worker:
            app.say("One worker's lines: no line here begins with a worker's name, such as (Worker_TP3 pid=...)", "warning")
            return
        items = [Item(_ALL, "all lines", f"{fmt.count(state.ring.end - state.ring.first)} here")]
        items += [
            Item(name, name, f"{fmt.count(count)} here{' (shown now)' if name == state.worker else ''}") for name, count in found.items()
        ]

        def chosen(name: str | None) -> None:
            if name is not None:
                state.worker = "" if name == _ALL else name
                app.log_pane.tail.flush()
                app.log_pane.tick()

        app.push_screen(ChooseScreen("Lines of which worker?", items), chosen)
