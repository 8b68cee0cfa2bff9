"""The agent's side of the NVML process: starts it, asks it, never waits for it.

One request is in flight at a time. No answer within the deadline is "stuck": the old reading stays, with its age, and no second
process goes into the same hang, not even from another connection (a marker file names the one that hangs). Should it answer after
all, all is well again. A process that died is started again, later each time.
"""

import json
import os
import subprocess
from typing import Any, Callable, Dict, List, Optional, Tuple

from pipeline.contract.clock import boot_s
from pipeline.contract.files import read_json, write_json
from pipeline.contract.telemetry import NVML_ERROR, NVML_OK, NVML_STARTING, NVML_STUCK
from pipeline.host import nvml_quiet, procs

DEADLINE_S = 10.0
BACKOFF_S = (5.0, 10.0, 20.0, 40.0, 60.0)
MAX_LINE_BYTES = 4 << 20
_MARKER = "nvml-%d.json"


class NvmlClient:
    """Call ``tick`` now and then, ``ask`` when a reading is wanted, and ``readable`` when one of ``fds`` has something."""

    def __init__(
        self,
        command: List[str],
        marker_directory: str,
        clock: Callable[[], float] = boot_s,
        deadline_s: float = DEADLINE_S,
        gives_way: bool = True,
    ):
        """``gives_way``: close the process while somebody wants to know what the GPUs hold without it (``nvml_quiet``)."""
        self._command = command
        self._markers = marker_directory
        self._clock = clock
        self._deadline_s = deadline_s
        self._gives_way = gives_way
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._buffer = b""
        self._complaint = b""
        self._asked_s: Optional[float] = None
        self._reading: Dict[str, Any] = {}
        self._state, self._detail, self._gave_reason = NVML_STARTING, "", False
        self._failures = 0
        self._retry_s = 0.0
        self._marked: Optional[str] = None

    @property
    def fds(self) -> List[int]:
        """Descriptors to wait on."""
        process = self._process
        return [file.fileno() for file in (process.stdout, process.stderr) if file] if process else []

    @property
    def pid(self) -> Optional[int]:
        return self._process.pid if self._process else None

    @property
    def due_s(self) -> Optional[float]:
        """When ``tick`` will have something to say: a deadline; None when nothing is under way."""
        return None if self._asked_s is None else self._asked_s + self._deadline_s

    def ask(self, word: bytes = b"") -> None:
        """Want a fresh reading; does nothing while one is on its way or the next start must wait. ``word``: see ``nvml``."""
        now = self._clock()
        if self._asked_s is None and self._gives_way and nvml_quiet.asked_for(self._markers):
            self.close()  # the last reading stays, with its age
            return
        if self._asked_s is not None or (self._process is None and (now < self._retry_s or not self._start(now))):
            return
        process = self._process
        assert process is not None and process.stdin is not None
        try:
            os.write(process.stdin.fileno(), word + b"\n")
            self._asked_s = now
        except OSError:
            self._died()

    def readable(self, fd: int) -> bool:
        """Take what ``fd`` has; True when a reading or a failure came of it."""
        process = self._process
        if process is None or fd not in self.fds:
            return False
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return False
        if process.stderr is not None and fd == process.stderr.fileno():
            self._complaint = (self._complaint + data)[-2000:]
            if not data:
                process.stderr.close()  # its end is told by stdout, after the last answer
                process.stderr = None
            return False
        if not data:
            self._died()
            return True
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            self._answer(line)
        if len(self._buffer) > MAX_LINE_BYTES:
            self._buffer = b""
        return bool(lines)

    def tick(self) -> None:
        """Look at the deadline."""
        now = self._clock()
        if self._asked_s is None or now - self._asked_s <= self._deadline_s:
            return
        self._state = NVML_STUCK
        self._detail = "the driver has not answered for %d s (process %s)" % (now - self._asked_s, self.pid)
        if not self._reading:
            self._detail += "; without persistence mode a first answer can take half a minute"
        if self._marked is None:
            self._mark(self.pid or 0)

    def view(self) -> Tuple[Dict[str, Any], Optional[List[Dict[str, Any]]]]:
        """The ``nvml`` and ``gpus`` parts of a frame, as of the last reading; None for GPUs that were never read."""
        reading = self._reading
        keys = ("driver", "count", "round_ms", "boot_s")
        part = {"state": self._state, "detail": self._detail, "simulated": reading.get("simulated")}
        part.update((key, reading.get(key)) for key in keys)
        return part, reading.get("gpus")

    def close(self) -> None:
        """End the process. One that hangs in the driver stays, and stays marked, until the kernel lets it go."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        if _wait(process) is not None:
            self._unmark()
        for file in (process.stdin, process.stdout, process.stderr):
            if file is not None:
                file.close()

    def _start(self, now: float) -> bool:
        other = self._hanging_elsewhere()
        if other is not None:
            self._state, self._retry_s = NVML_STUCK, now + BACKOFF_S[0]
            since = now - other["since_boot_s"]
            self._detail = "process %d of another connection hangs in the driver since %d s; no other is started" % (other["pid"], since)
            return False
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
            )
        except OSError as error:
            self._fail("the NVML process does not start: %s" % error)
            return False
        for fd in self.fds:
            os.set_blocking(fd, False)
        self._buffer = self._complaint = b""
        self._gave_reason = False
        if self._state == NVML_STUCK:
            self._state = NVML_STARTING
        return True

    def _answer(self, line: bytes) -> None:
        self._asked_s = None
        try:
            reading = json.loads(line.decode("utf-8", "replace"))
            gpus = reading.get("gpus")
        except (ValueError, AttributeError, RecursionError):
            self._detail = "the NVML process sent something unreadable"
            return
        self._unmark()
        if gpus is None:
            self._state, self._detail, self._gave_reason = NVML_ERROR, str(reading.get("error")), True
            self._reading = dict(self._reading, simulated=reading.get("simulated"))
            return  # it ends now; _died keeps this reason
        self._reading, self._failures = reading, 0
        self._state, self._detail = NVML_OK, ""

    def _died(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        code = _wait(process)
        if code is None:
            self._mark(process.pid)  # whoever finds it gone removes the marker
        if process.stderr is not None:
            self._complaint += process.stderr.read() or b""
        for file in (process.stdin, process.stdout, process.stderr):
            if file is not None:
                file.close()
        said = self._complaint.decode("utf-8", "replace").strip().splitlines()
        how = "it closed its output and cannot be ended" if code is None else "signal %d" % -code if code < 0 else "exit code %d" % code
        gave_reason = self._gave_reason and code == 3  # also when it was asked again before it had ended
        self._asked_s = None
        if code is not None:
            self._unmark()
        self._fail(self._detail if gave_reason else "the NVML process ended (%s)%s" % (how, ": " + said[-1][:300] if said else ""))

    def _fail(self, reason: str) -> None:
        self._state, self._detail = NVML_ERROR, reason
        self._retry_s = self._clock() + BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
        self._failures += 1

    def _mark(self, pid: int) -> None:
        self._marked = os.path.join(self._markers, _MARKER % pid)
        try:
            write_json(self._marked, dict(procs.identity(pid), since_boot_s=round(self._asked_s or 0.0, 3)), durable=False)
        except OSError:
            pass

    def _unmark(self) -> None:
        if self._marked is not None:
            _remove(self._marked)
            self._marked = None

    def _hanging_elsewhere(self) -> Optional[Dict[str, Any]]:
        try:
            names = [name for name in os.listdir(self._markers) if name.startswith("nvml-")]
        except OSError:
            return None
        for name in names:
            path = os.path.join(self._markers, name)
            who = read_json(path)
            if procs.alive(who) and who is not None and isinstance(who.get("since_boot_s"), (int, float)):
                return who
            _remove(path)
        return None


def _wait(process: "subprocess.Popen[bytes]") -> Optional[int]:
    """Its exit code; None when not even SIGKILL ends it, because it hangs in the driver."""
    for _ in range(2):
        try:
            return process.wait(0.3)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.poll()


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
