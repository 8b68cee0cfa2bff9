"""The log with its title line and its search prompt."""

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input

from console.core import fmt, sanitize
from console.core.logsearch import MAX_PATTERN_CHARS
from console.tui.draw import MUTED, PLAIN, STRONG, WARN, Piece, rule
from console.tui.state import ConsoleState
from console.tui.widgets.lines import Lines
from console.tui.widgets.tail import TailView

_QUIET_S = 5.0
"""From here on the log is called quiet; before, its last line has an age."""


class TailTitle(Lines):
    """Whose log it is, how long it has been quiet, and whether it is followed."""

    def __init__(self, state: ConsoleState, tail: TailView) -> None:
        super().__init__(state)
        self._tail = tail

    def draw(self, width: int, height: int) -> list[Content]:
        return [title(self.state, self._tail, width)]


class FindPrompt(Input):
    """Takes the title's place while a pattern is typed. Enter finds, Escape leaves; an empty pattern ends the search."""

    DEFAULT_CSS = """
    FindPrompt, FindPrompt:focus { border: none; height: 1; padding: 0 1; background: $surface; display: none; }
    """

    def __init__(self) -> None:
        super().__init__(placeholder="find: a regular expression; Enter finds, Escape leaves", max_length=MAX_PATTERN_CHARS)


class LogPane(Vertical):
    """Title, prompt and lines. With a height of one it is the title alone."""

    DEFAULT_CSS = """
    LogPane { height: 1fr; width: 1fr; }
    """

    def __init__(self, state: ConsoleState, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.tail = TailView(state)
        self._title = TailTitle(state, self.tail)
        self._prompt = FindPrompt()

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._prompt
        yield self.tail

    def tick(self) -> None:
        """The title's ages; the lines have a clock of their own."""
        self._title.tick()

    def ask(self) -> None:
        """Open the prompt, with the pattern before."""
        self._prompt.value = self.tail.search.text
        self._swap(prompt=True)
        self.screen.set_focus(self._prompt)  # at once, so that nothing typed ahead is taken for a key of the console
        self._prompt.action_select_all()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._swap(prompt=False)
        self.tail.focus()
        self.tail.search.find(event.value)

    def on_tail_view_moved(self, event: TailView.Moved) -> None:
        event.stop()
        self._title.tick()

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape" and self._prompt.has_focus:
            event.stop()
            self._swap(prompt=False)
            self.tail.focus()

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        if event.widget is self._prompt:
            self._swap(prompt=False)

    def _swap(self, prompt: bool) -> None:
        self._prompt.display, self._title.display = prompt, not prompt
        self._title.tick()


def title(state: ConsoleState, tail: TailView, width: int) -> Content:
    """The line above the log."""
    source = state.log_source
    name = [Piece(source.stage if source else "", PLAIN, 5), Piece("stdout.log" if source else "", PLAIN, 6)]
    only = Piece(f"only {state.worker}: w" if state.worker else "", WARN)
    left = [Piece("log", STRONG if tail.has_focus else PLAIN), only, *name, Piece(_quiet(state), PLAIN, 2), *_gone(state, tail)]
    right = [Piece(sanitize.line(tail.search.words, 60), PLAIN, 1), *_following(tail), Piece("/find", MUTED, 7)]
    return rule(left, right, width)


def _quiet(state: ConsoleState) -> str:
    source, view = state.log_source, state.view
    attempt = (view.stages or {}).get(source.stage) if source and view else None
    if source is None or view is None or attempt is None or attempt.id != source.attempt:
        return ""
    quiet_s = view.age_s(attempt.log_boot_s, state.age_s)
    if quiet_s is None:
        return "never written" if attempt.log_boot_s is None else "age unknown"
    return f"quiet {fmt.age(quiet_s)}" if quiet_s >= _QUIET_S else f"last line {fmt.age(quiet_s)} ago"


def _gone(state: ConsoleState, tail: TailView) -> list[Piece]:
    """What is not there: lines that the host did not send, and lines that the ring has dropped under a reader."""
    lost = state.ring.lost_bytes
    pieces = [Piece(f"{fmt.size(lost)} not sent" if lost else "", WARN, 4)]
    if tail.outlived_lines:
        pieces.append(Piece("dropped from memory, kept while you read", WARN, 3))
    elif tail.skipped_lines:
        pieces.append(Piece(f"{fmt.count(tail.skipped_lines)} lines passed unread", WARN, 3))
    return pieces


def _following(tail: TailView) -> list[Piece]:
    if tail.following:
        return [Piece("follow", PLAIN)]
    new = tail.new_lines
    return [Piece(f"PAUSED, {fmt.count(new)} new: G" if new else "PAUSED: G follows", WARN)]
