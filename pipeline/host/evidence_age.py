"""How old the evidence may be on which a stage gets GPUs: what was free then says nothing of now, whatever was frozen meanwhile."""

from typing import Any, Dict

from pipeline.contract.clock import boot_s
from pipeline.contract.telemetry import number
from pipeline.host import procs
from pipeline.host.errors import BUSY, RequestError

CLAIM_S, SPAWN_S = 10.0, 20.0
"""After the last reading: at the claim, and when the job is about to be started."""


class StaleEvidenceError(RequestError):
    """The GPUs must be verified anew."""


def check(evidence: Dict[str, Any], most_s: float) -> None:
    """Raises StaleEvidenceError. Where nothing was verified, or a reason overrides what was, there is nothing to grow old."""
    if evidence.get("override") or (evidence.get("expected_gpus") == 0 and evidence.get("free") is None):
        return
    read_s = number(evidence.get("read_boot_s"))
    if evidence.get("boot_id") != procs.this_boot() or read_s is None:
        raise StaleEvidenceError(BUSY, "when the GPUs were verified free is not known", "nothing was started; start it again")
    age_s = boot_s() - read_s
    if not 0 <= age_s <= most_s:
        told = "the GPUs were verified free %.0f s ago, and %.0f s is the most: that says nothing of now" % (age_s, most_s)
        raise StaleEvidenceError(BUSY, told, "nothing was started; start it again")
