"""The process that reads NVML: one line on stdin, one JSON line with a full reading on stdout.

The line is empty, or says whether process lists are to be read anew: ``full`` or ``light``.

A call into the driver can hang for ever and cannot be cancelled, so it happens here and not in the agent, which keeps a deadline
(``nvml_client``). ``EAGLEWATCH_NVML=module:function`` names a callable that gets the pynvml module and plugs a stand-in beneath it;
readings then say ``simulated``.
"""

import json
import os
import signal
import sys
from typing import Any, Dict, List

from pipeline.contract.clock import boot_s
from pipeline.host.nvml_read import DriverGoneError, Reader

STAND_IN = "EAGLEWATCH_NVML"
_PR_SET_PDEATHSIG = 1

INIT_ERRORS = {
    4: "no permission to talk to the NVIDIA driver: check the rights of /dev/nvidiactl and the container's device rules",
    9: "the NVIDIA kernel driver is not loaded: load it (nvidia-smi must work) or reboot the host",
    12: "no NVIDIA driver library (libnvidia-ml.so.1) found: install the driver, or give the container the NVIDIA runtime",
    18: "the NVIDIA library and the loaded kernel driver are of different versions, as after an upgrade: reboot, or reload the driver",
    999: "the NVIDIA driver answers 'unknown error'; in a container, systemctl daemon-reload may have taken its devices: restart it",
}
"""By NVML's error code (nvml.h)."""


def main(arguments: List[str]) -> int:
    """Answer until stdin ends. Ends with 3 after an answer that holds only ``error``: a fresh process may fare better."""
    _die_with_parent()
    reader = None
    while True:
        asked = os.read(0, 4096)
        if not asked:
            return 0
        for word in asked.split(b"\n")[:-1]:
            try:
                if reader is None:
                    reader = _start()
                answer = _read(reader, word)
            except _NoReadingError as error:
                answer = {"error": str(error), "boot_s": round(boot_s(), 3), "simulated": STAND_IN in os.environ}
            _write(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
            if "error" in answer:
                return 3


class _NoReadingError(Exception):
    pass


def _read(reader: Reader, word: bytes) -> Dict[str, Any]:
    try:
        return reader.read({b"full": True, b"light": False}.get(word.strip()))
    except DriverGoneError as error:
        raise _NoReadingError(_sentence(error.code)) from None
    except Exception as error:  # whatever library and driver disagree about must reach the screen as words
        raise _NoReadingError("reading the GPUs failed: %s: %s" % (type(error).__name__, error)) from None


def _start() -> Reader:
    try:
        import pynvml
    except Exception as error:
        raise _NoReadingError("the shipped nvidia-ml-py does not load: %s: %s" % (type(error).__name__, error)) from None
    stand_in = os.environ.get(STAND_IN)
    if stand_in:
        _plug_in(stand_in, pynvml)
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise _NoReadingError(_sentence(getattr(error, "value", 999))) from None
    return Reader(pynvml, simulated=bool(stand_in))


def _plug_in(stand_in: str, pynvml: Any) -> None:
    module, _, function = stand_in.partition(":")
    try:
        __import__(module)
        getattr(sys.modules[module], function)(pynvml)
    except Exception as error:
        raise _NoReadingError("%s=%s cannot be used: %s: %s" % (STAND_IN, stand_in, type(error).__name__, error)) from None


def _sentence(code: int) -> str:
    return INIT_ERRORS.get(code, "NVML does not work: error %d" % code)


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def _die_with_parent() -> None:
    """A process that hangs in the driver never sees its stdin end: let the kernel end it with the agent."""
    parent = os.getppid()
    try:
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return
    if os.getppid() != parent:
        os._exit(0)
