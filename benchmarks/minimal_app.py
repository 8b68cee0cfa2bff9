"""The least that a Textual app can be: what the console's first paint and key are measured beside. ``k`` adds a stroke to the line."""

from textual.app import App, ComposeResult
from textual.widgets import Static


class Minimal(App[None]):
    BINDINGS = [("k", "stroke", "stroke")]  # noqa: RUF012 - Textual's own declaration

    def __init__(self) -> None:
        super().__init__()
        self._strokes = 0

    def compose(self) -> ComposeResult:
        yield Static("ready")

    def action_stroke(self) -> None:
        self._strokes += 1
        self.query_one(Static).update(f"ready, stroke {self._strokes};")


if __name__ == "__main__":
    Minimal().run()
