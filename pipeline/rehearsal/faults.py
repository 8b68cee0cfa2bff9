"""Faults that a stage on the rehearsal host inflicts on itself, so that an operator meets them before a real run depends on it.

``python -m pipeline.rehearsal.faults HOME NAME[,stage=STAGE][,at=SHARE][,seconds=S]`` arms one, ``... HOME none`` clears it.
"""

import errno
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict

from pipeline.contract import rehearsal
from pipeline.contract.files import write_json
from pipeline.host import procs
from pipeline.rehearsal import sim_gpus

LINGER_MS = 800
"""How long simulated memory stays after its process has gone; measured on a real GPU: 50 to 210 ms."""
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
        self._syncs = os.fdatasync, os.fsync
        self._disk_full = False

    def look(self, share: float) -> None:
        """Inject the pending fault if its share is reached; end a full disk that was cleared. Does not return from a crash."""
        if self._disk_full and not rehearsal.fault_is_set(self._home, "disk-full"):
            (os.fdatasync, os.fsync), self._disk_full = self._syncs, False
        fault = rehearsal.pending_fault(self._home)
        if fault is None or fault.stage != self._stage or share < fault.at_share or fault.name == "drop-link":  # the last is the server's
            return
        if not rehearsal.fire_fault(self._home, fault.name):
            return
        if fault.name == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.name == "freeze":
            self._freeze(fault.seconds)
        elif fault.name == "disk-full":
            os.fdatasync = os.fsync = _no_space
            self._disk_full = True
        elif fault.name == "gpu-memory-stays":
            sim_gpus.set_linger(rehearsal.gpus_file(self._home), FOREVER_MS)

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
        print("usage: python -m pipeline.rehearsal.faults HOME NAME[,stage=STAGE][,at=SHARE][,seconds=S]", file=sys.stderr)
        return 2
    try:
        arm(arguments[0], rehearsal.parse_fault(arguments[1]))
    except (OSError, ValueError) as error:
        print(f"rehearsal: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
