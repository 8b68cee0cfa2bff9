"""A directory that is only watched: how far it is, and when there is nothing more to wait for. Pure: host times of frames only."""

from console.core.attempt import Attempt
from console.core.views import HostView

STILL_S = 3.0
"""All files are there, and were still there when they were counted again so much later."""
GONE_S = 10.0
"""After the process has gone, files may still be counted that it wrote last."""

REACHED, GONE, AWAY = "reached", "gone", "away"


class Watched:
    """``observe`` every view; ``end`` says how it ended, empty while it goes on."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._there_since_s: float | None = None
        self._gone_since_s: float | None = None
        self._away_since_s: float | None = None
        self._most = 0
        self.end = ""
        """``REACHED``: all were there and stayed. ``GONE``: the process has gone before. ``AWAY``: the directory has gone."""

    def observe(self, view: HostView, attempt: Attempt) -> None:
        files = attempt.directory
        self._away_since_s = _since(self._away_since_s, files is None and self._most > 0, view.boot_s)
        self._gone_since_s = _since(self._gone_since_s, attempt.ended, view.boot_s)
        if files is not None and files.files is not None and files.boot_s is not None:
            self._most = max(self._most, files.files)
            self._there_since_s = _since(self._there_since_s, files.files >= self._total, files.boot_s)
            if self._there_since_s is not None and files.boot_s - self._there_since_s >= STILL_S:
                self.end = REACHED
                return
        waits = self._there_since_s is not None  # they are to be counted once more
        if not waits and self._gone_since_s is not None and view.boot_s - self._gone_since_s >= GONE_S:
            self.end = GONE
        elif self._away_since_s is not None and view.boot_s - self._away_since_s >= GONE_S:
            self.end = AWAY
        else:
            self.end = ""


def _since(since_s: float | None, true: bool, now_s: float) -> float | None:
    """When something began to be true; None while it is not."""
    if not true:
        return None
    return now_s if since_s is None or since_s > now_s else since_s
