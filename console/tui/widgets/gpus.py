"""The GPU panel: what each GPU holds, does and draws, who holds it, and how old that is. One widget for all rows."""

from collections import deque

from textual.content import Content

from console.core.views import HostView
from console.tui.state import ConsoleState
from console.tui.widgets.gpu_rows import gpu_lines
from console.tui.widgets.lines import Lines

TREND_POINTS = 60
_GAP_S = 5.0
"""Readings further apart than this have a mark between them."""


class GpuPanel(Lines):
    """A header and one row a GPU; with a height of one, one line about all of them."""

    def __init__(self, state: ConsoleState, **options: str) -> None:
        super().__init__(state, **options)
        self._trends = Trends()
        self.reserved = 0
        """Columns at the right of the header that a button lies on."""

    def tick(self) -> None:
        if self.state.view is not None:
            self._trends.observe(self.state.view)
        super().tick()

    def draw(self, width: int, height: int) -> list[Content]:
        state = self.state
        simulated = state.view is not None and state.store.simulated
        return gpu_lines(state.view, state.age_s, state.current, simulated, width, height, self._trends.of, self.reserved)


class Trends:
    """The newest utilisations of each GPU, one point a round of readings. None: not read, or nobody looked for a while."""

    def __init__(self) -> None:
        self._points: dict[tuple[int, str], deque[float | None]] = {}
        self._boot_id = ""
        self._round_boot_s: float | None = None

    def of(self, index: int, uuid: str) -> list[float | None]:
        """Oldest first."""
        return list(self._points.get((index, uuid), ()))

    def observe(self, view: HostView) -> None:
        """Take the readings of a view; a round that was seen already adds nothing."""
        taken_s = view.nvml.boot_s if view.nvml else None
        if view.boot_id != self._boot_id:
            self._boot_id, self._round_boot_s = view.boot_id, None
            self._points.clear()
        before_s = self._round_boot_s
        if taken_s is None or view.gpus is None or (before_s is not None and taken_s <= before_s):
            return
        self._round_boot_s = taken_s
        apart = before_s is not None and taken_s - before_s > _GAP_S
        current = {(gpu.index, gpu.uuid): gpu.util_pct.value for gpu in view.gpus}
        for key in [key for key in self._points if key not in current]:
            del self._points[key]
        for key, value in current.items():
            points = self._points.setdefault(key, deque(maxlen=TREND_POINTS))
            if apart and points:
                points.append(None)
            points.append(value)
