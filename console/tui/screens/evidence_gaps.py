"""How long it took from one unit to the next: learned figures, the newest gaps in their order, and how many there are of each length."""

import math
from collections.abc import Sequence

from textual.content import Content

from console.core import fmt
from console.tui import health
from console.tui.draw import MUTED, STRONG, WARN
from console.tui.plot import AROUND, BARS, plot
from console.tui.state import ConsoleState
from pipeline.contract.signals import GapStats

_ROWS = 4
_MOST_CLASSES = 8
_BAR_COLUMNS = 40


def gap_lines(state: ConsoleState, gaps: Sequence[float], width: int) -> list[Content]:
    """``gaps``: those that this console has seen, oldest first, in seconds."""
    attempt = state.attempt
    if attempt is None:
        return [Content.styled(" no attempt to tell of", MUTED)]
    found = health.verdict(state, attempt)
    by_phase = dict(attempt.lookout.gaps) if attempt.lookout else {}
    if found is not None and found.gaps.count:
        by_phase[found.phase] = found.gaps
    head = f" {'learned in':<12}{'gaps':>8}{'median':>12}{'99 % within':>14}{'longest':>12}"
    lines = [Content.styled(head, MUTED), *(_stats(phase, one) for phase, one in by_phase.items())]
    lines += [] if by_phase else [Content.styled(" nothing yet: gaps are learned while it is steady", MUTED)]
    now_s = found.gap_s if found else None
    if now_s is not None:
        lines.append(Content.assemble((" open now", MUTED), f"     {fmt.age(now_s)}"))
    if not gaps:
        return [*lines, Content(), Content.styled(" this console has seen no gap yet", MUTED)]
    newest = gaps[-max(width - AROUND, 10) :]
    lines += [Content(), Content.styled(f" The newest {fmt.count(len(newest))} that this console has seen", STRONG)]
    lines += plot(newest, _ROWS, fmt.age, "oldest", "newest" if len(newest) > 12 else "")
    return [*lines, Content(), Content.styled(f" How many of each length, of {fmt.count(len(gaps))}", STRONG), *_classes(gaps, now_s)]


def _stats(phase: str, one: GapStats) -> Content:
    figures = [fmt.UNKNOWN if value is None else fmt.age(value) for value in (one.median_s, one.q99_s, one.longest_s)]
    return Content(f" {phase or 'unknown':<12}{fmt.count(one.count):>8}{figures[0]:>12}{figures[1]:>14}{figures[2]:>12}")


def _classes(gaps: Sequence[float], now_s: float | None) -> list[Content]:
    """A line for each doubling of the length; where the gap that is open now stands is marked."""
    counts: dict[int, int] = {}
    for one in gaps:
        counts[_class(one)] = counts.get(_class(one), 0) + 1
    last = max(counts)
    first = max(min(counts), last - _MOST_CLASSES + 1)
    low = sum(count for at, count in counts.items() if at < first)
    counts[first] = counts.get(first, 0) + low
    most = max(counts[at] for at in counts if at >= first)
    lines = []
    for at in range(first, last + 1):
        count = counts.get(at, 0)
        bar = "█" * max(round(_BAR_COLUMNS * count / most), 1 if count else 0)
        here = now_s is not None and (_class(now_s) == at or (at == first and _class(now_s) < at))
        lines.append(
            Content.assemble(
                (f"   up to {fmt.age(2.0**at):<12}", MUTED), (bar, BARS), f" {fmt.count(count)}", ("  <- now", WARN) if here else ""
            )
        )
    if now_s is not None and _class(now_s) > last:
        lines.append(Content.styled(f"   longer: {fmt.age(now_s)} <- now", WARN))
    return lines


def _class(seconds: float) -> int:
    """The power of two that it does not exceed; the least is an eighth of a second."""
    return max(math.ceil(math.log2(seconds)), -3) if seconds > 0 else -3
