"""Readings of NVML for a program that waits for them: each within a deadline, through the process that alone talks to the driver."""

import os
import select
import sys
from typing import Any, Callable, Dict, Optional, Tuple

from pipeline.contract.clock import boot_s
from pipeline.contract.telemetry import NVML_OK, NVML_STUCK
from pipeline.host import nvml_quiet, spawn
from pipeline.host.consoles import DIRECTORY
from pipeline.host.nvml_client import NvmlClient

FIRST_S, DEADLINE_S = 30.0, 10.0
"""Without persistence mode the first answer takes 1 to 3 s a GPU."""
FULL, LIGHT = b"full", b"light"
"""Process lists read anew, or memory and the like only: lists hold the driver's lock far longer."""
_POLL_MS = 100


class Session:
    """One NVML process of this program's own. ``read`` never takes longer than the deadline, whatever the driver does."""

    def __init__(self, data_dir: str, deadline_s: float = DEADLINE_S, first_s: float = FIRST_S, code_dir: str = ""):
        """``code_dir``: an unpacked bundle; the one that this runs from, unless told."""
        self.markers = os.path.join(data_dir, DIRECTORY)
        self._command = [sys.executable, "-u", "-s", "-S", code_dir or spawn.code_root(), "nvml"]
        self._first_s, self._deadline_s = max(first_s, deadline_s), deadline_s
        self._client = self._new()
        self._answered = False

    def read(self, word: bytes = FULL, cancelled: Callable[[], bool] = lambda: False) -> Tuple[Optional[Dict[str, Any]], str]:
        """A reading that began after this call, or None and why there is none. One try: a failure is an answer too."""
        began = boot_s()
        deadline = began + (self._deadline_s if self._answered else self._first_s)
        self._client.ask(word)
        while True:
            part, gpus = self._client.view()
            taken = part["boot_s"]
            if part["state"] == NVML_OK and gpus is not None and taken is not None and taken >= round(began, 3):
                self._answered = True
                return dict(part, gpus=gpus), ""
            if self._client.pid is None:  # it ended, or was not started into a hang that another one sits in
                return None, str(part["detail"])
            if self._client.due_s is None:  # the answer was to an older question, which a cancel had left behind
                self._client.ask(word)
            if cancelled():
                return None, "cancelled"
            if boot_s() > deadline:
                self._client.tick()
                part = self._client.view()[0]
                said = part["detail"] if part["state"] == NVML_STUCK else "no answer for %.0f s" % (boot_s() - began)
                return None, "NVML hangs: " + str(said)
            poller = select.poll()
            for fd in self._client.fds:
                poller.register(fd, select.POLLIN)
            for fd, _ in poller.poll(_POLL_MS):
                self._client.readable(fd)

    def restart(self) -> None:
        """Close this program's handle on the driver; the next reading opens it anew."""
        self._client.close()
        self._client, self._answered = self._new(), False  # a first answer takes its time again: this handle may have been the last

    def quiet(self) -> None:
        """Ask the agents to close theirs as well. Raises OSError."""
        nvml_quiet.ask(self.markers)

    def end_quiet(self) -> None:
        nvml_quiet.end(self.markers)

    def close(self) -> None:
        self._client.close()

    def _new(self) -> NvmlClient:
        return NvmlClient(self._command, self.markers, deadline_s=self._deadline_s, gives_way=False)
