"""One reading of all GPUs through nvidia-ml-py, in the shape of ``telemetry.FRAME["gpus"]``.

Every metric stands for itself: a number, or the word why there is none. One GPU that fails never hides the others.
What the calls mean and where drivers differ: NVIDIA's nvml.h, and measurements on H200 (v2 ``used`` is exactly 0 when idle).
"""

import os
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from pipeline.contract.clock import boot_s
from pipeline.contract.telemetry import ERROR, NO_PERMISSION, NOT_SUPPORTED, missing

PROCESSES_EVERY_S = 5.0
"""Process lists hold the driver's global lock far longer than the other calls."""
METRICS = ("total_bytes", "used_bytes", "reserved_bytes", "util_pct", "power_w", "temp_c", "sm_mhz", "clock_reasons")
CLOCK_REASONS = (
    "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
    "hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clock_setting",
)  # fmt: skip
"""Bit 0 first, as nvml.h numbers nvmlClocksEventReasons."""
LISTS = (("C", "Compute"), ("G", "Graphics"), ("M", "MPSCompute"))

NVML_NO_PERMISSION, NVML_INSUFFICIENT_SIZE, NVML_FUNCTION_NOT_FOUND, NVML_VERSION_MISMATCH = 4, 7, 13, 25
NVML_NOT_SUPPORTED = 3
DEVICE_GONE = {10: "the driver timed out", 15: "GPU is lost", 16: "GPU needs a reset", 27: "GPU is not ready"}
"""Codes after which no other call to this device is worth its time in this round."""
DRIVER_GONE = (1, 9, 18)
"""Uninitialised, driver not loaded, version mismatch: only a fresh process can see the driver again."""

_SPARE_BYTES = 1 << 20


class DriverGoneError(Exception):
    """The whole library stopped working; ``code`` is NVML's."""

    def __init__(self, code: int):
        super().__init__("NVML error %d" % code)
        self.code = code


class Reader:
    """Keeps handles, what never changes, and which spelling of a call this driver knows."""

    def __init__(self, nvml: Any, simulated: bool = False):
        self._nvml = nvml
        self._simulated = simulated
        self._devices: Dict[int, Any] = {}
        self._static: Dict[int, Dict[str, Any]] = {}
        self._spelling: Dict[str, int] = {}
        self._procs: Dict[int, Tuple[Any, float]] = {}
        self._procs_due_s = 0.0
        self._driver: Optional[str] = None
        self._pid_max = _pid_max()

    def read(self, processes: Optional[bool] = None) -> Dict[str, Any]:
        """Read everything once; the process lists when they are due, or as ``processes`` says. Raises DriverGoneError."""
        started = time.perf_counter()
        now = boot_s()
        with_processes = now >= self._procs_due_s if processes is None else processes
        if with_processes:
            self._procs_due_s = now + PROCESSES_EVERY_S
        if self._driver is None:
            driver = self._metric(self._nvml.nvmlSystemGetDriverVersion)
            self._driver = driver if isinstance(driver, str) else None
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            raise DriverGoneError(error.value) from None
        gpus = [self._gpu(index, with_processes) for index in range(count)]
        return {
            "boot_s": round(now, 3),
            "simulated": self._simulated,
            "driver": self._driver,
            "count": count,
            "round_ms": round((time.perf_counter() - started) * 1000, 2),
            "gpus": gpus,
        }

    def _gpu(self, index: int, with_processes: bool) -> Dict[str, Any]:
        row: Dict[str, Any] = {"index": index, "uuid": None, "name": None, "reserve_apart": False, "error": None}
        row.update(self._static.get(index, {}))
        try:
            device = self._devices.get(index)
            if device is None:
                device = self._metric(self._nvml.nvmlDeviceGetHandleByIndex, index)
                if isinstance(device, str):
                    return self._lost(row, device)
                self._identify(row, index, device)
                self._devices[index] = device
            self._fill(row, device)
            if with_processes or index not in self._procs:
                self._procs[index] = (self._processes(device, row), round(boot_s(), 3))
        except _DeviceGoneError as gone:
            self._devices.pop(index, None)
            self._procs.pop(index, None)
            return self._lost(row, missing(ERROR, str(gone)))
        row["procs"], row["procs_boot_s"] = self._procs[index]
        return row

    def _lost(self, row: Dict[str, Any], word: str) -> Dict[str, Any]:
        row.update(dict.fromkeys(METRICS, word), procs=word, procs_boot_s=round(boot_s(), 3))
        row["error"] = word.partition(": ")[2] or word
        return row

    def _identify(self, row: Dict[str, Any], index: int, device: Any) -> None:
        """Which GPU this is; kept, so that a GPU that is lost later still has its name."""
        self._static[index] = {
            "uuid": self._metric(self._nvml.nvmlDeviceGetUUID, device),
            "name": self._metric(self._nvml.nvmlDeviceGetName, device),
            "minor": self._metric(self._nvml.nvmlDeviceGetMinorNumber, device),
        }
        row.update(self._static[index])

    def _fill(self, row: Dict[str, Any], device: Any) -> None:
        nvml = self._nvml
        self._memory(row, device)
        util = self._metric(nvml.nvmlDeviceGetUtilizationRates, device)
        milliwatts = self._metric(nvml.nvmlDeviceGetPowerUsage, device)
        row["util_pct"] = util if isinstance(util, str) else util.gpu
        row["power_w"] = milliwatts if isinstance(milliwatts, str) else milliwatts / 1000
        row["temp_c"] = self._first_known("temperature", ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"), device, 0)
        row["sm_mhz"] = self._metric(nvml.nvmlDeviceGetClockInfo, device, nvml.NVML_CLOCK_SM)
        row["clock_reasons"] = self._first_known(
            "reasons", ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"), device
        )
        if isinstance(row["clock_reasons"], int):
            row["clock_reasons"] = reason_names(row["clock_reasons"])
        failed = [row[name] for name in METRICS if isinstance(row[name], str) and row[name].startswith(ERROR)]
        row["error"] = failed[0].partition(": ")[2] or failed[0] if failed else None

    def _memory(self, row: Dict[str, Any], device: Any) -> None:
        """Memory by NVML v2, whose ``used`` leaves the driver's reserve out; by v1, which lumps it in, on older drivers."""
        info = self._metric(self._nvml.nvmlDeviceGetMemoryInfo, device, self._nvml.nvmlMemory_v2, unknown=None)
        reserved: Any = NOT_SUPPORTED
        if info is None:
            info = self._metric(self._nvml.nvmlDeviceGetMemoryInfo, device)
        elif not isinstance(info, str):
            reserved = info.reserved
        if not isinstance(info, str) and info.total == 0:
            info = NOT_SUPPORTED  # some platforms with unified memory say success and zero
        if isinstance(info, str):
            row.update(total_bytes=info, used_bytes=info, reserved_bytes=info)
            return
        row.update(total_bytes=info.total, used_bytes=info.used, reserved_bytes=reserved)
        # The header's two texts contradict each other, so the meaning is read off the numbers.
        apart = isinstance(reserved, int) and abs(info.used + info.free + reserved - info.total) < _SPARE_BYTES
        row["reserve_apart"] = apart

    def _processes(self, device: Any, row: Dict[str, Any]) -> Any:
        """Rows of the three lists, one a pid; or a word. A list that cannot be read makes the whole unknown: half of it would mislead."""
        total = row["total_bytes"] if isinstance(row["total_bytes"], int) else None
        found: Dict[int, Dict[str, Any]] = {}
        refused = []
        for kind, name in LISTS:
            rows = self._list("nvmlDeviceGet%sRunningProcesses" % name, device)
            if isinstance(rows, str):
                if not rows.startswith(NOT_SUPPORTED):
                    return rows
                refused.append(rows)
                continue
            for one in rows:
                size = one.usedGpuMemory
                if not 0 <= one.pid <= self._pid_max or (size is not None and total is not None and size > total):
                    return missing(ERROR, "process list unreadable (pid %s, %s bytes): library and driver disagree" % (one.pid, size))
                entry = found.setdefault(one.pid, {"pid": one.pid, "bytes": NOT_SUPPORTED, "kind": ""})
                if kind not in entry["kind"]:
                    entry["kind"] += "+" + kind if entry["kind"] else kind
                if size is not None:  # a container may see one pid several times: the same memory, not more
                    entry["bytes"] = max(size, entry["bytes"]) if isinstance(entry["bytes"], int) else size
        if len(refused) == len(LISTS):
            return refused[0]
        for entry in found.values():
            entry["name"] = process_name(entry["pid"])
            entry["here"] = entry["name"] is not None  # not proof: drivers before 535.113 tell pids of the host in a container
        return sorted(found.values(), key=lambda entry: entry["pid"])

    def _list(self, name: str, device: Any) -> Any:
        for _ in range(3):
            rows = self._first_known(name, (name, name + "_v2"), device)
            if rows != _GREW:
                return rows
        return missing(ERROR, "the process list grew while it was read")

    def _first_known(self, key: str, names: Tuple[str, ...], *arguments: Any) -> Any:
        """The first of several spellings of a call that this driver has."""
        for position in range(self._spelling.get(key, 0), len(names)):
            function = getattr(self._nvml, names[position], None)
            value = None if function is None else self._metric(function, *arguments, unknown=None)
            if value is not None:
                self._spelling[key] = position
                return value
        return missing(NOT_SUPPORTED, "this driver has no such call")

    def _metric(self, function: Callable[..., Any], *arguments: Any, unknown: Any = NOT_SUPPORTED) -> Any:
        """The call's value, or a word; ``unknown`` when the driver does not know the call."""
        try:
            return function(*arguments)
        except self._nvml.NVMLLibraryMismatchError:  # is no NVMLError; raised for a call that the library lacks
            return unknown
        except self._nvml.NVMLError as error:
            code = error.value
        if code in DRIVER_GONE:
            raise DriverGoneError(code)
        if code in DEVICE_GONE and arguments:
            raise _DeviceGoneError(DEVICE_GONE[code])
        if code in (NVML_FUNCTION_NOT_FOUND, NVML_VERSION_MISMATCH):
            return unknown
        if code == NVML_INSUFFICIENT_SIZE:
            return _GREW
        if code == NVML_NOT_SUPPORTED:
            return NOT_SUPPORTED
        if code == NVML_NO_PERMISSION:
            return NO_PERMISSION
        return missing(ERROR, DEVICE_GONE.get(code) or "NVML error %d" % code)


class _DeviceGoneError(Exception):
    pass


_GREW = missing(ERROR, "the answer did not fit")


def reason_names(bits: int) -> List[str]:
    """Names of the set bits, lowest first."""
    known = [name for bit, name in enumerate(CLOCK_REASONS) if bits >> bit & 1]
    return known + ["bit %d" % bit for bit in range(len(CLOCK_REASONS), bits.bit_length()) if bits >> bit & 1]


def process_name(pid: int) -> Optional[str]:
    """What a process of this pid namespace calls itself (at most 60 characters); None when there is none with that pid."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            text = file.read(400).replace(b"\0", b" ").strip()
        if not text:
            with open("/proc/%d/comm" % pid, "rb") as file:
                text = file.read().strip()
    except OSError:
        return "?" if os.path.exists("/proc/%d" % pid) else None
    return text.decode("utf-8", "replace")[:60]


def _pid_max() -> int:
    try:
        with open("/proc/sys/kernel/pid_max") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 1 << 22
