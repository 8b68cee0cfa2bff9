"""The agent: one process for each connected client, which answers its requests and sends it a frame every interval.

It owns no job: what it starts belongs to itself (docs/wire.md), and the agent ends with its stdin. One loop over ``poll``, no
threads; nothing in it waits for the client to read.
"""

import json
import os
import select
import sys
from typing import Any, Dict, List, Optional, Tuple

from pipeline.contract.clock import boot_s
from pipeline.host import source_looks, spawn
from pipeline.host.consoles import DIRECTORY, Register
from pipeline.host.control import Control
from pipeline.host.errors import RequestError
from pipeline.host.frames import Frames
from pipeline.host.nvml_client import NvmlClient
from pipeline.host.operations import Watch
from pipeline.host.output import Output, OutputClosedError
from pipeline.host.requests import Requests
from pipeline.host.settings_store import check_data_dir

MAX_LINE_BYTES = 4 << 20
READ_BYTES = 1 << 16
NVML_EVERY_S = 1.0
"""The driver is not asked more often, whatever the frames' interval: each call holds a lock that the job needs too."""
NVML_LEAD_S = 0.1
"""A reading is asked for this long before the frame that will carry it."""
ALARM_EVERY_S = 0.25
"""What a lookout has just found in a log does not wait for the next frame."""
LAUNCH_POLL_S, TAIL_POLL_S, SURVEY_POLL_S = 0.05, 0.2, 0.5


class Agent:
    """The loop and its timers. ``stdin`` and ``stdout`` are descriptors."""

    def __init__(self, data_dir: str, nonce: str, code_dir: str, stdin: int = 0, stdout: int = 1):
        code = os.path.basename(code_dir)
        self._stdin = stdin
        self._stdout = stdout
        self._buffer = b""
        self._too_long = False
        self._output = Output(stdout, nonce)
        command = [sys.executable, "-u", "-s", "-S", code_dir, "nvml"]
        self._nvml = NvmlClient(command, os.path.join(data_dir, DIRECTORY))
        self._register = Register(data_dir, code)
        self._control = Control(data_dir)
        self._requests = Requests(data_dir, code_dir, self._output, self._control)
        self._frames = Frames(data_dir, code, self._nvml, self._register, self._control, self._requests.parts)
        self._watch: Optional[Watch] = None
        self._frame_due_s = self._ask_due_s = self._alarm_due_s = float("inf")

    def run(self) -> int:
        """Until stdin ends or nobody reads stdout."""
        self._output.reply({"agent": "ready"})
        try:
            while self._turn():
                pass
        except OutputClosedError:
            pass
        finally:
            self._nvml.close()
            self._requests.close()
            self._register.close()
            self._control.release()
            source_looks.close()
        return 0

    def _turn(self) -> bool:
        """Wait for something, deal with it; False when the input has ended."""
        self._output.flush()
        nvml_fds, survey_fds = self._nvml.fds, self._requests.survey_fds
        poll = select.poll()
        poll.register(self._stdin, 0 if self._output.congested else select.POLLIN)
        # Without POLLOUT the kernel still tells when nobody can read any more.
        poll.register(self._stdout, select.POLLOUT if self._output.pending else 0)
        for fd in nvml_fds + survey_fds:
            poll.register(fd, select.POLLIN)
        for fd, what in poll.poll(self._patience_ms()):
            if fd == self._stdout and what & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
                return False
            if fd == self._stdin and not self._take_input(what):
                self._output.flush()
                return False
            if fd in nvml_fds:
                self._nvml_readable(fd)
            elif fd in survey_fds:
                self._requests.survey_readable(fd)
        self._timers()
        return True

    def _patience_ms(self) -> Optional[float]:
        due = min(self._frame_due_s, self._ask_due_s, self._alarm_due_s, self._nvml.due_s or float("inf"))
        now = boot_s()
        if self._requests.waiting:
            due = min(due, now + LAUNCH_POLL_S)
        if self._requests.tailing and self._output.takes_log:
            due = min(due, now + TAIL_POLL_S)
        if self._requests.survey_fds:
            due = min(due, now + SURVEY_POLL_S)
        return None if due == float("inf") else max(0.0, (due - now) * 1000) + 1

    def _timers(self) -> None:
        now = boot_s()
        if now >= self._ask_due_s:
            self._nvml.ask()
            self._ask_due_s = now + NVML_EVERY_S
        self._nvml.tick()
        self._requests.tick()
        if self._watch is not self._requests.watch:
            self._watch = self._requests.watch
            self._frame_due_s = self._ask_due_s = self._alarm_due_s = now
            self._nvml.ask()
            self._register.watch(self._watch.run if self._watch else None)
        if self._watch is not None and now >= self._alarm_due_s:
            self._alarm_due_s = now + ALARM_EVERY_S
            self._frame_due_s = now if self._frames.alarmed() else self._frame_due_s
        if self._watch is not None and now >= self._frame_due_s:
            self._send_frame(self._watch, now)

    def _send_frame(self, watch: Watch, now: float) -> None:
        dropped = {"frames": self._output.dropped_frames, "log_bytes": self._requests.dropped_log_bytes}
        self._output.frame(self._frames.build(watch.run, watch.disk_path, dropped))
        self._frame_due_s += watch.interval_s
        if self._frame_due_s <= now:  # late by more than one: no catching up
            self._frame_due_s = now + watch.interval_s
        self._ask_due_s = max(self._ask_due_s, self._frame_due_s - NVML_LEAD_S)

    def _nvml_readable(self, fd: int) -> None:
        never_read = self._nvml.view()[1] is None
        if self._nvml.readable(fd) and never_read and self._watch is not None:
            self._frame_due_s = boot_s()  # the first reading is not kept waiting for the next frame

    def _take_input(self, what: int) -> bool:
        if not what & select.POLLIN:
            return False
        try:
            data = os.read(self._stdin, READ_BYTES)
        except BlockingIOError:  # stdin may share its descriptor's flags with stdout
            return True
        except OSError:
            return False
        if not data:
            return False
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            if self._too_long:
                self._too_long = False  # the end of the line that was too long
            elif line.strip():
                self._requests.handle(line)
        if len(self._buffer) > MAX_LINE_BYTES:
            if not self._too_long:
                self._requests.refuse(None, "usage", f"a line of more than {MAX_LINE_BYTES} bytes was thrown away")
            self._too_long, self._buffer = True, b""
        return True


def main(arguments: List[str]) -> int:
    """``agent --data DIR --nonce HEX``: serve the client on stdin and stdout. 2 for a data directory that cannot be used."""
    data_dir, nonce = _options(arguments)
    if data_dir is None or nonce is None:
        print("use: agent --data DIR --nonce HEX", file=sys.stderr)
        return 2
    os.umask(0o077)
    data_dir = os.path.abspath(os.path.expanduser(data_dir))
    try:
        check_data_dir(data_dir)
    except RequestError as error:
        line: Dict[str, Any] = {"boot": "error", "kind": "data-dir", "message": str(error), "hint": error.hint}
        os.write(1, b"\x1e" + nonce.encode() + json.dumps(line).encode() + b"\n")
        return 2
    return Agent(data_dir, nonce, spawn.code_root()).run()


def _options(arguments: List[str]) -> Tuple[Optional[str], Optional[str]]:
    """Two options with one value each (argparse costs the agent 2 MiB)."""
    found = dict(zip(arguments[::2], arguments[1::2]))
    if len(arguments) != 4 or set(found) != {"--data", "--nonce"}:
        return None, None
    return found["--data"], found["--nonce"]
