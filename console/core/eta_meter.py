"""The time left of one attempt, from frame to frame: what has to be remembered between them for it."""

from typing import Any

import msgspec

from console.core import eta, eta_range, reading
from console.core.eta import Eta
from console.core.eta_loading import LoadMeter
from console.core.eta_shown import Shown
from console.core.eta_work import Point, Work
from console.core.lookout import LoadPrior
from console.core.progress import Progress
from console.core.rates import Rate
from pipeline.contract import telemetry

_RANGE_EVERY_S = 10.0


class EtaMeter:
    """``observe`` every frame's progress; ``estimate`` then."""

    def __init__(self) -> None:
        self.work = Work()
        self.shown, self.shown_load, self.shown_full = Shown(), Shown(), Shown()
        """The time of day that is on the screen for the end, for the end of the load, and for when the disk is full."""
        self._load = LoadMeter()
        self._boot_s = 0.0
        self._ranged_boot_s: float | None = None
        self._range: tuple[float, float] | None = None
        """(low, high) as shares of the estimate."""

    def observe(self, progress: Progress, frame_boot_s: float, gpu_mib: float | None = None, prior: LoadPrior | None = None) -> None:
        """Take what a frame made at ``frame_boot_s`` says. ``gpu_mib``: mean of the GPUs that it works on."""
        self._boot_s = frame_boot_s
        if progress.phase == telemetry.LOADING:
            self._load.observe(progress, frame_boot_s, gpu_mib, prior)
        if progress.done is None or progress.first_boot_s is None or progress.first_boot_s > frame_boot_s:
            return
        if progress.first_done is not None and self.work.empty:
            self.work.add(Point(progress.first_boot_s, progress.first_done, progress.first_tokens or 0))
        self.work.add(Point(frame_boot_s, progress.done, progress.tokens or 0))

    def learn(self, points: Any, progress: Progress | None) -> None:
        """Take ``curve.json``'s points: [[boot_s, done, tokens, ...], ...]. What is none, or from before the first unit, is left out."""
        if progress is None or progress.first_boot_s is None or progress.first_done is None:
            return
        first = Point(progress.first_boot_s, progress.first_done, progress.first_tokens or 0)
        told = [point for point in _points(points) if point.boot_s > first.boot_s and point.done >= first.done]
        if told:
            self.work.learn([first, *told])
            self._ranged_boot_s = None

    def estimate(self, progress: Progress | None, mean: Rate, prior: LoadPrior | None = None, paused: str = "") -> Eta:
        """The time left at the newest frame. ``paused``: why nothing is to be estimated now; the estimate would drift."""
        if progress is None:
            return Eta(None, why="no progress yet")
        if paused:
            return Eta(None, why=f"paused: {paused}", paused=paused)
        if progress.phase == telemetry.LOADING:
            left = self._load.left(progress, self._boot_s, prior)
            return Eta(None, why=left.why) if left.seconds is None else eta.after_load(progress, left.seconds, left.basis, prior)
        if progress.phase == telemetry.VERIFYING:
            return eta.verifying(progress, self._boot_s)
        if progress.phase == telemetry.FINISHING:
            return Eta(None, why=progress.phase)
        blocks = self.work.blocks()
        left = eta.working(progress, mean, blocks)
        return left if not left.seconds else self._ranged(left, left.seconds, progress)

    def _ranged(self, left: Eta, seconds: float, progress: Progress) -> Eta:
        """With a range, drawn anew only now and then: between two draws it moves with the estimate."""
        if self._ranged_boot_s is None or not 0 <= self._boot_s - self._ranged_boot_s < _RANGE_EVERY_S:
            self._ranged_boot_s = self._boot_s
            self._range = self._drawn(left, seconds, progress)
        if self._range is None:
            return left
        low, high = self._range
        return msgspec.structs.replace(left, low_s=seconds * low, high_s=seconds * high)

    def _drawn(self, left: Eta, seconds: float, progress: Progress) -> tuple[float, float] | None:
        by_tokens = left.basis == "tokens"
        units = max((progress.total or 0) - (progress.done or 0), 0)
        tokens = max((progress.total_tokens or 0) - (progress.tokens or 0), 0)
        blocks = self.work.blocks()
        if by_tokens and progress.total and progress.total_tokens:
            found = eta_range.spread(blocks, units, tokens, progress.total_tokens / progress.total, seconds)
        else:
            found = eta_range.spread([block._replace(tokens=block.units) for block in blocks], units, units, 1.0, seconds)
        return None if found is None else (found[0] / seconds, found[1] / seconds)


def _points(source: Any) -> list[Point]:
    found = []
    for one in source if isinstance(source, list) else []:
        if isinstance(one, list) and len(one) >= 3:
            named = dict(zip(("boot_s", "done", "tokens"), one, strict=False))
            boot_s, done = reading.number(named, "boot_s"), reading.count(named, "done")
            if boot_s is not None and done is not None:
                found.append(Point(boot_s, done, reading.count(named, "tokens") or 0))
    return found
