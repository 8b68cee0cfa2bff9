"""One look at GPUs and processes, and the plan that comes of it. ``free-plan`` is the agent's way to it: a child with a deadline."""

import json
import os
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from pipeline.host import free_order, free_plan, holders, spawn
from pipeline.host.errors import FAILED, RequestError
from pipeline.host.nvml_session import FULL, Session

DEADLINE_S = 60.0
"""Of a plan that the agent waits for: NVML's first answer, and the look at the processes."""
DEVICES = "EAGLEWATCH_DEV"
"""For tests: the directory that stands for /dev; plain files in it then count as devices."""
_MAX_BYTES = 3 << 20
_READ_BYTES = 1 << 16


def device_root() -> str:
    return os.environ.get(DEVICES) or "/dev"


def survey(
    nvml: Session, data_dir: str, what: Dict[str, Any], cancelled: Callable[[], bool] = lambda: False
) -> Tuple[free_order.Plan, Optional[Dict[str, Any]], holders.Holders]:
    """(plan, reading or None, look). Read-only, bounded. Raises forked.CancelledError."""
    reading, why = nvml.read(FULL, cancelled)
    look = holders.look(reading, data_dir, what["run"], device_root(), cancelled)
    return free_plan.make(what, reading, why, look), reading, look


class PlanRequest:
    """``free.plan`` under way. Nothing here blocks; raises RequestError for a request that makes no sense."""

    def __init__(self, data_dir: str, request: Dict[str, Any], code_dir: str, deadline_s: float = DEADLINE_S):
        what = free_order.asked(request)
        command = [sys.executable, "-u", "-s", "-S", code_dir, "free-plan", data_dir, json.dumps(what)]
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdin=null, stdout=pipe, stderr=pipe, bufsize=0, env=spawn.clean_environment())
        for file in (self._process.stdout, self._process.stderr):
            assert file is not None
            os.set_blocking(file.fileno(), False)
        self._deadline_s = time.monotonic() + deadline_s
        self._out = self._said = b""

    def poll(self) -> Optional[Dict[str, Any]]:
        """{plan}, or None: ask again in some 50 ms. Raises RequestError when there will be none."""
        code = self._process.poll()
        assert self._process.stdout is not None and self._process.stderr is not None
        self._out += _drain(self._process.stdout)
        self._said = (self._said + _drain(self._process.stderr))[-2000:]
        if code is None and time.monotonic() < self._deadline_s and len(self._out) <= _MAX_BYTES:
            return None
        self._close()
        try:
            return {"plan": json.loads(self._out.decode())} if code == 0 else self._failed(code)
        except ValueError:
            return self._failed(code)

    def _failed(self, code: Optional[int]) -> Dict[str, Any]:
        said = self._said.decode("utf-8", "replace").strip().splitlines()
        how = "it gave no answer in time" if code is None else "exit code %s" % code
        raise RequestError(FAILED, "the look at GPUs and processes failed: %s%s" % (how, ": " + said[-1][:300] if said else ""))

    def _close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            try:
                self._process.wait(0.3)
            except subprocess.TimeoutExpired:
                pass  # it hangs in the kernel
        for file in (self._process.stdout, self._process.stderr):
            if file is not None:
                self._out += _drain(file) if file is self._process.stdout else b""
                file.close()


def _drain(file: Any) -> bytes:
    data = b""
    while True:
        try:
            part = os.read(file.fileno(), _READ_BYTES)
        except BlockingIOError:
            return data
        if not part:
            return data
        data += part


def main(arguments: List[str]) -> int:
    """``free-plan DATA REQUEST``: print the plan as one line of JSON."""
    if len(arguments) != 2:
        print("use: free-plan DATA REQUEST", file=sys.stderr)
        return 2
    nvml = Session(arguments[0])
    try:
        plan, _, _ = survey(nvml, arguments[0], json.loads(arguments[1]))
    finally:
        nvml.close()
    sys.stdout.write(json.dumps(plan, separators=(",", ":")) + "\n")
    sys.stdout.flush()
    return 0
