"""What is known of one host: frames folded into a view, with the short history that rates need."""

from typing import Any

from console.core import disk_full, eta, views
from console.core.attempt import Attempt
from console.core.eta_loading import loaded_mib
from console.core.eta_meter import EtaMeter
from console.core.eta_shown import Clock
from console.core.rates import NO_RATE, Rate, RateMeter
from console.core.stall import Stalls
from console.core.views import HostView
from pipeline.contract import telemetry
from pipeline.contract.disk_risk import DiskMeter, DiskRisk
from pipeline.contract.signals import AMBER, GREY, RED, Verdict


class Store:
    """Newest view of a host. ``fold`` every frame; nothing here waits, reads a clock or touches a file.

    How old the view is, the link knows: it is passed in where an age is asked for.
    """

    def __init__(self, hello: dict[str, Any] | None = None):
        self.view: HostView | None = None
        self.frames = 0
        self.bad_frames = 0
        """Frames that were no object or carried no time; they changed nothing."""
        self.late_frames = 0
        """Frames older than the view; they changed nothing."""
        self._hello = hello or {}
        self.observes = False
        """This console watches a directory, of which frames tell."""
        self._meters: dict[tuple[str, str], RateMeter] = {}
        self._etas: dict[tuple[str, str], EtaMeter] = {}
        self._disks: dict[tuple[str, str], DiskMeter] = {}
        self.stalls = Stalls()

    def greet(self, hello: Any) -> None:
        """Take the host program's answer to ``hello``."""
        self._hello = hello if isinstance(hello, dict) else {}

    def fold(self, frame: Any) -> bool:
        """Take a frame; whether it became the view."""
        view = views.parse(frame, self.observes)
        if view is None:
            self.bad_frames += 1
            return False
        if self.view and view.boot_id == self.view.boot_id and view.boot_s < self.view.boot_s:
            self.late_frames += 1
            return False
        if self.view and view.boot_id != self.view.boot_id:
            for meters in (self._meters, self._etas, self._disks):
                meters.clear()  # host times of two boots cannot be compared
            self.stalls.clear()
        self.frames += 1
        self.view = view
        self._observe(view)
        self.stalls.observe(view)
        return True

    @property
    def simulated(self) -> bool:
        """Whether anything here is simulated. Only a host that says that it is not counts as real."""
        view = self.view
        said = [self._hello.get("simulated")]
        if view and view.nvml:
            said.append(view.nvml.simulated)
        if view and view.stages:
            said += [attempt.simulated for attempt in view.stages.values()]
        return True in said or False not in said

    def attempt(self, stage: str) -> Attempt | None:
        """The attempt that stands for a stage in the view; None also when the frame did not tell."""
        return (self.view.stages or {}).get(stage) if self.view else None

    def launch(self, stage: str, attempt: str) -> Attempt | None:
        """An attempt of a stage by its id: the one that stands for it, or the refused one after it; None when the view is of neither."""
        one = self.attempt(stage)
        return next((each for each in (one, one.refused if one else None) if each is not None and each.id == attempt), None)

    def rate_now(self, attempt: Attempt) -> Rate:
        """Not measured while the attempt says that it can only wait: the last minute's speed is none of now."""
        meter = self._meters.get((attempt.stage, attempt.id))
        return NO_RATE if meter is None or (attempt.progress and attempt.progress.waits) else meter.now()

    def rate_mean(self, attempt: Attempt) -> Rate:
        meter = self._meters.get((attempt.stage, attempt.id))
        return meter.mean() if meter else NO_RATE

    def eta(self, attempt: Attempt) -> eta.Eta:
        """Time left of a running attempt."""
        if not attempt.live or attempt.state == telemetry.STOPPING:
            return eta.Eta(None, why=f"the attempt is {attempt.state}")
        meter = self._etas.get((attempt.stage, attempt.id))
        if meter is None:
            return eta.Eta(None, why="no progress yet")
        found = self.verdict(attempt)
        # While nothing moves the estimate would only drift; what the pause costs is in the rate once work goes on.
        paused = found.level if found.severity in (AMBER, RED) else ""
        return meter.estimate(attempt.progress, self.rate_mean(attempt), attempt.load_prior, paused)

    def done_at(self, attempt: Attempt, wall_s: float, age_s: float) -> Clock | None:
        """The time of day to show for the estimate, by the clock ``wall_s`` of whoever shows it; None without one.

        ``age_s``: of the newest frame. It changes only when the estimate moved.
        """
        left, meter = self.eta(attempt), self._etas.get((attempt.stage, attempt.id))
        if meter is None or left.seconds is None:
            return None
        return meter.shown.at(wall_s - age_s, left.seconds, left.low_s, left.high_s)

    def loaded_at(self, attempt: Attempt, wall_s: float, age_s: float) -> Clock | None:
        """The same for the end of its load."""
        left, meter = self.eta(attempt), self._etas.get((attempt.stage, attempt.id))
        return None if meter is None or left.loaded_s is None else meter.shown_load.at(wall_s - age_s, left.loaded_s)

    def learn_curve(self, attempt: Attempt, points: Any) -> None:
        """Take the attempt's course as its host kept it (``curve.json``'s points), for the time before the first frame."""
        meter = self._etas.get((attempt.stage, attempt.id))
        if meter is not None:
            meter.learn(points, attempt.progress)

    def disk_risk(self, attempt: Attempt, min_free_bytes: float = 0.0) -> DiskRisk:
        """Whether the disk that it writes to will hold the rest. ``min_free_bytes``: what the stage itself keeps free."""
        view = self.view
        meter = self._disks.get((attempt.stage, attempt.id))
        if view is None or meter is None:
            return DiskRisk(GREY, "disk not read")
        return meter.look(disk_full.look(view, attempt, self.rate_mean(attempt), self.eta(attempt).seconds, min_free_bytes))

    def disk_full_at(self, attempt: Attempt, risk: DiskRisk, wall_s: float, age_s: float) -> Clock | None:
        """The time of day to show for ``risk.full_s``, as in ``done_at``."""
        meter = self._etas.get((attempt.stage, attempt.id))
        return None if meter is None or risk.full_s is None else meter.shown_full.at(wall_s - age_s, risk.full_s)

    def verdict(self, attempt: Attempt, frame_age_s: float | None = 0.0) -> Verdict:
        """Whether an attempt is stalled, with the evidence. ``frame_age_s``: the view's own age; NO DATA when it is too old or unknown."""
        return self.stalls.verdict(self.view, attempt, frame_age_s)

    def _observe(self, view: HostView) -> None:
        if view.stages is None:
            return
        current = {(stage, attempt.id) for stage, attempt in view.stages.items()}
        for meters in (self._meters, self._etas, self._disks):
            for key in [key for key in meters if key not in current]:
                del meters[key]
        for stage, attempt in view.stages.items():
            key = (stage, attempt.id)
            if attempt.progress is not None:
                self._meters.setdefault(key, RateMeter()).observe(attempt.progress, view.boot_s, attempt.live)
                meter = self._etas.setdefault(key, EtaMeter())
                meter.observe(attempt.progress, view.boot_s, loaded_mib(view.gpus), attempt.load_prior)
            if attempt.live:
                self._disks.setdefault(key, DiskMeter()).look(disk_full.look(view, attempt, NO_RATE, None, 0.0))
