"""The lines of one worker out of a log's ring, and which workers there are.

Every worker of an inference server or of a distributed job writes into one log, each line with its name in front: vLLM's
``(Worker_TP3 pid=412) ``, Ray's ``(RayWorkerWrapper pid=412) ``, PyTorch's ``[rank3]: ``, torchrun's ``[default3]: ``. The host's alarms
name workers in the same way.
"""

import re
from collections import Counter

from console.core.logring import Frozen, LogRing, Note

MAX_WORKERS = 256
"""That are told, those with the most lines: a log can name as many as it likes."""
_PREFIX = re.compile(
    r"\s*(?:\((?P<name>[A-Za-z][\w.-]{0,39})(?: rank=(?P<rank>\d{1,4}))? pid=[^)]{1,80}\)|\[(?:rank|default)(?P<number>\d{1,4})\]:)"
)


def worker_of(line: str) -> str:
    """Whose line it is, such as ``Worker_TP3``; empty when it does not say."""
    found = _PREFIX.match(line) if line[:1] in "([ \t" else None
    if found is None or isinstance(line, Note):
        return ""
    if found["number"]:
        return f"rank{found['number']}"
    return f"{found['name']} {found['rank']}" if found["rank"] else found["name"]


def without_worker(line: str) -> str:
    """The line without its worker's name in front."""
    return line[found.end() :].lstrip() if worker_of(line) and (found := _PREFIX.match(line)) else line


def workers(ring: LogRing) -> dict[str, int]:
    """{worker: how many of the lines that are held}, by name, numbers in their order."""
    counts = Counter(map(worker_of, ring.lines(ring.first, ring.end)))
    del counts[""]
    return dict(
        sorted(
            counts.most_common(MAX_WORKERS), key=lambda one: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", one[0])]
        )
    )


class WorkerLines:
    """To a reader a ring of its own: whole lines of the worker, and our notes. What a full ring drops stays here within the same bounds."""

    def __init__(self, ring: LogRing, worker: str):
        self.worker = worker
        self._ring = ring
        self._kept = LogRing(ring.max_lines)
        self._next = ring.first
        self._looked: int | None = None
        self.max_lines = ring.max_lines

    def _take(self) -> LogRing:
        """All that has come until now."""
        if self._looked != self._ring.version:
            self._looked = self._ring.version
            start, self._next = max(self._next, self._ring.first), self._ring.closed_end
            found = [one for one in self._ring.lines(start, self._next) if isinstance(one, Note) or worker_of(one) == self.worker]
            if found:
                self._kept.add(found)
        return self._kept

    @property
    def version(self) -> int:
        """Changes with everything that a reader could see."""
        return self._take().version

    @property
    def first(self) -> int:
        """Number of the oldest line; numbers are of these lines alone."""
        return self._kept.first

    @property
    def end(self) -> int:
        return self._take().end

    def lines(self, start: int, stop: int) -> list[str]:
        return self._kept.lines(start, stop)

    def freeze(self) -> Frozen:
        return self._kept.freeze()

    def refreeze(self, held: Frozen, start: int) -> Frozen:
        return self._kept.refreeze(held, start)
