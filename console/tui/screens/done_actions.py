"""How an action of the host ended, for the card about ends: its own line, where it goes on, and the key that shows the rest."""

from typing import TYPE_CHECKING

from textual.content import Content

from console.core import free_live, transition_live
from console.core.action import Action
from console.core.attempt import Attempt
from console.tui import words
from console.tui.draw import GOOD, MUTED, WARN, rows
from console.tui.state import ConsoleState
from pipeline.contract import transition
from pipeline.contract.stages import ACTIONS

if TYPE_CHECKING:
    from console.core.views import HostView

_KEYS = {transition.ACTION: "t shows what each step came to; > plans the next one"}
_ELSE = "F, then Receipt, shows the readings and who was ended"


def is_action(attempt: Attempt) -> bool:
    """Whether it is of an action of the host, and of no stage."""
    return attempt.stage in ACTIONS


def word(attempt: Attempt) -> str:
    """``done``, ``stopped``, ``CRASHED``: what its receipt calls it, else how it ended."""
    receipt = attempt.receipt.source if attempt.receipt else {}
    return str(receipt.get("outcome") or "") or free_live.ended_word(attempt.state)


def line(view: "HostView | None", attempt: Attempt) -> str:
    """What it came to, in its own words."""
    one = _action(view, attempt)
    if one is None:
        return attempt.why
    return transition_live.standing(one) if attempt.stage == transition.ACTION else free_live.standing(one)


def lines(state: ConsoleState, attempt: Attempt) -> list[Content]:
    """The card of one."""
    one = _action(state.view, attempt)
    alert = transition_live.alert(one) if one is not None else ""
    on = transition_live.next_to_do(one) if one is not None and attempt.stage == transition.ACTION else ""
    pairs = [("ended", words.when(state, attempt.ended_boot_s)), ("by", attempt.by or "unknown"), ("came to", line(state.view, attempt))]
    pairs += [("ALERT", f"the GPUs are held: {alert}")] if alert else []
    pairs += [("to go on", on)] if on else []
    said = _KEYS.get(attempt.stage, _ELSE)
    return [*rows(pairs), Content(), Content.styled(f" {said}", MUTED if attempt.done else WARN)]


def style(attempt: Attempt) -> str:
    return GOOD if attempt.fresh else WARN


def _action(view: "HostView | None", attempt: Attempt) -> Action | None:
    one = view.actions.get(attempt.stage) if view else None
    return one if one is not None and one.attempt.id == attempt.id else None
