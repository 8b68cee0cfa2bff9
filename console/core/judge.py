"""What speaks for a job's advance: facts and how old they are, out of the newest frames. No verdicts.

Times and counts are the host's own; differences are taken between frames, so a lost link changes ages and windows, never a fact.
"""

from collections import deque
from typing import Any

import msgspec

from console.core.attempt import Attempt, Progress
from console.core.files import Files
from console.core.views import HostView
from pipeline.contract.gap_stats import GapMeter

WINDOW_S = 15.0
_MIN_WINDOW_S = 1.0
_KEPT_S = 2 * WINDOW_S
_APART_S = 0.25
_MAX_VIEWS = 256
_SPARE_CORES = 0.5
"""By which a tree's CPU time may exceed the host's cores, its clock ticks being coarse."""


class Judgement(msgspec.Struct, frozen=True):
    """The evidence about one attempt. None: not measured, which is never the same as nothing.

    Ages include the frame's own age; the window is host time before the newest frame.
    """

    window_s: float | None = None
    """What the differences below were taken over: up to 15 s, less while frames are few."""
    units: int | None = None
    files: int | None = None
    bytes: int | None = None
    cpu_pct: float | None = None
    """Of the attempt's process tree, 100 being one core. Lower than the truth when a process of the tree ended meanwhile."""
    gpu_pct: float | None = None
    """Mean over the window's readings of every GPU of the host that could be read."""
    gpus_read: int | None = None
    gpus_listed: int | None = None
    beat_age_s: float | None = None
    last_file_age_s: float | None = None
    last_unit_age_s: float | None = None
    log_quiet_s: float | None = None
    usual_gap_s: float | None = None
    """Median of the gaps between units so far, as far as this console saw them; the gap that is open now is not in it."""
    longest_gap_s: float | None = None
    gaps: int = 0
    """How many gaps that rests on."""


class History:
    """The newest half minute of views of one host, and the gaps between units of its attempts. ``observe`` every view."""

    def __init__(self) -> None:
        self._views: deque[HostView] = deque(maxlen=_MAX_VIEWS)
        self._gaps: dict[tuple[str, str], GapMeter] = {}

    @property
    def newest(self) -> HostView | None:
        return self._views[-1] if self._views else None

    def observe(self, view: HostView) -> None:
        """Take a view. One of another boot begins anew; an older one than the newest changes nothing."""
        newest = self.newest
        if newest and newest.boot_id != view.boot_id:
            self._views.clear()
            self._gaps.clear()
        elif newest and view.boot_s < newest.boot_s:
            return
        if len(self._views) > 1 and view.boot_s - self._views[-2].boot_s < _APART_S:
            self._views.pop()  # frames that come faster than they are needed: the newest stands for them
        self._views.append(view)
        while self._views[0].boot_s < view.boot_s - _KEPT_S:
            self._views.popleft()
        if view.stages is None:
            return
        current = {(stage, one.id): one for stage, one in view.stages.items()}
        for key in [key for key in self._gaps if key not in current]:
            del self._gaps[key]
        for key, one in current.items():
            if one.progress is not None:
                self._gaps.setdefault(key, GapMeter()).observe(one.progress.done, one.progress.last_boot_s, view.boot_s)

    def gaps(self, attempt: Attempt) -> GapMeter | None:
        return self._gaps.get((attempt.stage, attempt.id))

    def window(self, attempt: Attempt, seconds: float = WINDOW_S) -> list[HostView]:
        """The views of the last ``seconds`` that tell of this attempt, oldest first; where frames are rarer, the newest two."""
        views = [view for view in self._views if _attempt(view, attempt) is not None]
        since_s = self._views[-1].boot_s - seconds if self._views else 0.0
        inside = [view for view in views if view.boot_s >= since_s]
        return inside if len(inside) != 1 else views[-2:]


def judge(history: History, attempt: Attempt, frame_age_s: float | None) -> Judgement:
    """The evidence about ``attempt``, an attempt of the newest view that ``history`` has seen. ``frame_age_s``: that view's own age."""
    newest = history.newest
    if newest is None:
        return Judgement()
    views = history.window(attempt)
    progress, gaps = attempt.progress, history.gaps(attempt)
    return Judgement(
        **_differences(views, attempt, newest.cpus),
        **_gpus(views, newest),
        beat_age_s=newest.age_s(progress.beat_boot_s if progress else None, frame_age_s),
        last_file_age_s=newest.age_s(attempt.ledger.boot_s if attempt.ledger else None, frame_age_s),
        last_unit_age_s=newest.age_s(progress.last_boot_s if progress else None, frame_age_s),
        log_quiet_s=newest.age_s(attempt.log_boot_s, frame_age_s),
        usual_gap_s=gaps.usual_s if gaps else None,
        longest_gap_s=gaps.longest_s if gaps else None,
        gaps=gaps.count if gaps else 0,
    )


def _attempt(view: HostView, attempt: Attempt) -> Attempt | None:
    found = (view.stages or {}).get(attempt.stage)
    return found if found is not None and found.id == attempt.id else None


def _differences(views: list[HostView], attempt: Attempt, cpus: int | None) -> dict[str, Any]:
    """What the attempt gained between the first view and the last."""
    window_s = views[-1].boot_s - views[0].boot_s if views else 0.0
    if window_s < _MIN_WINDOW_S:
        return {}
    first, last = _attempt(views[0], attempt), _attempt(views[-1], attempt)
    assert first is not None and last is not None  # window() only gives such views
    by_ledger = first.ledger is not None and last.ledger is not None
    before, after = (first.ledger, last.ledger) if by_ledger else (first.directory, last.directory)
    return {
        "window_s": window_s,
        "units": _gain(first.progress, last.progress, "done"),
        "files": _gain(before, after, "files"),
        "bytes": _gain(before, after, "bytes"),
        "cpu_pct": _cpu_pct(first.cpu_s, last.cpu_s, window_s, cpus),
    }


def _gain(before: Progress | Files | None, after: Progress | Files | None, name: str) -> int | None:
    """A count that went back belongs to something else: nothing was measured."""
    low, high = getattr(before, name, None), getattr(after, name, None)
    return None if low is None or high is None or high < low else high - low


def _cpu_pct(before_s: float | None, after_s: float | None, window_s: float, cpus: int | None) -> float | None:
    if before_s is None or after_s is None or not 0 <= before_s <= after_s:
        return None
    cores = (after_s - before_s) / window_s
    return None if cpus is not None and cores > cpus + _SPARE_CORES else 100 * cores


def _gpus(views: list[HostView], newest: HostView) -> dict[str, Any]:
    """Mean utilisation over the rounds of readings taken in the window, and how many GPUs the newest of them could read."""
    rounds: dict[float, list[float]] = {}
    for view in views:
        taken_s = view.nvml.boot_s if view.nvml else None
        if view.gpus is not None and taken_s is not None and newest.boot_s - WINDOW_S <= taken_s <= view.boot_s:
            rounds[taken_s] = [gpu.util_pct.value for gpu in view.gpus if gpu.util_pct.value is not None]
    if not rounds:
        return {}
    values = [value for one in rounds.values() for value in one]
    return {
        "gpu_pct": sum(values) / len(values) if values else None,
        "gpus_read": len(rounds[max(rounds)]),
        "gpus_listed": None if newest.gpus is None else len(newest.gpus),
    }
