"""What a job has written and how much room its disk has, looked at beside the lookout: a mount that hangs holds up nothing else."""

import threading
from typing import Any, Callable, Dict, NamedTuple, Optional

from pipeline.contract.clock import boot_s
from pipeline.host import probe


class Output(NamedTuple):
    """One look. ``ledger`` as in a frame; ``free_bytes`` None when the disk could not be read."""

    boot_s: float
    ledger: Optional[Dict[str, Any]]
    free_bytes: Optional[float]


class OutputLooks:
    """Looks at ``directory`` in a thread of its own. ``latest`` keeps its age when a look hangs."""

    def __init__(self, directory: Optional[str], poll: Optional[Callable[[], Optional[Dict[str, Any]]]]):
        """``poll`` counts what is there; None for a stage that keeps no ledger."""
        self._directory, self._poll = directory, poll
        self._wanted = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self.latest: Optional[Output] = None

    def ask(self) -> None:
        """Want another look; one at a time."""
        if self._directory is None:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="output", daemon=True)
            self._thread.start()
        self._wanted.set()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            try:
                began = boot_s()
                free = probe.disk(str(self._directory)).get("free_bytes")
                ledger = self._poll() if self._poll is not None else None
                self.latest = Output(began, ledger, free if isinstance(free, (int, float)) else None)
            except Exception:
                continue
