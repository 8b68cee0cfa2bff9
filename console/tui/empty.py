"""What the progress block says when there is no attempt to tell of: each empty state with what to do next."""

from textual.content import Content

from console.tui import gates
from console.tui.draw import MUTED, PLAIN, STRONG, Piece, line
from console.tui.state import ConsoleState

_GIVEN_UP = ("AUTH NEEDED", "HOST KEY", "FAILED", "CLOSED")


def lines(state: ConsoleState, width: int) -> list[Content]:
    """At most three lines, the first of them enough on its own."""
    return [line([Piece(text, style)], [], width) for text, style in _words(state)]


def _words(state: ConsoleState) -> list[tuple[str, str]]:
    if state.view is None and state.link is not None and state.link.word in _GIVEN_UP:
        return [(f"not connected to {state.host}", STRONG), ("r dials again", PLAIN)]
    if state.view is None:
        return [
            (state.starting or f"waiting for the first reading of {state.host}", STRONG),
            ("nothing is known yet, so nothing is shown", MUTED),
        ]
    if state.run is None:
        if state.runs is None:
            return [("asking the host for its runs", STRONG)]
        if not state.runs:
            return [
                (f"no run on {state.host} yet", STRONG),
                ("a run is one settings file; this writes one there, every key explained:", MUTED),
                (f"eaglewatch init {state.host} NAME --preset generic", PLAIN),
            ]
        return [("no run chosen", STRONG), (f"o opens one of {len(state.runs)}: {', '.join(state.runs[:6])}", PLAIN)]
    if state.view.stages is None:
        return [(f"the host could not tell about run {state.run}", STRONG), ("see e, and the host program's complaint there", MUTED)]
    if state.view.run is not None and state.view.run.exists is False and not state.settings_offered:
        return [
            (f"run {state.run} is not on {state.host} yet", STRONG),
            ("this writes its settings there, every key explained:", MUTED),
            (f"eaglewatch init {state.host} {state.run} --preset generic", PLAIN),
        ]
    if state.settings_missing and not state.settings_offered:
        return [
            (f"run {state.run} has no settings on the host: nothing can start", STRONG),
            (f"eaglewatch init {state.host} {state.run} --preset generic", PLAIN),
        ]
    asks = "" if state.read_only else "; it shows what will be done, and asks"
    return [(f"nothing has run in {state.run} yet", STRONG), (f"{gates.next_words(state)}{asks}", PLAIN)]
