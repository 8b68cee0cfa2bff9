"""One look at GPUs and processes, and the plan that comes of it. ``free-plan`` is the agent's way to it: a child with a deadline."""

import json
import os
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

from pipeline.host import asked_child, free_order, free_plan, holders
from pipeline.host.asked_child import AskedChild
from pipeline.host.nvml_session import FULL, Session

DEVICES = "EAGLEWATCH_DEV"
"""For tests: the directory that stands for /dev; plain files in it then count as devices."""


def device_root() -> str:
    return os.environ.get(DEVICES) or "/dev"


def survey(
    nvml: Session, data_dir: str, what: Dict[str, Any], cancelled: Callable[[], bool] = lambda: False
) -> Tuple[free_order.Plan, Optional[Dict[str, Any]], holders.Holders]:
    """(plan, reading or None, look). Read-only, bounded. Raises forked.CancelledError."""
    reading, why = nvml.read(FULL, cancelled)
    look = holders.look(reading, data_dir, what["run"], device_root(), cancelled)
    return free_plan.make(what, reading, why, look), reading, look


class PlanRequest(AskedChild):
    """``free.plan`` under way; raises RequestError for a request that makes no sense."""

    def __init__(self, data_dir: str, request: Dict[str, Any], code_dir: str, deadline_s: float = asked_child.DEADLINE_S):
        what = free_order.asked(request)
        super().__init__("the look at GPUs and processes", code_dir, ["free-plan", data_dir, json.dumps(what)], deadline_s)

    def poll(self) -> Optional[Dict[str, Any]]:
        """{plan}, or None: ask again in some 50 ms. Raises RequestError when there will be none."""
        plan = super().poll()
        return None if plan is None else {"plan": plan}


def main(arguments: List[str]) -> int:
    """``free-plan DATA REQUEST``: print the plan as one line of JSON."""
    if len(arguments) != 2:
        print("use: free-plan DATA REQUEST", file=sys.stderr)
        return 2
    nvml = Session(arguments[0])
    try:
        plan, _, _ = survey(nvml, arguments[0], json.loads(arguments[1]))
    finally:
        nvml.close()
    asked_child.answer(plan)
    return 0
