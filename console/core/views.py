"""A frame as typed values: the host, its GPUs and the watched run. Nothing raises on a bad frame; what is not there is unknown."""

from typing import Any

import msgspec

from console.core import action, attempt, control, reading, sanitize
from console.core.action import Action
from console.core.attempt import Attempt
from console.core.control import Control
from console.core.reading import Reading
from console.core.servers import Server, parse_servers
from pipeline.contract import telemetry
from pipeline.contract.stages import STAGES, WATCH

_MAX_GPUS = 64
_MAX_PROCESSES = 1000
_MAX_BROKEN = 8
_MAX_TAIL = 40
_ROUNDING_S = 1.0
"""A fact may be written between the frame's time and its reading."""
_NVML_STATES = (telemetry.NVML_STARTING, telemetry.NVML_OK, telemetry.NVML_STUCK, telemetry.NVML_ERROR)


class GpuProcess(msgspec.Struct, frozen=True):
    pid: int
    bytes: Reading
    name: str
    here: bool | None
    """Whether the pid is one that this host program can see in /proc."""


class Gpu(msgspec.Struct, frozen=True):
    index: int
    uuid: str
    name: str
    total_bytes: Reading
    used_bytes: Reading
    reserved_bytes: Reading
    reserve_apart: bool | None
    """True: ``used_bytes`` leaves the driver's reserve out. Else it may be in it, and 0 can never be seen."""
    util_pct: Reading
    power_w: Reading
    temp_c: Reading
    sm_mhz: Reading
    error: str
    procs: tuple[GpuProcess, ...] | None
    """None: the list could not be read, which is not an empty list."""


class Nvml(msgspec.Struct, frozen=True):
    state: str
    detail: str
    simulated: bool | None
    driver: str
    count: int | None
    boot_s: float | None
    """When the newest round of readings was taken."""


class Disk(msgspec.Struct, frozen=True):
    path: str
    total_bytes: Reading
    free_bytes: Reading
    inodes_free: Reading
    boot_s: float | None


class Run(msgspec.Struct, frozen=True):
    name: str
    exists: bool | None
    settings_sha256: str


class HostView(msgspec.Struct, frozen=True):
    """What one frame says. Ages: ``boot_s`` minus a fact's time, plus the frame's own age."""

    boot_id: str
    boot_s: float
    seq: int | None
    wall_s: float | None
    utc_offset_s: float | None
    name: str
    user: str
    load1: Reading
    cpus: int | None
    ram_total_bytes: Reading
    ram_available_bytes: Reading
    disk: Disk | None
    output_disk: Disk | None
    """Of the directory that was asked for with the watch; None when none was."""
    nvml: Nvml | None
    gpus: tuple[Gpu, ...] | None
    """None: no list came, which is not "no GPU"."""
    run: Run | None
    stages: dict[str, Attempt] | None
    """Newest attempts of the watched run; ``WATCH`` among them while this console watches a directory. None: not told, not "none"."""
    servers: tuple[Server, ...] | None
    """Inference servers that run there, whoever started them. None: not looked at, which is not "none"."""
    servers_boot_s: float | None
    servers_unseen: str
    """Why there may be more servers than those; empty when nothing was hidden."""
    consoles: int | None
    control: Control | None
    """Who may act on the watched run; None: nobody, or not told."""
    dropped_frames: int | None
    broken: str = ""
    """What the host program could not make, and why; empty when nothing is told."""
    actions: dict[str, Action] = {}
    """How the host's actions stand: what lives, else the newest."""
    baseline_accepted: dict[str, int] = {}
    """Bytes by UUID that idle GPUs may hold: accepted by the operator for the watched run."""
    counting: str = ""
    """The full count of an output that goes on, in words; empty without one."""
    log_tail: tuple[str, ...] = ()
    """Newest lines of the log that is watched with a directory."""
    baseline_recorded: dict[str, int] = {}
    """Bytes by UUID that provably idle GPUs held, recorded since the host's boot."""

    def age_s(self, fact_boot_s: float | None, frame_age_s: float | None) -> float | None:
        """Age of a fact in this frame, given the frame's own age; None when either time is unknown, or the fact is from the future."""
        if fact_boot_s is None or frame_age_s is None or fact_boot_s > self.boot_s + _ROUNDING_S:
            return None
        return max(self.boot_s - fact_boot_s, 0.0) + frame_age_s


def parse(frame: Any, observes: bool = False) -> HostView | None:
    """The view of a frame; None when it is no object or carries no time, because then nothing in it has an age.

    ``observes``: a directory is watched from here; else none is told of."""
    boot_s = reading.number(frame, "boot_s")
    if boot_s is None:
        return None
    host = reading.mapping(frame, "host")
    gpus = reading.sequence(frame, "gpus")
    dropped = reading.mapping(frame, "dropped")
    return HostView(
        boot_id=reading.text(frame, "boot_id"),
        boot_s=boot_s,
        seq=reading.count(frame, "seq"),
        wall_s=reading.number(frame, "wall_s"),
        utc_offset_s=reading.number(frame, "utc_offset_s"),
        name=reading.text(host, "name"),
        user=reading.text(host, "user"),
        load1=reading.reading(host, "load1"),
        cpus=reading.count(host, "cpus"),
        ram_total_bytes=reading.reading(host, "ram_total_bytes"),
        ram_available_bytes=reading.reading(host, "ram_available_bytes"),
        disk=_disk(reading.mapping(frame, "disk")),
        output_disk=_disk(reading.mapping(frame, "output_disk")),
        nvml=_nvml(reading.mapping(frame, "nvml")),
        gpus=None if gpus is None else tuple(gpu for one in gpus[:_MAX_GPUS] if (gpu := _gpu(one))),
        run=_run(reading.mapping(frame, "run")),
        stages=_stages(reading.mapping(frame, "stages"), reading.mapping(frame, "observed") if observes else None),
        servers=parse_servers(reading.sequence(frame, "servers")),
        servers_boot_s=reading.number(frame, "servers_boot_s"),
        servers_unseen=reading.text(frame, "servers_unseen"),
        consoles=reading.count(frame, "consoles"),
        control=control.parse(frame.get("control")),
        dropped_frames=reading.count(dropped, "frames"),
        actions=action.parse_all(reading.mapping(frame, "actions")),
        baseline_accepted=action.baseline(reading.mapping(frame, "baseline_accepted")),
        baseline_recorded=action.baseline(reading.mapping(frame, "baseline_recorded")),
        log_tail=_tail(reading.mapping(reading.mapping(frame, "observed"), "log")),
        counting=_counting(reading.mapping(frame, "count")),
        broken=sanitize.line("; ".join(str(one) for one in (reading.sequence(frame, "broken") or [])[:_MAX_BROKEN]), 500),
    )


def _disk(source: dict[str, Any] | None) -> Disk | None:
    if source is None:
        return None
    return Disk(
        path=reading.text(source, "path"),
        total_bytes=reading.reading(source, "total_bytes"),
        free_bytes=reading.reading(source, "free_bytes"),
        inodes_free=reading.reading(source, "inodes_free"),
        boot_s=reading.number(source, "boot_s"),
    )


def _nvml(source: dict[str, Any] | None) -> Nvml | None:
    if source is None:
        return None
    state = reading.text(source, "state")
    return Nvml(
        state=state if state in _NVML_STATES else telemetry.NVML_ERROR,
        detail=reading.text(source, "detail"),
        simulated=reading.flag(source, "simulated"),
        driver=reading.text(source, "driver"),
        count=reading.count(source, "count"),
        boot_s=reading.number(source, "boot_s"),
    )


def _gpu(source: Any) -> Gpu | None:
    index = reading.count(source, "index")
    if index is None:
        return None
    total = reading.reading(source, "total_bytes")
    largest = total.value if total.value else float(1 << 62)
    procs = reading.sequence(source, "procs")
    return Gpu(
        index=index,
        uuid=reading.text(source, "uuid"),
        name=reading.text(source, "name"),
        total_bytes=total,
        used_bytes=reading.reading(source, "used_bytes", largest),
        reserved_bytes=reading.reading(source, "reserved_bytes", largest),
        reserve_apart=reading.flag(source, "reserve_apart"),
        util_pct=reading.reading(source, "util_pct", 100),
        power_w=reading.reading(source, "power_w", 1e5),
        temp_c=reading.reading(source, "temp_c", 1000),
        sm_mhz=reading.reading(source, "sm_mhz", 1e5),
        error=reading.text(source, "error"),
        procs=None if procs is None else tuple(_processes(procs)),
    )


def _processes(source: list[Any]) -> list[GpuProcess]:
    processes = []
    for one in source[:_MAX_PROCESSES]:
        pid = reading.count(one, "pid")
        if pid is not None:
            processes.append(GpuProcess(pid, reading.reading(one, "bytes"), reading.text(one, "name"), reading.flag(one, "here")))
    return processes


def _run(source: dict[str, Any] | None) -> Run | None:
    if source is None:
        return None
    return Run(attempt.name(source, "name"), reading.flag(source, "exists"), reading.text(source, "settings_sha256"))


def _stages(source: dict[str, Any] | None, observed: dict[str, Any] | None) -> dict[str, Attempt] | None:
    if source is None:
        return None
    parsed = {stage: attempt.parse(source.get(stage), stage) for stage in STAGES} | {WATCH: attempt.parse(observed, WATCH)}
    return {stage: one for stage, one in parsed.items() if one is not None}


def _counting(source: dict[str, Any] | None) -> str:
    if source is None:
        return ""
    return f"{reading.text(source, 'stage')} of run {reading.text(source, 'run')}, {reading.count(source, 'files') or 0:,} files so far"


def _tail(log: dict[str, Any] | None) -> tuple[str, ...]:
    return tuple(sanitize.line(one, 300) for one in (reading.sequence(log, "tail") or [])[-_MAX_TAIL:] if isinstance(one, str))
