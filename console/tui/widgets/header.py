"""The first lines: where we are, how the link stands and how old the numbers are, who else is here, and the time."""

import textwrap

from textual.content import Content

from console.core import fmt, sanitize
from console.core.clocks import clock, zone_name
from console.tui import gates
from console.tui.draw import BAD, GOOD, MUTED, PLAIN, STRONG, WARN, Piece, line
from console.tui.state import LATE, LIVE, ConsoleState
from console.tui.widgets.lines import Lines
from pipeline.contract.transition import ACTION

_NO_DATA, _CONNECTING, _RECONNECTING = "NO DATA", "CONNECTING", "RECONNECTING"
_ZONES_DIFFER_S = 60.0


class Header(Lines):
    """One line."""

    def draw(self, width: int, height: int) -> list[Content]:
        return [header(self.state, width)]


class Banner(Lines):
    """Why the numbers below are old, who has control, how a transition stands; or nothing at all."""

    def draw(self, width: int, height: int) -> list[Content]:
        return [Content.styled(f" {text}", WARN) for text in banner(self.state, width)]


def header(state: ConsoleState, width: int) -> Content:
    left = [
        Piece(target(state), STRONG),
        Piece(state.run or "no run", PLAIN, 3),
        Piece("SIMULATED" if state.view and state.store.simulated else "", WARN),
        Piece("READ-ONLY" if looking_only(state) else "", WARN, 1),
    ]
    right = [Piece(link(state), _link_style(state)), Piece(others(state), PLAIN, 4), Piece(_time(state, width), MUTED, 5)]
    return line(left, right, width)


def target(state: ConsoleState) -> str:
    """``user@host``: the operator's name for the host, and the user that its program runs as, once a frame has said so."""
    if "@" in state.host:
        return state.host
    user = state.view.user if state.view else ""
    return f"{user}@{state.host}" if user else state.host


def looking_only(state: ConsoleState) -> bool:
    """Whether keys only look: by ``--read-only``, or because another console has control."""
    control = state.control
    return state.read_only or bool(state.lost_control_to) or (control is not None and not control.yours and not state.in_control)


def link(state: ConsoleState) -> str:
    """The link's word with the age of the newest frame, or with what comes next."""
    status = state.link
    if status is None:
        return state.starting or "STARTING"
    old = "" if status.age_s is None else fmt.age(status.age_s)
    if status.word in (LIVE, LATE, _NO_DATA):
        return f"{status.word} {old}".rstrip()
    if status.word not in (_CONNECTING, _RECONNECTING):
        return status.word
    word = f"ASLEEP {fmt.duration(state.slept_s)}, {status.word}" if state.slept_s is not None else status.word
    word += f" {status.attempt}" if status.attempt else ""
    if status.next_in_s is None:
        return f"{word} now"
    return f"{word}, next in {status.next_in_s:.0f} s" if status.next_in_s >= 0.5 else f"{word}, next try now"


def banner(state: ConsoleState, width: int) -> list[str]:
    """The lines that mark everything below as old, who has control when it is not this console, and how a transition stands; else none."""
    status = state.link
    if status is None:
        return []
    going = _transition(state)
    if state.current:
        return [
            *going,
            *([f"this console only looks: {gates.not_in_control(state)}"] if looking_only(state) and not state.read_only else []),
        ]
    if status.age_s is None:
        lines = [f"nothing is known of {state.host} yet" if state.view is None else "how old the numbers below are is not known yet"]
    else:
        lines = [f"all numbers below are {fmt.age(status.age_s)} old; jobs on the host do not depend on this"]
    if status.word == _NO_DATA:
        lines.append("the link is up, the host program is silent; r dials anew")
    elif status.detail:
        by_itself = status.word in (_CONNECTING, _RECONNECTING)
        lines += _wrapped(status.detail + ("" if by_itself else "; r dials again"), width - 2, 3)
    return [*lines, *going]


def _transition(state: ConsoleState) -> list[str]:
    """The line about a transition that is armed, under way, or was stopped; without one its code is not even loaded."""
    if state.view is None or ACTION not in state.view.actions:
        return []
    from console.core import transition_live

    line = transition_live.banner(state.view, state.run, None if state.age_s is None else state.view.boot_s + state.age_s)
    return [line] if line else []


def others(state: ConsoleState) -> str:
    """Other consoles on this host, as its program counts them."""
    count = state.view.consoles if state.view else None
    if count is None or count < 2:
        return ""
    return "1 other console" if count == 2 else f"{count - 1} other consoles"


def _time(state: ConsoleState, width: int) -> str:
    if not state.wall_s:
        return ""
    here = clock(state.wall_s, state.utc_offset_s)
    there_s = state.view.utc_offset_s if state.view else None
    if there_s is None or abs(there_s - state.utc_offset_s) < _ZONES_DIFFER_S:
        return here
    if width < 110:
        return f"{here} local"
    return f"{here} local, {clock(state.wall_s, there_s)} host ({zone_name(there_s)})"


def _link_style(state: ConsoleState) -> str:
    if state.link is None:
        return MUTED
    return GOOD if state.link.word == LIVE else WARN if state.link.word in (LATE, _CONNECTING, _RECONNECTING, _NO_DATA) else BAD


def _wrapped(text: str, width: int, most: int) -> list[str]:
    return textwrap.wrap(sanitize.line(text), max(width, 10), max_lines=most, placeholder=" …")
