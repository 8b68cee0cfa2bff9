"""What each GPU holds when it is provably idle: recorded by UUID, accepted by the operator for a run, never called 0.

Idle cards show 0 to 8 MiB that no process holds. ``DATA/gpu-baseline.json``: {gpus: {UUID: {bytes, reopened_bytes, ours_closed, driver,
boot_id, wall_s, attempt}}}. ``DATA/runs/RUN/baseline-accepted.json``: {gpus: {UUID: bytes}, by, wall_s, boot_id, driver}.
"""

import os
import time
from typing import Any, Dict, List, Optional, Sequence

from pipeline.contract import free, layout
from pipeline.contract.files import read_json, write_json
from pipeline.host import asked, audit, procs
from pipeline.host.errors import FAILED, MISSING, USAGE, RequestError

Recorded = Dict[str, Dict[str, Any]]


def load(data_dir: str) -> Recorded:
    """{UUID: entry}, of any boot; {} when nothing was recorded."""
    gpus = (read_json(os.path.join(data_dir, layout.BASELINE)) or {}).get("gpus")
    return {uuid: one for uuid, one in gpus.items() if isinstance(one, dict)} if isinstance(gpus, dict) else {}


def record(
    data_dir: str, gpus: Sequence[Dict[str, Any]], driver: Optional[str], attempt: str, reopened: Dict[str, int], ours_closed: bool
) -> Recorded:
    """Keep what these idle GPUs held (``judge_gpu`` entries of kind zero or baseline); what other GPUs held before stays. Raises OSError.

    ``reopened`` is what each held when our own NVML handle had been closed once; ``ours_closed``: no other of ours was open then.
    """
    known = load(data_dir)
    for gpu in gpus:
        entry = {"bytes": max(gpu["used_bytes"]), "reopened_bytes": reopened.get(gpu["uuid"]), "ours_closed": ours_closed}
        entry.update(driver=driver, boot_id=procs.this_boot(), wall_s=round(time.time(), 3), attempt=attempt)
        known[gpu["uuid"]] = entry
    write_json(os.path.join(data_dir, layout.BASELINE), {"gpus": known})
    return known


def provable(gpu: Dict[str, Any]) -> bool:
    """Whether this verdict is of a provably idle GPU: nobody on it, nobody with it open, everything looked at, stable, small."""
    return gpu["kind"] in (free.ZERO, free.BASELINE) and gpu["complete"] and not gpu["holders"] and not gpu["looks_on"]


def accept(data_dir: str, request: Dict[str, Any]) -> Dict[str, Any]:
    """Answer ``baseline.accept``: {accepted: {UUID: bytes}, driver}. ``gpus`` in the request must be what was recorded since this boot.

    Raises RequestError: ``usage``, ``missing`` without a record or a run, ``failed``.
    """
    run, gpus = request.get("run"), request.get("gpus")
    if not isinstance(request.get("by"), str) or not request["by"]:
        raise RequestError(USAGE, "baseline.accept takes `by`: who accepts it")
    if not isinstance(gpus, dict) or not gpus or not all(type(one) is int for one in gpus.values()):
        raise RequestError(USAGE, "baseline.accept takes `gpus`: {UUID: bytes}, as recorded and shown")
    directory = asked.existing_run(data_dir, run)
    known = load(data_dir)
    drivers = set()
    for uuid, size in gpus.items():
        entry = known.get(uuid)
        if entry is None or entry.get("boot_id") != procs.this_boot():
            raise RequestError(MISSING, "no idle baseline of %s was recorded since this boot" % uuid, "free the GPUs first")
        if entry.get("bytes") != size:
            raise RequestError(USAGE, "%s: %d bytes were shown, %s are recorded" % (uuid, size, entry.get("bytes")), "look again")
        if size > free.IDLE_CAP_BYTES:
            raise RequestError(USAGE, "%s: %d MiB are no idle baseline" % (uuid, free.mib(size)))
        drivers.add(entry.get("driver"))
    value = {"gpus": gpus, "by": asked.by(request), "wall_s": round(time.time(), 3), "boot_id": procs.this_boot(), "driver": drivers.pop()}
    try:
        audit.append(data_dir, dict(value, what="baseline-accept", run=run))
        write_json(os.path.join(directory, layout.ACCEPTED), value)
    except OSError as error:
        raise RequestError(FAILED, "%s: cannot write it: %s" % (directory, error.strerror)) from None
    return {"accepted": gpus, "driver": value["driver"]}


def accepted(data_dir: str, run: str, driver: Optional[str] = None) -> Dict[str, int]:
    """{UUID: bytes} that counts now: accepted for this run, since this boot, with this driver (None: whichever)."""
    try:
        value = read_json(os.path.join(layout.run_dir(data_dir, run), layout.ACCEPTED)) or {}
    except ValueError:
        return {}
    gpus = value.get("gpus")
    if value.get("boot_id") != procs.this_boot() or not isinstance(gpus, dict) or (driver is not None and value.get("driver") != driver):
        return {}
    return {uuid: one for uuid, one in gpus.items() if type(one) is int and one <= free.IDLE_CAP_BYTES}


def recorded(data_dir: str) -> Dict[str, int]:
    """{UUID: bytes} recorded since this boot: what ``accept`` takes."""
    now = procs.this_boot()
    found = {uuid: one.get("bytes") for uuid, one in load(data_dir).items() if one.get("boot_id") == now}
    return {uuid: size for uuid, size in found.items() if type(size) is int and size <= free.IDLE_CAP_BYTES}


def covers(gpu: Dict[str, Any], accepted_bytes: Dict[str, int]) -> bool:
    """Whether an idle GPU holds no more than was accepted of it."""
    return provable(gpu) and max(gpu["used_bytes"]) <= accepted_bytes.get(gpu["uuid"], -1)


def line(gpus: List[Dict[str, Any]]) -> str:
    """``baseline accepted: 0,0,0,1,1,1,3,3 MiB, no holder``."""
    return "baseline accepted: %s MiB, no holder" % ",".join(str(free.mib(max(gpu["used_bytes"]))) for gpu in gpus)
