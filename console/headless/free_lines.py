"""What ``eaglewatch free-gpus`` prints: the plan as a table, the steps, the receipt."""

from collections.abc import Collection
from typing import Any

from console.core import cells, fmt, free_receipt, free_words
from console.core.free_plan import Key, Plan, Row

_HEAD = ("", "pid", "user", "since", "GPUs", "MiB", "whose", "what", "why")
_MOST = (3, 9, 12, 12, 12, 12, 14, 60, 200)


def plan(host: str, found: Plan, selection: Collection[Key], accepted: dict[str, int], command: str) -> list[str]:
    """The whole plan: GPUs, who holds them, what would be done in which order, and the command that does it.

    ``accepted``: {UUID: bytes} of the run's accepted idle baseline.
    """
    mark = "SIMULATED  " if found.simulated else ""
    lines = [f"{mark}GPUs of {host}: {free_words.summary(found, accepted)}"]
    if found.trouble:
        lines.append(f"NOT THE EXPECTED GPUs: {found.trouble}; nothing can be freed until that is so")
    lines += [f"! {one}" for one in free_words.blind_spots(found)]
    lines += ["", *table(found, selection), ""] if found.rows else ["", free_words.nobody(found), ""]
    lines += [f"{number}. {name}: {what}" for number, (name, what) in enumerate(free_words.steps(found, selection), 1)]
    if any(one.killable for one in found.rows) and not selection:
        named = "" if found.source.get("run") else "--run NAME proposes what is left of that run and its server; "
        lines += ["", f"nothing is selected: {named}--select PID takes a process, --all each that can be ended"]
    lines += ["", *free_words.cures(found)] if free_words.cures(found) else []
    return [*lines, "", f"plan {found.digest}; to do this: {command}"]


def table(found: Plan, selection: Collection[Key]) -> list[str]:
    """One row a process, and how it would be ended; ``x`` in front of those that are selected."""
    rows = [_HEAD, *(_cells(one, selection) for one in found.rows)]
    wide = [min(max(cells.width(row[at]) for row in rows), _MOST[at]) for at in range(len(_HEAD))]
    return [" ".join(cells.fit(text, wide[at]) for at, text in enumerate(row)).rstrip() for row in rows]


def _cells(row: Row, selection: Collection[Key]) -> tuple[str, ...]:
    mark = "[x]" if row.key in selection else "[ ]" if row.killable else " - "
    how = f"; {row.how}" if row.killable else ""
    title = row.title or row.exe or "?"
    return (
        mark,
        str(row.pid),
        row.user or "?",
        fmt.duration(row.since_s),
        row.gpus,
        free_words.mib_words(row),
        row.whose_words,
        title,
        row.why + how,
    )


def receipt(found: dict[str, Any], simulated: bool) -> list[str]:
    """The verdict first, then what shows it."""
    lines = [f"{'SIMULATED  ' if simulated else ''}{free_receipt.line(found)}"]
    for heading, rows in free_receipt.sections(found):
        lines += [f"{heading}:", *(f"  {row}" for row in rows)]
    return lines
