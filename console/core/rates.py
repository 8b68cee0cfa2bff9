"""How fast an attempt works, from what the host says and when the host says it was. Local clocks and earlier attempts play no part."""

from collections import deque

import msgspec

from console.core.progress import Progress
from pipeline.contract import telemetry

WINDOW_S = 60.0
_MAX_POINTS = 600
_BURST_S = 1.0


class Rate(msgspec.Struct, frozen=True):
    """Units and tokens a second, and the host seconds they were measured over. None: not measured."""

    units_per_s: float | None = None
    tokens_per_s: float | None = None
    over_s: float = 0.0


NO_RATE = Rate()


class _Point(msgspec.Struct, frozen=True):
    boot_s: float
    done: int
    tokens: int | None


class RateMeter:
    """The rates of one attempt; ``observe`` every frame's progress. Bounded: the last minute, at most 600 points.

    Samples of a batch are published in a burst, so rates are measured between the ends of bursts, which is what frames see. Until these
    span more time than the first burst itself took, its own time since loading ended is the better evidence.
    """

    def __init__(self) -> None:
        self._points: deque[_Point] = deque(maxlen=_MAX_POINTS)
        self._begin: _Point | None = None
        """When loading ended, with what earlier attempts had finished."""
        self._first: _Point | None = None
        """Where the mean starts: the first burst's end if it was seen, else the stage's own first unit."""
        self._longest_gap_s = 0.0
        self._now_boot_s = 0.0
        self._latest: Progress | None = None
        self._live = False

    def observe(self, progress: Progress, frame_boot_s: float, live: bool) -> None:
        """Fold in the progress of a frame made at ``frame_boot_s``. Counts that go back (another writer) start anew."""
        self._now_boot_s, self._latest, self._live = frame_boot_s, progress, live
        if progress.phase == telemetry.STEADY and progress.phase_boot_s is not None:
            self._begin = _Point(progress.phase_boot_s, progress.resumed_done, progress.resumed_tokens)
        if progress.done is None or progress.first_boot_s is None or progress.first_boot_s > frame_boot_s:
            return
        last = self._points[-1] if self._points else None
        if last and progress.done < last.done:
            self._points.clear()
            last, self._first = None, None
        if last and progress.done == last.done:
            return
        point = _Point(_moment(progress, frame_boot_s, last), progress.done, progress.tokens)
        if self._first is None:
            seen = progress.first_done is None or point.boot_s - progress.first_boot_s <= _BURST_S
            self._first = point if seen else _Point(progress.first_boot_s, progress.first_done or 0, progress.first_tokens)
        if last:
            self._longest_gap_s = max(self._longest_gap_s, point.boot_s - last.boot_s)
        self._points.append(point)
        while len(self._points) > 2 and self._points[1].boot_s < frame_boot_s - WINDOW_S:
            self._points.popleft()

    def now(self) -> Rate:
        """Over the last minute. A silence longer than any gap before counts as time without work; one of a minute more is zero."""
        if not self._points or self._first is None:
            return NO_RATE
        last, start = self._points[-1], self._points[0]
        if self._first.boot_s >= self._now_boot_s - WINDOW_S:
            start = self._start(last)
        silence_s = self._now_boot_s - last.boot_s
        if silence_s > self._longest_gap_s + WINDOW_S and self._working():
            return Rate(0.0, 0.0, silence_s)
        return _between(start, last, self._end(last))

    def mean(self) -> Rate:
        """Since this attempt's first units. Pauses stay in it, loading and what earlier attempts finished do not."""
        if not self._points:
            return NO_RATE
        last = self._points[-1]
        return _between(self._start(last), last, self._end(last))

    def _start(self, last: _Point) -> _Point:
        """The mean's first point, or the end of loading while there is more evidence before that point than after it."""
        assert self._first is not None, "there is a first point once there is any"
        begin, first = self._begin, self._first
        thin = begin is not None and last.boot_s - first.boot_s < first.boot_s - begin.boot_s
        return begin if begin is not None and thin else first

    def _end(self, last: _Point) -> float:
        """The last unit's time; or now, when the silence since then is longer than any gap that was seen."""
        silence_s = self._now_boot_s - last.boot_s
        usual_s = self._longest_gap_s
        if self._begin is not None and self._first is not None:
            usual_s = max(usual_s, self._first.boot_s - self._begin.boot_s)
        return self._now_boot_s if silence_s > usual_s and self._working() else last.boot_s

    def _working(self) -> bool:
        """Whether units are still expected: afterwards, time without one is no loss of speed."""
        progress = self._latest
        if progress is None or not self._live or progress.phase != telemetry.STEADY:
            return False
        return progress.total is None or progress.done is None or progress.done < progress.total


def _moment(progress: Progress, frame_boot_s: float, last: _Point | None) -> float:
    """When the newest unit was finished; where the stage's own time cannot be, when the frame was made."""
    moment = progress.last_boot_s
    if moment is None or moment > frame_boot_s or (last and moment <= last.boot_s):
        return frame_boot_s
    return moment


def _between(first: _Point, last: _Point, end_boot_s: float) -> Rate:
    over_s = end_boot_s - first.boot_s
    units = last.done - first.done
    if over_s <= 0 or units <= 0:
        return NO_RATE
    tokens = None if first.tokens is None or last.tokens is None or last.tokens < first.tokens else last.tokens - first.tokens
    return Rate(units / over_s, None if tokens is None else tokens / over_s, over_s)
