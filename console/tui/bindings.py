"""The one table of what an operator can do: keys, footer, help, palette and buttons all come from here.

Lower-case keys look, upper-case keys act. An action is dangerous when it changes something on the host; each of those asks before it does.
"""

from collections.abc import Callable
from typing import NamedTuple

from console.tui import gates
from console.tui.free_gate import may_look
from console.tui.state import ConsoleState

_TEXTUAL_NAMES = {">": "greater_than_sign", "/": "slash", ":": "colon", "?": "question_mark"}

When = Callable[[ConsoleState], str | None]
"""Why the action cannot be done now, or None."""


def always(state: ConsoleState) -> str | None:
    return None


class Action(NamedTuple):
    """One thing to do. ``id`` names the method of ``flows.Flows`` that does it."""

    id: str
    keys: tuple[str, ...]
    """The first is the one that is shown. None at all: palette only."""
    label: str
    short: str
    """For the footer; empty: not in it."""
    help: str
    dangerous: bool = False
    when: When = always

    @property
    def key(self) -> str:
        return self.keys[0] if self.keys else ""


ACTIONS: tuple[Action, ...] = (
    Action("next_stage", (">",), "Next stage", "next", "the next step, or the whole way: shows it, and asks", True, gates.next_stage),
    Action("start_stage", ("S",), "Start a stage", "start", "choose a stage: shows what runs, and asks", True, gates.start),
    Action("stop_stage", ("X",), "Stop a stage", "stop", "choose one: says what depends on it, and asks", True, gates.stop),
    Action("free_gpus", ("F",), "Free GPUs", "free GPUs", "who holds them; ends what you choose, with proof; asks", True, may_look),
    Action("take_over", ("T",), "Take over", "", "control from another console; both logs keep it", True, gates.take_over),
    Action("dump_stacks", (), "Dump stacks", "", "where each process stands; asks first (D in e)", True, gates.dump),
    Action("focus_log", ("l",), "Log", "log", "cursor into the log: arrows and PageUp scroll it"),
    Action("evidence", ("e",), "Evidence", "evidence", "how it stands and why; gaps, plots, alarms, facts"),
    Action("details", ("d",), "Details", "details", "one stage: attempt, process, exit, receipt"),
    Action("samples", ("s",), "Samples", "samples", "read the answers while they are generated", False, gates.samples),
    Action("transition", ("t",), "Transition", "", "one that runs or is armed; or what the last came to", False, gates.transition),
    Action("audit", ("A",), "Audit log", "audit", "what was done, from here and on the host"),
    Action("history", ("h",), "History", "", "every attempt that has ended, and what it came to", False, gates.asks),
    Action("since", (), "Since", "", "what happened meanwhile, or in the last day", False, gates.run_asks),
    Action("count_files", (), "Count all files", "", "of the extraction, each held against the ledger", False, gates.run_asks),
    Action("search_log", ("/",), "Find", "find", "text in the log, as a regular expression"),
    Action("next_match", ("n",), "Older match", "", "the next older line that matches", False, gates.match),
    Action("previous_match", ("N",), "Newer match", "", "the next newer line that matches", False, gates.match),
    Action("toggle_follow", ("f",), "Follow", "", "follow the log's end, or stand still"),
    Action("log_end", ("G", "end"), "Log end", "", "the log's newest line, and follow it"),
    Action("worker_lines", ("w",), "One worker", "", "the log of one worker, such as Worker_TP3; or of all", False, gates.log),
    Action("open_run", ("o",), "Open a run", "", "watch another run of this host", False, gates.open_run),
    Action("reconnect", ("r",), "Dial now", "", "dial at once, not at the next time", False, gates.reconnect),
    Action("palette", (":", "ctrl+p"), "All actions", "all", "every action by name; what is not possible says why"),
    Action("help", ("?", "f1"), "Help", "help", "this list"),
    Action("incident", ("ctrl+s",), "Incident bundle", "", "one file of this moment: screen, frames, log, dumps"),
    Action("screenshot", (), "Screenshot", "", "the screen as SVG, into the state directory"),
    Action("test_alert", (), "Send test alert", "", "from the host, where the run's settings say; asks", True, gates.test_alert),
    Action("next_theme", (), "Next theme", "", "dark, light or mono"),
    Action("quit", ("q", "ctrl+q"), "Quit", "quit", "leave; jobs on the host go on"),
)

BY_ID: dict[str, Action] = {action.id: action for action in ACTIONS}


def keys() -> list[tuple[str, Action]]:
    """Every key, by Textual's name, with its action."""
    return [(_TEXTUAL_NAMES.get(key, key), action) for action in ACTIONS for key in action.keys]


def reason(action: Action, state: ConsoleState) -> str | None:
    """Why an action cannot be done now; None when it can. With ``--read-only`` none that changes something can, whatever else is so."""
    if action.dangerous and state.read_only:
        return gates.act(state)
    return action.when(state)
