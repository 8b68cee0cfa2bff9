"""What a preflight has to know of the GPUs: the gate's own verification, whether they are the expected ones, and the idle baseline."""

import json
import sys
from typing import Any, Dict, List

from pipeline.contract import free
from pipeline.host import asked_child, baseline, free_order, gpu_gate, procs
from pipeline.host.nvml_session import Session


def look(nvml: Session, data_dir: str, what: Dict[str, Any]) -> Dict[str, Any]:
    """The evidence of ``gpu_gate.verify``, and {trouble, baseline: {needed, recorded {UUID: bytes}, accepted {UUID: bytes}, unprovable}}.

    ``what``: {run, expected_gpus (0: as many as there are), gpu_uuids, wanted}. ``needed``: a GPU is idle, and not at 0 MiB.
    """
    evidence = gpu_gate.verify(nvml, data_dir, what)
    trouble = free_order.expected(what).trouble({"gpus": evidence["cards"]}, strict=False) if evidence["cards"] else ""
    now = (procs.this_boot(), evidence["driver"])
    known = {uuid: one["bytes"] for uuid, one in baseline.load(data_dir).items() if (one.get("boot_id"), one.get("driver")) == now}
    here = [str(card["uuid"]) for card in evidence["cards"]]
    idle = {
        "needed": evidence["exit_code"] == free.EXIT_BASELINE,
        "recorded": {uuid: known[uuid] for uuid in here if isinstance(known.get(uuid), int)},
        "accepted": baseline.accepted(data_dir, what["run"], evidence["driver"]),
        "unprovable": evidence["unprovable"],
    }
    return dict(evidence, trouble=trouble, baseline=idle)


def main(arguments: List[str]) -> int:
    """``gpu-check DATA WHAT``: print it as one line of JSON."""
    if len(arguments) != 2:
        print("use: gpu-check DATA WHAT", file=sys.stderr)
        return 2
    nvml = Session(arguments[0])
    try:
        found = look(nvml, arguments[0], json.loads(arguments[1]))
    finally:
        nvml.close()
    asked_child.answer(found)
    return 0
