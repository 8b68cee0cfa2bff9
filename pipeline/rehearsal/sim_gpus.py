"""The state of the SIMULATED GPUs: one text file in which processes register what they hold.

One record a line, the last one of a kind rules::

    boot BOOT_ID                          everything held belongs to this boot
    driver VERSION
    name TEXT
    gpu INDEX UUID TOTAL_MIB RESERVED_MIB BASE_MIB
    linger_ms N                           how long memory stays after its process has gone
    hold PID START_TICKS GPU MIB UTIL_PCT POWER_W
    gone PID START_TICKS BOOT_MS          appended by the first reader that finds the process gone

A process counts while ``/proc/PID/stat`` has the same start ticks and is no zombie, as on a real GPU: its memory goes when it has
gone, whoever killed it. One that is stopped (state T or t) starts no kernel and cannot write another record: it counts with
utilisation 0 and ``HELD_W`` at most. Lines are appended under a lock with one write each; a reader needs no lock and leaves out a
torn last line.
"""

import contextlib
import fcntl
import os
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from pipeline.contract.clock import boot_id, boot_s
from pipeline.host import procs, simulated_holds

PATH_VARIABLE = simulated_holds.PATH_VARIABLE
NAME = "SIMULATED RTX PRO 6000"
HELD_W = 58
"""Above idle: what a GPU takes with a context, memory in use, and no kernel."""
IDLE_W, IDLE_C, IDLE_MHZ, BUSY_MHZ = 30, 30, 210, 2400
COMPACT_BYTES = 64 << 10


class Gpu(NamedTuple):
    """One GPU now. Memory in MiB; ``used`` is what NVML's v2 calls used: without the reserve."""

    uuid: str
    name: str
    total: int
    reserved: int
    used: int
    util_pct: int
    power_w: int
    procs: List[Tuple[int, int]]
    """(pid, MiB) of the processes that are alive."""

    @property
    def free(self) -> int:
        return max(0, self.total - self.reserved - self.used)

    @property
    def temp_c(self) -> int:
        return IDLE_C + (self.power_w - IDLE_W) // 12

    @property
    def sm_mhz(self) -> int:
        return BUSY_MHZ if self.util_pct else IDLE_MHZ


def start_ticks(pid: int) -> Optional[int]:
    """Start time of a running process in clock ticks since boot; None if it is gone or a zombie."""
    stat = procs.read_stat(pid)
    return None if stat is None or stat.state in procs.DEAD else stat.start_ticks


def _state(pid: int, ticks: int) -> str:
    """The state of the process that started then; empty when it is gone or a zombie."""
    stat = procs.read_stat(pid)
    return "" if stat is None or stat.state in procs.DEAD or stat.start_ticks != ticks else stat.state


class State:
    """The file, parsed."""

    def __init__(self, path: str, lines: List[str]):
        self.path = path
        self.boot = self.driver = ""
        self.name = NAME
        self.linger_ms = 0
        self.table: Dict[int, Tuple[str, int, int, int]] = {}
        self.holds: Dict[Tuple[int, int, int], Tuple[int, int, int]] = {}
        self.gone: Dict[Tuple[int, int], int] = {}
        self.others: List[str] = []
        """Records that are not ours; kept."""
        for line in lines:
            kind, _, rest = line.partition(" ")
            words = rest.split()
            try:
                if kind == "gpu":
                    self.table[int(words[0])] = (words[1], int(words[2]), int(words[3]), int(words[4]))
                elif kind == "hold":
                    key = (int(words[0]), int(words[1]), int(words[2]))
                    self.holds[key] = (int(words[3]), int(words[4]), int(words[5]))
                elif kind == "gone":
                    self.gone.setdefault((int(words[0]), int(words[1])), int(words[2]))
                elif kind == "linger_ms":
                    self.linger_ms = int(words[0])
                elif kind in ("boot", "driver", "name"):
                    setattr(self, kind, rest)
                else:
                    self.others.append(line)
            except (ValueError, IndexError):
                continue
        if self.boot and self.boot != boot_id():
            self.holds, self.gone = {}, {}

    def gpus(self) -> List[Gpu]:
        """The GPUs as they are now; notes in the file when a process is first found gone."""
        now_ms = int(boot_s() * 1000)
        used = {index: base for index, (_, _, _, base) in self.table.items()}
        util = dict.fromkeys(self.table, 0)
        watts = dict.fromkeys(self.table, IDLE_W)
        procs: Dict[int, List[Tuple[int, int]]] = {index: [] for index in self.table}
        alive: Dict[Tuple[int, int], str] = {}
        for (pid, ticks, index), (held_mib, busy_pct, extra_w) in self.holds.items():
            process = (pid, ticks)
            if index not in self.table:
                continue
            if process not in alive:
                alive[process] = "" if process in self.gone else _state(pid, ticks)
            if alive[process]:
                stopped = alive[process] in "Tt"
                used[index] += held_mib
                util[index] += 0 if stopped else busy_pct
                watts[index] += min(extra_w, HELD_W) if stopped else extra_w
                if held_mib:
                    procs[index].append((pid, held_mib))
                continue
            if process not in self.gone:
                self.gone[process] = now_ms
                with contextlib.suppress(OSError):
                    _append(self.path, "gone %d %d %d" % (pid, ticks, now_ms))
            if now_ms - self.gone[process] < self.linger_ms:
                used[index] += held_mib
        return [
            Gpu(uuid, self.name, total, reserved, min(total - reserved, used[index]), min(100, util[index]), watts[index], procs[index])
            for index, (uuid, total, reserved, _) in sorted(self.table.items())
        ]

    def lines(self) -> List[str]:
        """The records that still matter: a process that has gone and no longer lingers does not."""
        now_ms = int(boot_s() * 1000)
        over = {process for process, at in self.gone.items() if now_ms - at >= self.linger_ms}
        lines = ["boot " + boot_id(), "driver " + self.driver, "name " + self.name, "linger_ms %d" % self.linger_ms]
        lines += ["gpu %d %s %d %d %d" % (index, *row) for index, row in sorted(self.table.items())]
        lines += ["hold %d %d %d %d %d %d" % (key + row) for key, row in self.holds.items() if key[:2] not in over]
        held = {key[:2] for key in self.holds}
        lines += ["gone %d %d %d" % (*process, at) for process, at in self.gone.items() if process in held - over]
        return lines + self.others


def read(path: str) -> State:
    """Parse the file. Raises OSError when it cannot be read."""
    with open(path, "rb") as file:
        text = file.read().decode("utf-8", "replace")
    return State(path, text[: text.rfind("\n") + 1].splitlines())


def create(path: str, gpus: int = 8, total_mib: int = 97253, reserved_mib: int = 600, linger_ms: int = 800, fresh: bool = False) -> None:
    """Make the file, or keep what live processes hold in the one that is there (``fresh``: do not). Raises OSError."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with _locked(path):
        state = State(path, [])
        if not fresh:
            with contextlib.suppress(OSError):
                state = read(path)
        state.driver, state.linger_ms = "580.0-sim", linger_ms
        state.table = {index: ("GPU-SIMULATED-%04d" % index, total_mib, reserved_mib, 0) for index in range(gpus)}
        _publish(path, state)


def hold(path: str, gpu: int, mib: int, util_pct: int = 0, power_w: int = 0, pid: Optional[int] = None) -> None:
    """Register what a process (this one, if not told) holds on one GPU from now on; it replaces what it held there. Raises OSError."""
    process = os.getpid() if pid is None else pid
    ticks = start_ticks(process)
    if ticks is None:
        raise ProcessLookupError("no process %d" % process)
    _append(path, "hold %d %d %d %d %d %d" % (process, ticks, gpu, mib, util_pct, power_w))


def set_linger(path: str, milliseconds: int) -> None:
    """How long memory stays after its process has gone; what has been released stays released. Raises OSError."""
    with _locked(path):
        state = read(path)
        kept = state.lines()
        state = State(path, [*kept, "linger_ms %d" % milliseconds])
        _publish(path, state)


def _append(path: str, line: str) -> None:
    with _locked(path):
        if os.path.getsize(path) > COMPACT_BYTES:
            _publish(path, read(path))
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(fd, line.encode() + b"\n")
        finally:
            os.close(fd)


def _publish(path: str, state: State) -> None:
    temporary = path + ".new"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write("\n".join(state.lines()) + "\n")
    os.replace(temporary, path)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    fd = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
