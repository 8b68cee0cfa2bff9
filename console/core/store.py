"""What is known of one host: frames folded into a view, with the short history that rates need."""

from typing import Any

from console.core import eta, views
from console.core.attempt import Attempt
from console.core.rates import NO_RATE, Rate, RateMeter
from console.core.views import HostView
from pipeline.contract import telemetry


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
        self._meters: dict[tuple[str, str], RateMeter] = {}

    def greet(self, hello: Any) -> None:
        """Take the host program's answer to ``hello``."""
        self._hello = hello if isinstance(hello, dict) else {}

    def fold(self, frame: Any) -> bool:
        """Take a frame; whether it became the view."""
        view = views.parse(frame)
        if view is None:
            self.bad_frames += 1
            return False
        if self.view and view.boot_id == self.view.boot_id and view.boot_s < self.view.boot_s:
            self.late_frames += 1
            return False
        if self.view and view.boot_id != self.view.boot_id:
            self._meters.clear()  # host times of two boots cannot be compared
        self.frames += 1
        self.view = view
        self._observe(view)
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
        return eta.estimate(attempt.progress, self.rate_mean(attempt))

    def _observe(self, view: HostView) -> None:
        if view.stages is None:
            return
        current = {(stage, attempt.id) for stage, attempt in view.stages.items()}
        for key in [key for key in self._meters if key not in current]:
            del self._meters[key]
        for stage, attempt in view.stages.items():
            if attempt.progress is not None:
                self._meters.setdefault((stage, attempt.id), RateMeter()).observe(attempt.progress, view.boot_s, attempt.live)
