"""Who is on the GPUs besides those that a transition may end, and whether what the cards hold is all theirs. Pure."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from pipeline.contract import free, transition
from pipeline.host import free_verdict, transition_order
from pipeline.host.transition_order import Plan

_BESIDE_BYTES = 256 * free.MIB
"""What a card holds beyond the sum of its processes' own memory: 9 MiB a context, measured on an H200; shared memory may add to it. Any
other process has a context of its own, of 500 MiB and more."""

Row = Dict[str, Any]


class Word(NamedTuple):
    """What there is besides."""

    line: str
    exit_code: int
    """0: nobody else."""
    unaccounted_bytes: int = 0
    """Of all cards together, when that is what it stops at."""
    unheld: Sequence[Dict[str, Any]] = ()
    """[{index, uuid, mib}] of the cards that it is on."""


def look(plan: Plan, service: Optional[Dict[str, Any]], found: Dict[str, Any]) -> Word:
    """``plan`` is the transition's, ``found`` a plan of freeing GPUs: its rows, cards and notes."""
    if found["trouble"]:
        return Word(found["trouble"], transition.EXIT_CANNOT_TELL)
    rows = others(plan, service, found["rows"])
    if rows:
        return Word(free_verdict.held_by(rows, []), free.EXIT_HELD)
    cards = [one for one in found["gpus"] if not plan["wanted"] or one["uuid"] in plan["wanted"]]
    sizes = [(card, _unaccounted_bytes(card, found["rows"])) for card in cards]
    unheld = [{"index": card["index"], "uuid": card["uuid"], "mib": free.mib(size)} for card, size in sizes if size]
    told = [*filter(None, [free.unheld(unheld), *map(_unread, cards), found["failed"]])]
    if told:
        return Word("; ".join(told), transition.EXIT_CANNOT_TELL, sum(size for _, size in sizes), unheld)
    blind = [*([] if found["complete"] else found["notes"]), *filter(None, (_untold(card, found["rows"]) for card in cards))]
    if blind:
        return Word("nobody else that is visible from here is on the GPUs: %s" % "; ".join(blind), 0)
    return Word("nobody else is on the GPUs", 0)


def others(plan: Plan, service: Optional[Dict[str, Any]], rows: List[Row]) -> List[Row]:
    """Holders that are neither the named service's nor left by this run: nothing on the way may touch them."""
    holding = [row for row in rows if row["uses_memory"] and not row["daemon"]]
    if plan["wanted"]:
        holding = [row for row in holding if row["any_gpu"] or any(one["uuid"] in plan["wanted"] for one in row["gpus"])]
    return [row for row in holding if not _may_go(row, service, plan["run"])]


def left(rows: List[Row]) -> List[Row]:
    """What ended attempts of this run left: the only processes that are signalled on the way."""
    return [row for row in rows if row["killable"] and row["manager"] is None and row["relation"] == "ours, this run"]


def ending(rows: List[Row]) -> List[Row]:
    """What ended attempts of this run left, and their supervisors are still ending."""
    return [row for row in rows if row["killable"] and row["ending"] and row["relation"] == "ours, this run"]


def _may_go(row: Row, service: Optional[Dict[str, Any]], run: str) -> bool:
    if row["killable"] and (row["manager"] is None or row["ending"]):
        return row["relation"] == "ours, this run"
    return bool(row["killable"] and service and transition_order.same_service(row["manager"], service, run))


def _unread(card: Dict[str, Any]) -> str:
    """Why it is not known what a card holds, or who is on it."""
    if not card["listed"]:
        return "GPU %s: its process list cannot be read" % card["index"]
    return "" if isinstance(card["used_bytes"], int) else "GPU %s: its memory cannot be read" % card["index"]


def _untold(card: Dict[str, Any], rows: List[Row]) -> str:
    """Whose share of a card the driver lists and does not tell: then nothing can be weighed."""
    pids = [str(row["pid"]) for row in rows for one in row["gpus"] if one["uuid"] == card["uuid"] and one.get("untold")]
    return "GPU %s: the driver does not tell how much process %s holds" % (card["index"], ", ".join(pids[:8])) if pids else ""


def _unaccounted_bytes(card: Dict[str, Any], rows: List[Row]) -> int:
    """What a card holds that no process which is seen here accounts for; 0 too where it cannot be told."""
    if _unread(card) or _untold(card, rows):
        return 0
    counted = [row for row in rows if not row["daemon"]]  # a daemon has no memory worth speaking of
    mine = [one["mib"] for row in counted for one in row["gpus"] if one["uuid"] == card["uuid"] and isinstance(one["mib"], int)]
    size = int(card["used_bytes"]) - sum(mine) * free.MIB
    return size if size > (_BESIDE_BYTES if mine else free.IDLE_CAP_BYTES) else 0
