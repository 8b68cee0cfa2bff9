"""One signal each to exactly the confirmed processes: pinned by pidfd, then compared by boot, start ticks, user, program and exec."""

import signal
from typing import Any, Dict, List, Sequence

from pipeline.host import procs
from pipeline.host.holder_rows import image, program, user_id

SENT, GONE, CHANGED, NOT_PERMITTED = "sent", "gone", "changed", "not permitted"

Row = Dict[str, Any]


def send(row: Row, number: int) -> str:
    """Signal the process of a confirmed row; returns one of the words above.

    ``changed``: the same process with another user or program than was confirmed, or the same one begun anew; it is left alone.
    """
    pid = row["pid"]

    def same() -> bool:
        return user_id(pid) == row["uid"] and program(pid) == row["exe"] and image(pid) == row.get("image")

    if not procs.alive(row):
        return GONE
    if not same():
        return CHANGED if procs.alive(row) else GONE
    if procs.signal_process(row, number, same):
        stat = procs.read_stat(pid)
        if number == signal.SIGTERM and stat is not None and stat.state in "Tt":
            procs.signal_process(row, signal.SIGCONT, same)  # a frozen process could not act on it
        return SENT
    if not procs.alive(row):
        return GONE
    return NOT_PERMITTED if same() else CHANGED


def send_all(rows: Sequence[Row], number: int) -> List[List[Any]]:
    """[[pid, word]] of each."""
    return [[row["pid"], send(row, number)] for row in rows]


def leaders(rows: Sequence[Row]) -> List[Row]:
    """Those whose parent is not among them: a server ends its own workers, in its own order."""
    pids = {row["pid"] for row in rows}
    return [row for row in rows if row["ppid"] not in pids]
