"""What an attempt is doing, from its files and /proc alone: no memory, so that any agent, at any time, says the same.

Files are parsed again only when they changed; a look once a second stays cheap.
"""

import os
from typing import Any, Dict, List, Optional

from pipeline.contract import layout, telemetry
from pipeline.contract.clock import boot_s, wall_to_boot_s
from pipeline.contract.stages import STAGES
from pipeline.errors import EXIT_USAGE
from pipeline.host import filecache, lookout_view, procs
from pipeline.host.verdict import Files, judge, number_or_0


def view(directory: str, now: Optional[float] = None) -> Dict[str, Any]:
    """One attempt as in ``telemetry.ATTEMPT``, but for ledger and directory. ``now`` is the host's ``boot_s``.

    Never raises: of files that nothing can be concluded from the state is UNREADABLE, and other attempts are not touched by it.
    """
    try:
        return _view(directory, boot_s() if now is None else now)
    except Exception as error:
        return dict(
            dict.fromkeys(telemetry.ATTEMPT),
            stage=os.path.basename(os.path.dirname(directory)),
            attempt=os.path.basename(directory),
            state=telemetry.UNREADABLE,
            why=f"its files cannot be understood: {type(error).__name__}: {error}"[:300],
            log=lookout_view.log(directory),
            events=[],
        )


def _view(directory: str, now: float) -> Dict[str, Any]:
    read = Files(directory)
    state, why = judge(read, now)
    live = state in telemetry.LIVE_STATES
    # Times of another boot are moved onto this boot's clock by the wall clock: negative, but differences stay right.
    shift = _shift(read)
    status = read.status if read.status.get("boot_id") == procs.this_boot() else {}
    began = read.ident or read.spec
    ended = read.exit
    stage = os.path.basename(os.path.dirname(directory))
    return {
        "stage": read.spec.get("stage") or stage,
        "attempt": os.path.basename(directory),
        "by": read.spec.get("by"),
        "state": state,
        "why": why,
        "simulated": bool(read.spec.get("simulated")),
        "started_boot_s": _moved(began.get("boot_s"), shift),
        "started_wall_s": began.get("wall_s"),
        "ended_boot_s": _moved(ended.get("boot_s"), shift) if ended else None,
        "pid": read.ident.get("pid"),
        "supervised": procs.alive(filecache.read_json(os.path.join(directory, layout.SUPERVISOR_LOCK))),
        "heartbeat_boot_s": status.get("boot_s"),
        "code": read.spec.get("code"),
        "progress": _move_all(read.progress, shift) if read.progress is not None else None,
        "ranks": len(lookout_view.ranks(directory)),
        "rank_progress": lookout_view.rank_progress(directory, shift),
        "ranks_expected": lookout_view.ranks_expected(lookout_view.resolved(directory), stage),
        "tree": status.get("tree") if live else None,
        "log": lookout_view.log(directory),
        "exit": {"code": ended.get("code"), "signal": ended.get("signal"), "boot_s": _moved(ended.get("boot_s"), shift)} if ended else None,
        "receipt": read.receipt,
        "holder": read.holder() if state == telemetry.REFUSED else None,
        "refused": None,
        "lookout": lookout_view.lookout(directory, shift),
        "load_prior": None,
        "events": [_event(event, shift) for event in read.events.last],
    }


def newest(run_directory: str, now: Optional[float] = None) -> Dict[str, Dict[str, Any]]:
    """{stage: view} of the attempt that stands for each stage of a run: see ``current``."""
    found = {}
    for stage in STAGES:
        one = current(run_directory, stage, now)
        if one is not None:
            found[stage] = one
    return found


def current(run_directory: str, stage: str, now: Optional[float] = None) -> Optional[Dict[str, Any]]:
    """The view of a stage's live attempt, else of its newest by the host's clock; None without any.

    A launch that was refused never hides what there is: of those that one of this stage's own attempts kept out, that one stands for the
    stage; of all others the newest that got to work, with the newest launch as its ``refused``.
    """
    folder = layout.stage_dir(run_directory, stage)
    names = layout.attempts(run_directory, stage)
    names.sort(key=lambda name: (_claimed_s(os.path.join(folder, name)), name), reverse=True)
    first = None
    for name in names:
        directory = os.path.join(folder, name)
        if first is not None and filecache.read_json(os.path.join(directory, layout.EXIT)) is not None:
            continue  # ended for good: no better than the newest
        one = view(directory, now)
        if one["state"] in telemetry.LIVE_STATES:
            return one
        first = first or one
    while first is not None and first["state"] == telemetry.REFUSED:
        holder = (first["holder"] or {}).get("attempt")
        if holder not in names or holder == first["attempt"]:
            break
        names.remove(first["attempt"])
        first = view(os.path.join(folder, holder), now)
    if first is None:
        return None
    older = names[names.index(first["attempt"]) + 1 :]
    return _standing(first, [os.path.join(folder, name) for name in older], now)


def _standing(newest: Dict[str, Any], older: List[str], now: Optional[float]) -> Dict[str, Any]:
    """``newest``, or the newest of the ``older`` attempts (directories) that got to work, when that one did not."""
    if not _was_refused(newest):
        return newest
    for directory in older:
        one = view(directory, now)
        if not _was_refused(one):
            return dict(one, refused=newest)
    return newest


def _was_refused(one: Dict[str, Any]) -> bool:
    """Whether it ended before any work: a stage looks at settings and input first, and ends with exit code 2 for what is wrong."""
    code = (one["exit"] or {}).get("code")
    return one["state"] in (telemetry.REFUSED, telemetry.LAUNCH_FAILED) or (one["state"] == telemetry.FAILED and code == EXIT_USAGE)


def _claimed_s(directory: str) -> float:
    return number_or_0((filecache.read_json(os.path.join(directory, layout.SPEC)) or {}).get("wall_s"))


def _event(event: Dict[str, Any], shift: float) -> Dict[str, Any]:
    """As it is sent: its times on this boot's clock, so without the boot that they are of (five stages' make a third of a frame)."""
    moved = _move_all(event, shift if event.get("boot_id") != procs.this_boot() else 0.0)
    return {name: value for name, value in moved.items() if name != "boot_id"}


def _shift(read: Files) -> float:
    began = read.ident or read.spec
    if not began or began.get("boot_id") == procs.this_boot():
        return 0.0
    return wall_to_boot_s(number_or_0(began.get("wall_s"))) - number_or_0(began.get("boot_s"))


def _moved(value: Any, shift: float) -> Optional[float]:
    number = telemetry.number(value)
    return None if number is None else telemetry.number(round(number + shift, 3))


def _move_all(values: Dict[str, Any], shift: float) -> Dict[str, Any]:
    if not shift:
        return values
    return {name: _moved(value, shift) if name.endswith("boot_s") else value for name, value in values.items()}
