"""A host on which no GPUs are expected: nothing is verified, which is recorded, and refused where the driver reads some all the same."""

from typing import Any, Dict

from pipeline.contract import free
from pipeline.contract.clock import boot_s
from pipeline.host import audit, procs
from pipeline.host.nvml import INIT_ERRORS
from pipeline.host.nvml_session import LIGHT, Session

WHAT = "no GPUs expected"
"""Of the line in the audit log."""
HINT = "set expected_gpus of this host in hosts.toml; an override needs a reason, which is logged"
_NO_DRIVER = (9, 12)
"""NVML's errors that say so: not loaded, no library. With any other one there is a driver, and there may be GPUs."""
_LINE = "no GPUs are expected on this host: nothing was verified"


def evidence(nvml: Session, what: Dict[str, Any]) -> Dict[str, Any]:
    """As ``gpu_gate.verify``'s, of one reading: ``free`` is None where there are none, False where there are, or that cannot be told."""
    began = boot_s()
    reading, why = nvml.read(LIGHT)
    count = len(reading["gpus"]) if reading is not None else 0
    line, free_now = _LINE, None
    if count:
        line, free_now = "this host has %d GPUs, and none are expected" % count, False
    elif reading is None and not any(INIT_ERRORS[code] in why for code in _NO_DRIVER):  # there may be a driver, then
        line, free_now = "no GPUs are expected on this host, and whether it has none cannot be told: %s" % why, False
    told = dict(what, free=free_now, accepted=False, line=line, verdict=free.CANNOT_TELL, exit_code=free.EXIT_CANNOT_TELL)
    told.update(gpus=[], cards=[], holders=[], boot_id=procs.this_boot(), boot_s=round(boot_s(), 3), took_s=round(boot_s() - began, 3))
    return dict(told, driver=(reading or {}).get("driver"), simulated=bool((reading or {}).get("simulated")))


def record(data_dir: str, request: Dict[str, Any], found: Dict[str, Any]) -> None:
    """Raises OSError."""
    line = {"what": WHAT, "by": str(request.get("by"))[:200], "line": found["line"]}
    audit.append(data_dir, {**line, **{name: request[name] for name in ("run", "stage", "attempt")}})
