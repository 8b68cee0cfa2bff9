"""The gate before a stage that needs GPUs: it is claimed only right after those were verified free, or with a reason that is recorded.

Verified means what it means to the action that frees GPUs: five readings, a look at every process, each expected GPU at 0 MiB or at an
idle baseline that was accepted for the run.
"""

import json
import os
import sys
from typing import Any, Callable, Dict, List, Optional

from pipeline.contract import free, transition
from pipeline.contract.clock import boot_s
from pipeline.contract.stages import STAGES
from pipeline.contract.telemetry import REFUSED
from pipeline.host import (
    asked_child,
    baseline,
    evidence_age,
    free_order,
    free_survey,
    free_verify,
    gpu_claim,
    holders,
    launch,
    no_gpus,
    procs,
)
from pipeline.host.errors import BUSY, USAGE, RequestError
from pipeline.host.gpu_claim import Evidence, StageHeldError
from pipeline.host.nvml_session import Session

_CARD = ("index", "uuid", "name", "total_bytes", "reserved_bytes", "reserve_apart", "used_bytes", "error")
_LOCK_S = 5.0
_TRIES = 5
"""Of five readings each, while memory is seen to fall and nobody is on it: whoever had it has just ended."""
_LONGEST_S = 40.0
"""After that no other five: whoever asked would be told nothing after ``asked_child.DEADLINE_S``."""


class GatedLaunch:
    """A launch under way; ``poll`` until it answers. Nothing here blocks. Raises RequestError when it cannot be carried out."""

    def __init__(self, data_dir: str, request: Dict[str, Any], code_dir: str):
        self._data_dir, self._request, self._code_dir = os.path.abspath(data_dir), request, code_dir
        self._launch: Optional[launch.Launch] = None
        self._gate: Optional[asked_child.AskedChild] = None
        self._evidence: Optional[Evidence] = None
        self._held: Optional[StageHeldError] = None
        self._deadline_s, self._anew = float("inf"), 1
        launch.check(self._data_dir, request)
        what = asked(request)
        if what is None or gpu_claim.begun(self._data_dir, request):
            self._launch = launch.Launch(self._data_dir, request, code_dir)
        else:
            try:
                if what["expected_gpus"]:
                    gpu_claim.check_taken(self._data_dir, what, request)
            except StageHeldError as error:
                self._held = error
                return
            self._words = ["gpu-gate", self._data_dir, json.dumps(dict(what, none_expected=not what["expected_gpus"]))]
            self._verify_anew()

    def poll(self) -> Optional[Dict[str, Any]]:
        """The reply, or None: ask again in some 50 ms. Raises RequestError."""
        if self._launch is not None:
            return self._launch.poll()
        if self._held is not None:
            return self._refused(self._held)
        if self._evidence is None:
            assert self._gate is not None
            self._evidence = self._gate.poll()
            self._deadline_s = boot_s() + _LOCK_S
        if self._evidence is not None:
            try:
                self._launch = gpu_claim.claim(self._data_dir, self._request, self._code_dir, self._evidence)
            except StageHeldError as error:
                return self._refused(error)
            except evidence_age.StaleEvidenceError:
                self._anew -= 1
                if self._anew < 0:
                    raise
                self._verify_anew()
            if self._launch is not None:
                return self._launch.poll()  # at once: what is claimed is started, even if nobody asks again
            if boot_s() > self._deadline_s:
                raise RequestError(BUSY, "another stage that needs GPUs is being claimed", "ask again")
        return None

    def _verify_anew(self) -> None:
        self._evidence, self._deadline_s = None, float("inf")
        self._gate = asked_child.AskedChild("the verification of the GPUs", self._code_dir, self._words)

    def _refused(self, error: StageHeldError) -> Dict[str, Any]:
        """As the shim refuses a stage that is held; nothing was claimed, so that nothing can start when the other one ends."""
        reply = {"attempt": self._request["attempt"], "state": REFUSED, "why": str(error), "holder": error.holder, "existing": False}
        return dict(reply, pid=None, exit=None, log_tail="")


def asked(request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """What a launch says of the GPUs: {run, label, expected_gpus, gpu_uuids, wanted, override}; None when its stage needs none.

    Raises RequestError.
    """
    stage, gpus = request.get("stage"), request.get("gpus")
    if not isinstance(stage, str) or stage not in STAGES or not transition.needs_gpus(stage, request.get("args")):
        return None
    override = request.get("override")
    if override is not None and not (isinstance(override, str) and override.strip()):
        raise RequestError(USAGE, "override: the reason, as text: it is logged")
    reason = " ".join(override.split())[:500] if override else None
    if not isinstance(gpus, dict):
        raise RequestError(USAGE, "%s needs GPUs: say which, `gpus`: {expected_gpus, gpu_uuids, wanted}" % stage, "0: this host has none")
    if gpus.get("expected_gpus") == 0 and type(gpus["expected_gpus"]) is int:
        return {"run": request.get("run"), "expected_gpus": 0, "gpu_uuids": [], "wanted": [], "override": reason}
    return dict(free_order.asked(dict(gpus, run=request.get("run"))), override=reason)


def verify(
    nvml: Session, data_dir: str, what: Dict[str, Any], cancelled: Callable[[], bool] = lambda: False, interval_s: float = 1.0
) -> Evidence:
    """Read five times, look at all processes, judge; again while memory is being released. Raises forked.CancelledError."""
    began = boot_s()

    def look(reading: Optional[Dict[str, Any]]) -> holders.Holders:
        return holders.look(reading, data_dir, what["run"], free_survey.device_root(), cancelled)

    known = baseline.load(data_dir)
    for _ in range(_TRIES):
        verified = free_verify.verify_free(
            nvml, free_order.expected(what), look, interval_s, known, cancelled=cancelled, others_end_it=True
        )
        if not _only_releasing(verified.gpus) or boot_s() - began > _LONGEST_S:
            break
    gate = free_verify.free_for_stage(verified, baseline.accepted(data_dir, what["run"], verified.driver))
    on = [one for gpu in verified.gpus for one in gpu["holders"]]
    rows = {str(free.key(row)): row for look in verified.looks for row in look.rows if free.key(row) in on}
    return dict(
        what,
        **gate,
        verdict=verified.result["verdict"],
        exit_code=verified.result["exit_code"],
        gpus=[[gpu["index"], gpu["verdict"], gpu["detail"][:200]] for gpu in verified.gpus],
        cards=[{name: gpu.get(name) for name in _CARD} for gpu in (verified.readings[-1]["gpus"] if verified.readings else [])],
        holders=[[row["pid"], row["start_ticks"], row["user"], (row["title"] or "")[:120]] for row in rows.values()],
        boot_id=procs.this_boot(),
        read_boot_s=verified.readings[-1].get("boot_s") if verified.readings else None,
        boot_s=round(boot_s(), 3),
        took_s=round(boot_s() - began, 3),
        driver=verified.driver,
        simulated=bool(verified.readings and verified.readings[0].get("simulated")),
    )


def _only_releasing(gpus: List[Dict[str, Any]]) -> bool:
    kinds = {gpu["kind"] for gpu in gpus}
    return free.RELEASING in kinds and kinds <= {free.RELEASING, free.ZERO, free.BASELINE}


def main(arguments: List[str]) -> int:
    """``gpu-gate DATA WHAT``: print the evidence as one line of JSON."""
    if len(arguments) != 2:
        print("use: gpu-gate DATA WHAT", file=sys.stderr)
        return 2
    nvml = Session(arguments[0])
    try:
        what = json.loads(arguments[1])
        none_expected = what.pop("none_expected", False)  # 0 of a start by hand: as many as there are
        evidence = no_gpus.evidence(nvml, what) if none_expected else verify(nvml, arguments[0], what)
    finally:
        nvml.close()
    asked_child.answer(evidence)
    return 0
