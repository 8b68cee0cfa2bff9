"""Faults that a stage on the rehearsal host inflicts on itself, so that an operator meets them before a real run depends on it.

``python -m pipeline.rehearsal.faults HOME NAME[,stage=STAGE][,at=SHARE][,seconds=S][,times=K]`` arms one, ``... HOME none`` clears it.
"""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict

from pipeline.contract import rehearsal
from pipeline.contract.files import write_json
from pipeline.host import procs
from pipeline.rehearsal import sim_gpus
from pipeline.rehearsal.blocks import Blocks
from pipeline.rehearsal.run_settings import MIN_FREE_BYTES

LINGER_MS = 800
"""How long simulated memory stays after its process has gone; measured on a real GPU: 50 to 210 ms."""
LEAST_ROOM_BYTES = 1 << 20
"""What a disk that is nearly full still has, above what the run keeps free."""
FOREVER_MS = 10 * 365 * 86400 * 1000


def arm(home: str, fault: "rehearsal.Fault | None") -> None:
    """Set a fault in place of the one before, or clear it (None): lingering GPU memory goes, durable writes work again. Raises OSError."""
    with rehearsal.fault_lock(home):
        sim_gpus.set_linger(rehearsal.gpus_file(home), LINGER_MS)
        if fault is not None:
            write_json(rehearsal.fault_file(home), {**asdict(fault), "fired": None})
        else:
            with suppress(FileNotFoundError):
                os.unlink(rehearsal.fault_file(home))


class StageFaults:
    """The faults of this stage process. ``look`` is called again and again with the share of work done."""

    def __init__(self, home: str, stage: str):
        self._home = home
        self._stage = stage
        self._blocks = Blocks()
        self._active = ""
        self._end: Callable[[], None] = _nothing

    @property
    def spins(self) -> bool:
        """Whether the working thread spins now, at low power."""
        return self._active == "busy-loop"

    @property
    def slows(self) -> bool:
        """Whether it is made slow: its kernels would take longer, without a pause."""
        return self._blocks.slows

    def look(self, share: float, left_bytes: int | None = None) -> None:
        """Inject the pending fault if its share is reached; end one that is over. Does not return from a crash.

        ``left_bytes``: what the stage has still to write, where it is known.
        """
        if self._active and (rehearsal.fired_fault(self._home) or {}).get("name") != self._active:
            end, self._end, self._active = self._end, _nothing, ""
            end()
        fault = rehearsal.pending_fault(self._home)
        if fault is None or fault.stage != self._stage or share < fault.at_share or fault.name == "drop-link":  # the last is the server's
            return
        room = MIN_FREE_BYTES + max(LEAST_ROOM_BYTES, (left_bytes or 0) // 4)
        if not rehearsal.fire_fault(self._home, fault.name, **({"free_bytes": room} if fault.name == "disk-low" else {})):
            return
        if fault.name == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.name == "freeze":
            self._freeze(fault.seconds)
        elif fault.name == "gpu-memory-stays":
            sim_gpus.set_linger(rehearsal.gpus_file(self._home), FOREVER_MS)
        else:
            self._active, self._end = fault.name, self._begin(fault)

    def _begin(self, fault: rehearsal.Fault) -> Callable[[], None]:
        """Inject a fault that lasts; returns what ends it."""
        blocks, ends = self._blocks, ExitStack()
        ends.callback(blocks.let_go)
        if fault.name == "disk-full":
            ends.callback(_disk_full())
        elif fault.name == "log-silent":
            ends.callback(_log_silent())
        if fault.name == "deadlock":
            blocks.deadlock()
        elif fault.name == "busy-loop":
            blocks.spin()
        elif fault.name == "writer-gone":
            blocks.writers_hang()
        elif fault.times > 1.0:
            blocks.slow(fault.times)
        return ends.close  # of disk-low there is no more to end: the host's probe looks at the fault itself

    @staticmethod
    def _freeze(seconds: float) -> None:
        """Stop this process; a helper in a session of its own lets it go on."""
        pid = os.getpid()
        command = [sys.executable, "-m", "pipeline.rehearsal.faults", "continue", str(pid), str(sim_gpus.start_ticks(pid)), str(seconds)]
        # Without the cookie: the helper is no process of the attempt, and must not keep it from being counted as ended.
        environment = {key: value for key, value in os.environ.items() if key != procs.COOKIE}
        helper = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, start_new_session=True
        )
        assert helper.stdout is not None
        if helper.stdout.readline() == b"ready\n":  # else nobody would wake us
            os.kill(pid, signal.SIGSTOP)
        helper.stdout.close()
        helper.wait()


def _nothing() -> None:
    pass


def _disk_full() -> Callable[[], None]:
    """From now on nothing can be made durable."""
    syncs = os.fdatasync, os.fsync
    os.fdatasync = os.fsync = _no_space

    def end() -> None:
        os.fdatasync, os.fsync = syncs

    return end


def _log_silent() -> Callable[[], None]:
    """From now on what the process prints goes nowhere."""
    kept = os.dup(1), os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for fd in (1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)

    def end() -> None:
        for fd, before in zip((1, 2), kept, strict=True):
            os.dup2(before, fd)
            os.close(before)

    return end


def _no_space(fd: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC) + " (SIMULATED by --fault disk-full)")


def _continue(pid: int, ticks: int, seconds: float) -> None:
    """Send SIGCONT after a while, through a descriptor of that very process."""
    descriptor = os.pidfd_open(pid)
    if sim_gpus.start_ticks(pid) != ticks:
        return
    print("ready", flush=True)
    time.sleep(seconds)
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, signal.SIGCONT)


def main(arguments: "list[str]") -> int:
    if len(arguments) == 4 and arguments[0] == "continue":
        _continue(int(arguments[1]), int(arguments[2]), float(arguments[3]))
        return 0
    if len(arguments) != 2:
        print("usage: python -m pipeline.rehearsal.faults HOME NAME[,stage=STAGE][,at=SHARE][,seconds=S][,times=K]", file=sys.stderr)
        return 2
    try:
        arm(arguments[0], rehearsal.parse_fault(arguments[1]))
    except (OSError, ValueError) as error:
        print(f"rehearsal: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
