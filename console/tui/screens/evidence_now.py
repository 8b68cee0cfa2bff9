"""How a job stands and why: the judgement, a row a signal, and when it would be judged worse."""

import textwrap

from rich.cells import cell_len
from textual.content import Content

from console.core import fmt
from console.core.attempt import Attempt
from console.tui import health, words
from console.tui.draw import MUTED, PLAIN, STRONG, WARN
from console.tui.state import ConsoleState
from pipeline.contract import signals
from pipeline.contract.signals import Row, Verdict

_AFTER = {signals.FINE: signals.QUIET, signals.QUIET: signals.BUSY_NO_PROGRESS, signals.IDLE: signals.STALLED_IDLE}
_HEADS = ("signal", "value", "changed", "usual", "verdict")
_GAP = 2
_ALARMS = 2
_WELL = ("", "moves", "alive", "held", "all there")
_NO_PROOF = ("memory", "heartbeat", "log")
"""Signals whose silence says nothing against the job."""
_WHERE = {
    signals.QUIET: "while something moves: only noted",
    signals.IDLE: "only while nothing moves at all",
    signals.STALLED_IDLE: "only while nothing moves at all",
    signals.STALLED_SPIN: "only while the GPUs are busy at low power",
    signals.BLOCKED_IO: "only while a process waits for a disk",
    signals.BUSY_NO_PROGRESS: "whatever moves",
}


def now_lines(state: ConsoleState, width: int) -> list[Content]:
    """The lines of the sheet's first part."""
    attempt = state.attempt
    if attempt is None:
        return [Content.styled(" no attempt to tell of", MUTED)]
    found = health.verdict(state, attempt)
    raised = [(of, one) for of in health.watched(state) for one in health.alarms(of)]
    lines = [Content.styled(f" {health.alarm_words(state, of, one)}: {one.line}", WARN) for of, one in raised[:_ALARMS]]
    if len(raised) > _ALARMS:
        lines.append(Content.styled(f" +{len(raised) - _ALARMS} more alarms: 4 shows them", WARN))
    if found is None:
        why = f"it does not run: {words.state_word(state, attempt)}" if not attempt.live else "nobody has looked at it yet"
        return [*lines, Content.assemble(" ", (attempt.stage.upper(), STRONG), f"  {why}"), *_by_host(state, attempt)]
    lasting = "" if found.severity == signals.OK else health.lasting(state, found)
    told = f"{attempt.stage.upper()} {found.level} {lasting}".rstrip()
    since = _ago(state, found.since_boot_s)
    head = Content.assemble(
        " ",
        (told, health.STYLES[found.severity] or STRONG),
        f"  phase {found.phase or 'not told'}",
        (f", called so for {since}" if since else "", MUTED),
    )
    lines = [head, *_wrapped(found.line, width), *lines, *_by_host(state, attempt)]
    if not state.current:
        lines.append(Content.styled(f" as of {fmt.age(state.age_s)} ago: no clock runs on while nothing is heard", WARN))
    return [*lines, *_offer(state, found), *_next(found), Content(), *_table(state, found, width), Content(), *_limits(found)]


def _wrapped(text: str, width: int) -> list[Content]:
    return [Content(f" {one}") for one in textwrap.wrap(text, max(width - 2, 10), break_on_hyphens=False)]


def _by_host(state: ConsoleState, attempt: Attempt) -> list[Content]:
    """What the host's own lookout says, which goes on while no console looks."""
    host = attempt.lookout
    if host is None:
        return [Content.styled(" the host's own lookout has told nothing of it", MUTED)] if attempt.live else []
    looked = _ago(state, host.boot_s)
    told = f" the host's own lookout: {host.level or 'no judgement yet'}" + (f", looked {looked} ago" if looked else "")
    return [Content.styled(told, MUTED)]


def _table(state: ConsoleState, found: Verdict, width: int) -> list[Content]:
    rows = [_cells(state, one) for one in found.rows]
    if not rows:
        return [Content.styled(" no signal was looked at", MUTED)]
    wide = [max(cell_len(one[at]) for one in (_HEADS, *rows)) for at in range(len(_HEADS))]
    over = sum(wide) + _GAP * (len(wide) - 1) + 1 - width
    for at in (3, 1):  # what is usual gives way first, then the value; the verdict never
        if over > 0:
            cut = min(over, max(wide[at] - 10, 0))
            wide[at], over = wide[at] - cut, over - cut
    loud = found.severity in (signals.AMBER, signals.RED)
    lines = [_row(_HEADS, wide, (MUTED,) * 5)]
    for cells in rows:
        well = cells[4] in _WELL or cells[0] in _NO_PROOF
        lines.append(
            _row(cells, wide, (STRONG if not well and loud else PLAIN, PLAIN, MUTED, MUTED, PLAIN if well else WARN if loud else MUTED))
        )
    return lines


def _cells(state: ConsoleState, one: Row) -> tuple[str, str, str, str, str]:
    return one.name, one.value, _ago(state, one.changed_boot_s) or fmt.UNKNOWN, _usual(one) or fmt.UNKNOWN, one.verdict


def _usual(one: Row) -> str:
    return one.usual.removeprefix("usual ").replace(", longest ", ", to ")


def _row(cells: tuple[str, ...], wide: list[int], styles: tuple[str, ...]) -> Content:
    parts: list[str | tuple[str, str]] = [" "]
    for text, columns, style in zip(cells, wide, styles, strict=True):
        cut = text if cell_len(text) <= columns else f"{text[: columns - 1]}…"
        parts.append((cut + " " * (columns - cell_len(cut) + _GAP), style))
    return Content.assemble(*parts)


def _limits(found: Verdict) -> list[Content]:
    """When each level begins, by how long no unit has come."""
    if not found.limits:
        return []
    gap_s = found.gap_s
    lines = [Content.styled(f" without a new unit for {fmt.duration(gap_s)} now; it is called", MUTED)]
    wide = max(len(level) for level, _ in found.limits)
    for level, at_s in sorted(found.limits, key=lambda one: one[1]):
        here = level == found.level
        left = "now" if here else "" if gap_s is None else "passed" if gap_s >= at_s else f"in {fmt.duration(at_s - gap_s)}"
        lines.append(
            Content.assemble(
                f"   {level:<{wide}}  at {fmt.duration(at_s):<12}",
                (f"{left:<16}", STRONG if here else MUTED),
                (_WHERE.get(level, ""), MUTED),
            )
        )
    return lines


def _next(found: Verdict) -> list[Content]:
    """The level that comes next if all stays as it is."""
    level, gap_s = _AFTER.get(found.level, ""), found.gap_s
    at_s = dict(found.limits).get(level)
    if at_s is None or gap_s is None or at_s <= gap_s:
        return []
    return [
        Content.styled(
            f" next: {level} at {fmt.duration(at_s)} without a new unit, in {fmt.duration(at_s - gap_s)}; all limits are below", MUTED
        )
    ]


def _offer(state: ConsoleState, found: Verdict) -> list[Content]:
    if found.severity != signals.RED or state.read_only:
        return []
    return [Content.styled(" D dumps the stacks of its processes: who waits, and where; it asks first", STRONG)]


def _ago(state: ConsoleState, boot_s: float | None) -> str:
    """How long before the newest frame, as words; empty when it is not known."""
    return "" if boot_s is None or state.view is None else fmt.age(state.view.boot_s - boot_s)
