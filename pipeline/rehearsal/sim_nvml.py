"""SIMULATED GPUs: a stand-in for libnvidia-ml beneath the real nvidia-ml-py (``pynvml.nvmlLib = Library(path)``).

The functions take the ctypes arguments that nvidia-ml-py passes and keep the real library's manners: it must be initialised, struct
versions are checked (error 25), lists are sized by a first call (error 7), and whatever is not here is "function not found".
What the GPUs hold is in a text file, see ``pipeline.rehearsal.sim_gpus``; ``tests/fake_nvml`` has the same in C.
"""

import ctypes
import os
from typing import Any, List, Optional

from pipeline.contract.clock import boot_s
from pipeline.rehearsal.sim_gpus import PATH_VARIABLE, Gpu, read

SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, INSUFFICIENT_SIZE, DRIVER_NOT_LOADED, VERSION_MISMATCH = 0, 1, 2, 3, 7, 9, 25
MEMORY_V2 = 0x02000028
TEMPERATURE_V1 = 0x0100000C
CLOCK_SM = 1
GPU_IDLE = 0x1
NOT_MIG = 0xFFFFFFFF
SNAPSHOT_S = 0.02
"""One reading makes some fifty calls; they may share one look at the file and at /proc."""

_HANDLES = 0x51000


def install(pynvml: Any) -> None:
    """Put the stand-in beneath ``pynvml``; the file's path is in EAGLEWATCH_SIM_GPUS."""
    pynvml.nvmlLib = Library(os.environ.get(PATH_VARIABLE, ""))


def _error_string(code: int) -> bytes:
    return b"simulated error %d" % code


class Library:
    """What ``ctypes.CDLL("libnvidia-ml.so.1")`` would be."""

    def __init__(self, path: str):
        self._path = path
        self._ready = False
        self._gpus: Optional[List[Gpu]] = None
        """None: not initialised, or the file cannot be read."""
        self._driver = b""
        self._taken_s = float("-inf")
        self.nvmlErrorString = _error_string  # a plain function, because nvidia-ml-py sets its restype

    def _look(self) -> int:
        now = boot_s()
        if self._ready and now - self._taken_s > SNAPSHOT_S:
            try:
                state = read(self._path)
                self._gpus, self._driver, self._taken_s = state.gpus(), state.driver.encode(), now
            except OSError:
                self._gpus = None
        return UNINITIALIZED if self._gpus is None else SUCCESS

    def _gpu(self, handle: Any) -> Optional[Gpu]:
        self._look()
        index = (ctypes.cast(handle, ctypes.c_void_p).value or 0) - _HANDLES
        return self._gpus[index] if self._gpus is not None and 0 <= index < len(self._gpus) else None

    # What does not concern one device.

    def nvmlInitWithFlags(self, flags: int) -> int:
        self._ready = True
        return DRIVER_NOT_LOADED if self._look() else SUCCESS

    def nvmlShutdown(self) -> int:
        self._ready, self._gpus, self._taken_s = False, None, float("-inf")
        return SUCCESS

    def nvmlSystemGetDriverVersion(self, buffer: Any, size: Any) -> int:
        return self._text(self._driver, buffer, size)

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        code = self._look()
        count._obj.value = len(self._gpus or ())
        return code

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, device: Any) -> int:
        if self._look() or index.value >= len(self._gpus or ()):
            return INVALID_ARGUMENT
        ctypes.cast(device, ctypes.POINTER(ctypes.c_void_p)).contents.value = _HANDLES + index.value
        return SUCCESS

    @staticmethod
    def _text(value: bytes, buffer: Any, size: Any) -> int:
        if len(value) >= size.value:
            return INSUFFICIENT_SIZE
        buffer.value = value
        return SUCCESS

    # One device.

    def nvmlDeviceGetName(self, handle: Any, buffer: Any, size: Any) -> int:
        gpu = self._gpu(handle)
        return INVALID_ARGUMENT if gpu is None else self._text(gpu.name.encode(), buffer, size)

    def nvmlDeviceGetUUID(self, handle: Any, buffer: Any, size: Any) -> int:
        gpu = self._gpu(handle)
        return INVALID_ARGUMENT if gpu is None else self._text(gpu.uuid.encode(), buffer, size)

    def nvmlDeviceGetMinorNumber(self, handle: Any, minor: Any) -> int:
        if self._gpu(handle) is None:
            return INVALID_ARGUMENT
        minor._obj.value = (ctypes.cast(handle, ctypes.c_void_p).value or 0) - _HANDLES
        return SUCCESS

    def nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:
        gpu = self._gpu(handle)
        if gpu is None:
            return INVALID_ARGUMENT
        info = memory._obj
        info.total, info.used, info.free = gpu.total << 20, (gpu.reserved + gpu.used) << 20, gpu.free << 20
        return SUCCESS

    def nvmlDeviceGetMemoryInfo_v2(self, handle: Any, memory: Any) -> int:
        gpu, info = self._gpu(handle), memory._obj
        if gpu is None:
            return INVALID_ARGUMENT
        if info.version != MEMORY_V2:
            return VERSION_MISMATCH
        info.total, info.reserved, info.used, info.free = gpu.total << 20, gpu.reserved << 20, gpu.used << 20, gpu.free << 20
        return SUCCESS

    def nvmlDeviceGetUtilizationRates(self, handle: Any, rates: Any) -> int:
        gpu = self._gpu(handle)
        if gpu is None:
            return INVALID_ARGUMENT
        rates._obj.gpu, rates._obj.memory = gpu.util_pct, gpu.util_pct // 2
        return SUCCESS

    def nvmlDeviceGetPowerUsage(self, handle: Any, milliwatts: Any) -> int:
        gpu = self._gpu(handle)
        if gpu is None:
            return INVALID_ARGUMENT
        milliwatts._obj.value = gpu.power_w * 1000
        return SUCCESS

    def nvmlDeviceGetTemperature(self, handle: Any, sensor: Any, celsius: Any) -> int:
        gpu = self._gpu(handle)
        if gpu is None or sensor.value != 0:
            return INVALID_ARGUMENT
        celsius._obj.value = gpu.temp_c
        return SUCCESS

    def nvmlDeviceGetTemperatureV(self, handle: Any, temperature: Any) -> int:
        gpu, info = self._gpu(handle), temperature._obj
        if info.version != TEMPERATURE_V1:
            return VERSION_MISMATCH
        if gpu is None or info.sensorType != 0:
            return INVALID_ARGUMENT
        info.temperature = gpu.temp_c
        return SUCCESS

    def nvmlDeviceGetClockInfo(self, handle: Any, domain: Any, mhz: Any) -> int:
        gpu = self._gpu(handle)
        if gpu is None:
            return INVALID_ARGUMENT
        if domain.value != CLOCK_SM:
            return NOT_SUPPORTED
        mhz._obj.value = gpu.sm_mhz
        return SUCCESS

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: Any, reasons: Any) -> int:
        gpu = self._gpu(handle)
        if gpu is None:
            return INVALID_ARGUMENT
        reasons._obj.value = 0 if gpu.util_pct else GPU_IDLE
        return SUCCESS

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any, count: Any, rows: Any) -> int:
        gpu = self._gpu(handle)
        if gpu is None:
            return INVALID_ARGUMENT
        room, count._obj.value = count._obj.value, len(gpu.procs)
        if len(gpu.procs) > room:
            return INSUFFICIENT_SIZE
        for slot, (pid, mib) in enumerate(gpu.procs):
            row = rows[slot]
            row.pid, row.usedGpuMemory, row.gpuInstanceId, row.computeInstanceId = pid, mib << 20, NOT_MIG, NOT_MIG
        return SUCCESS

    def _no_processes(self, handle: Any, count: Any, rows: Any) -> int:
        count._obj.value = 0
        return INVALID_ARGUMENT if self._gpu(handle) is None else SUCCESS

    nvmlDeviceGetGraphicsRunningProcesses_v3 = _no_processes
    nvmlDeviceGetMPSComputeRunningProcesses_v3 = _no_processes
