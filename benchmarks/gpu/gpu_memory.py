"""What GPU 0 holds, asked of NVML."""

import time


def gpu_bytes() -> int:
    """Used bytes of GPU 0 by NVML's v2 memory info."""
    import pynvml

    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used)
    finally:
        pynvml.nvmlShutdown()


def seconds_to_zero(limit_s: float = 60.0) -> float | None:
    """Seconds until GPU 0 is at 0 bytes; None when it is not within ``limit_s``."""
    began = time.monotonic()
    while time.monotonic() - began < limit_s:
        if gpu_bytes() == 0:
            return round(time.monotonic() - began, 2)
        time.sleep(0.05)
    return None
