"""Entry of the shipped bundle: ``python DATA/code/HASH PART ...``, PART being one of the names below."""

import importlib
import sys
from typing import List, Optional

_PARTS = {
    "agent": "agent",
    "supervise": "supervisor",
    "shim": "shim",
    "nvml": "nvml",
    "observe-dir": "observe_child",
    "count": "full_count",
    "free-plan": "free_survey",
    "free-gpus": "free_gpus",
    "gpu-check": "gpu_check",
    "gpu-gate": "gpu_gate",
    "transition-plan": "transition_plan",
    "transition": "transition",
    "lookout": "lookout",
    "alert": "alert_send",
    "retry": "retry",
    "dump": "dump",
}


def main(arguments: Optional[List[str]] = None) -> int:
    """Run one part of the host program with the arguments after its name; returns its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] not in _PARTS:
        print(f"use: python {sys.argv[0]} {'|'.join(_PARTS)} ...", file=sys.stderr)
        return 2
    part = importlib.import_module("pipeline.host." + _PARTS[arguments[0]])
    return part.main(arguments[1:]) or 0
